/** The faults of a disk: which there are, which one a seed means, and what it does to the bytes of a file. */

import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { seededRandom } from '../exploration/random.ts';

/**
 * How the installation was left: caught up; with news it has not taken; killed before a CHECKPOINT; killed while it downloaded snapshots;
 * killed before it committed changes; with commits that wait for approval.
 */
export const STATES = ['ended', 'behind', 'killed', 'loading', 'applying', 'waiting'] as const;
export type State = (typeof STATES)[number];

export const FILES = {
  mirror: 'data/mirror.duckdb',
  log: 'data/mirror.duckdb.wal',
  checkpoint: 'data/checkpoint.sqlite',
  copy: 'out/copy.duckdb',
  /** One of the files in it. */
  staged: 'data/staging',
} as const;
export type File = keyof typeof FILES;

export const KINDS = ['bit', 'sector', 'block', 'swapped', 'misplaced', 'stale', 'cut'] as const;
export type Kind = (typeof KINDS)[number];

export interface Fault {
  readonly seed: number;
  readonly state: State;
  readonly file: File;
  readonly kind: Kind;
  /** Draws the place: at least 0 and below 1. */
  readonly next: () => number;
}

/** The mirror is the largest file and the one that is read most. */
const FILES_TO_DRAW: readonly File[] = ['mirror', 'mirror', 'mirror', 'log', 'checkpoint', 'copy', 'staged'];
/** The states in which there is such a file. */
const STATES_OF: Readonly<Partial<Record<File, readonly State[]>>> = {
  log: ['killed'],
  staged: ['loading', 'applying', 'waiting'],
};
const SECTOR_BYTES = 512;
/** A DuckDB file begins with three headers, followed by blocks; the others have pages. */
const HEADERS_BYTES = 3 * 4_096;
const BLOCK_BYTES = 262_144;
const PAGE_BYTES = 4_096;

export function faultOf(seed: number): Fault {
  const next = seededRandom(seed);
  for (let round = 0; round < 8; round += 1) next();
  const file = chosen(FILES_TO_DRAW, next);
  const state = chosen(STATES_OF[file] ?? STATES, next);
  return { seed, state, file, kind: chosen(KINDS, next), next };
}

export interface Damage {
  /** The damaged file in the folder of the installation. */
  readonly name: string;
  readonly bytes: Buffer;
  /** What was done, in words. */
  readonly done: string;
  /** False where the bytes are what they were: zeroes in the place of zeroes. */
  readonly isChange: boolean;
}

/**
 * Returns the damaged bytes of a file in the folder of an installation, which stays as it is. `earlier`: the folder of the same
 * installation at an earlier time.
 */
export function damageOf(
  { file, kind, next }: Pick<Fault, 'file' | 'kind' | 'next'>,
  home: string,
  earlier: string,
): Damage {
  const name = file === 'staged' ? chosen(stagedFiles(home), next) : FILES[file];
  const bytes = readFileSync(join(home, name));
  const before = join(earlier, name);
  const isDuckDb = file === 'mirror' || file === 'copy';
  const damaged = damagedBytes(kind, {
    bytes,
    blocks: isDuckDb ? blocksOf(bytes, HEADERS_BYTES, BLOCK_BYTES) : blocksOf(bytes, 0, PAGE_BYTES),
    earlier: existsSync(before) ? readFileSync(before) : Buffer.alloc(0),
    next,
  });
  return {
    name,
    bytes: damaged.bytes,
    done: file === 'staged' ? `${name}: ${damaged.done}` : damaged.done,
    isChange: !damaged.bytes.equals(bytes),
  };
}

/** In the folder of an installation, in order of their names. */
export function stagedFiles(home: string): readonly string[] {
  const folder = join(home, FILES.staged);
  const entries = existsSync(folder) ? readdirSync(folder, { recursive: true, withFileTypes: true }) : [];
  const files = entries.filter((one) => one.isFile()).map((one) => join(one.parentPath, one.name));
  return files.sort().map((path) => relative(home, path));
}

interface Damageable {
  readonly bytes: Buffer;
  readonly blocks: readonly Part[];
  readonly earlier: Buffer;
  readonly next: () => number;
}

/** The bytes that are given stay as they are. */
function damagedBytes(
  kind: Kind,
  { bytes: sound, blocks, earlier, next }: Damageable,
): { readonly bytes: Buffer; readonly done: string } {
  const bytes = Buffer.from(sound);
  const block = chosen(blocks, next);
  switch (kind) {
    case 'bit': {
      const at = Math.floor(next() * bytes.length);
      if (bytes.length > 0) bytes[at] = (bytes[at] ?? 0) ^ (1 << Math.floor(next() * 8));
      return { bytes, done: `a bit at ${at}` };
    }
    case 'sector': {
      const at = Math.floor((next() * bytes.length) / SECTOR_BYTES) * SECTOR_BYTES;
      const to = Math.min(at + SECTOR_BYTES, bytes.length);
      return { bytes: bytes.fill(0, at, to), done: `a sector of zeroes at ${at}` };
    }
    case 'block':
      return { bytes: bytes.fill(0, block.from, block.to), done: `zeroes from ${block.from} on` };
    case 'swapped':
    case 'misplaced': {
      const other = chosen(blocks, next);
      part(sound, block).copy(bytes, other.from);
      if (kind === 'swapped') part(sound, other).copy(bytes, block.from);
      return { bytes, done: `what was at ${block.from} is at ${other.from}` };
    }
    case 'stale': {
      const changed = blocks.filter(
        (one) => one.to <= earlier.length && !part(earlier, one).equals(part(bytes, one)),
      );
      if (changed.length === 0) return { bytes, done: 'nothing: no block has changed' };
      const stale = chosen(changed, next);
      part(earlier, stale).copy(bytes, stale.from);
      return { bytes, done: `what was at ${stale.from} before` };
    }
    case 'cut': {
      const at = Math.floor(next() * bytes.length);
      return { bytes: bytes.subarray(0, at), done: `cut at ${at}` };
    }
  }
}

interface Part {
  readonly from: number;
  readonly to: number;
}

function blocksOf({ length }: Buffer, first: number, bytes: number): readonly Part[] {
  const count = Math.max(1, Math.floor((length - first) / bytes));
  return Array.from({ length: count }, (_, index) => {
    const from = Math.min(first, length) + index * bytes;
    return { from, to: Math.min(length, from + bytes) };
  });
}

function part(bytes: Buffer, { from, to }: Part): Buffer {
  return bytes.subarray(from, to);
}

function chosen<T>(list: readonly T[], next: () => number): T {
  const one = list[Math.floor(next() * list.length)];
  if (one === undefined) throw new Error('there is nothing to choose from');
  return one;
}
