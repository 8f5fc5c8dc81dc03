/** The faults of a disk: which there are, which one a seed means, and what it does to the bytes of a file. */

import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { seededRandom } from '../exploration/random.ts';

/** How the installation was left: caught up; with news it has not taken; killed before a CHECKPOINT. */
export const STATES = ['ended', 'behind', 'killed'] as const;
export type State = (typeof STATES)[number];

export const FILES = {
  mirror: 'data/mirror.duckdb',
  log: 'data/mirror.duckdb.wal',
  checkpoint: 'data/checkpoint.sqlite',
  copy: 'out/copy.duckdb',
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
const FILES_TO_DRAW: readonly File[] = ['mirror', 'mirror', 'mirror', 'log', 'checkpoint', 'copy'];
const SECTOR_BYTES = 512;
/** A DuckDB file begins with three headers, followed by blocks; the others have pages. */
const HEADERS_BYTES = 3 * 4_096;
const BLOCK_BYTES = 262_144;
const PAGE_BYTES = 4_096;

export function faultOf(seed: number): Fault {
  const next = seededRandom(seed);
  for (let round = 0; round < 8; round += 1) next();
  const file = chosen(FILES_TO_DRAW, next);
  const state = file === 'log' ? 'killed' : chosen(STATES, next);
  return { seed, state, file, kind: chosen(KINDS, next), next };
}

/**
 * Damages the file in the folder of an installation. `earlier`: the folder of the same installation at an earlier time.
 * Returns what was done, in words.
 */
export function damage({ file, kind, next }: Fault, home: string, earlier: string): string {
  const path = join(home, FILES[file]);
  const bytes = readFileSync(path);
  const isDuckDb = file === 'mirror' || file === 'copy';
  const blocks = isDuckDb ? blocksOf(bytes, HEADERS_BYTES, BLOCK_BYTES) : blocksOf(bytes, 0, PAGE_BYTES);
  const block = chosen(blocks, next);
  switch (kind) {
    case 'bit': {
      const at = Math.floor(next() * bytes.length);
      bytes[at] = (bytes[at] ?? 0) ^ (1 << Math.floor(next() * 8));
      writeFileSync(path, bytes);
      return `a bit at ${at}`;
    }
    case 'sector': {
      const at = Math.floor((next() * bytes.length) / SECTOR_BYTES) * SECTOR_BYTES;
      writeFileSync(path, bytes.fill(0, at, at + SECTOR_BYTES));
      return `a sector of zeroes at ${at}`;
    }
    case 'block':
      writeFileSync(path, bytes.fill(0, block.from, block.to));
      return `zeroes from ${block.from} on`;
    case 'swapped':
    case 'misplaced': {
      const other = chosen(blocks, next);
      const [one, two] = [part(bytes, block), part(bytes, other)];
      one.copy(bytes, other.from);
      if (kind === 'swapped') two.copy(bytes, block.from);
      writeFileSync(path, bytes);
      return `what was at ${block.from} is at ${other.from}`;
    }
    case 'stale': {
      const place = join(earlier, FILES[file]);
      const before = existsSync(place) ? readFileSync(place) : Buffer.alloc(0);
      const changed = blocks.filter(
        (one) => one.to <= before.length && !part(before, one).equals(part(bytes, one)),
      );
      if (changed.length === 0) return 'nothing: no block has changed';
      const stale = chosen(changed, next);
      part(before, stale).copy(bytes, stale.from);
      writeFileSync(path, bytes);
      return `what was at ${stale.from} before`;
    }
    case 'cut': {
      const at = Math.floor(next() * bytes.length);
      writeFileSync(path, bytes.subarray(0, at));
      return `cut at ${at}`;
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
  return Buffer.from(bytes.subarray(from, to));
}

function chosen<T>(list: readonly T[], next: () => number): T {
  const one = list[Math.floor(next() * list.length)];
  if (one === undefined) throw new Error('there is nothing to choose from');
  return one;
}
