/** What a command sees of the mirror that works without it too: trouble with it is a finding, not an end. */

import { statSync } from 'node:fs';
import type { LocalConfiguration } from '../configuration/configuration.ts';
import type { ObservedState } from '../destination/destination.ts';
import { openReader } from '../destination/duckdb/reader.ts';
import { BusyError, ConfigurationError, StorageError } from '../model/errors.ts';
import type { Context } from './context.ts';

/** What the mirror has; null where there is none; 'busy' where it was not looked at yet; an error where it cannot be. */
export type MirrorSeen = MirrorContent | null | 'busy' | Error;

export interface MirrorContent extends ObservedState {
  /** Bytes of its file that hold nothing; null where nobody has looked. */
  readonly freeBytes: number | null;
}

/** A person who asks how things are does not want to wait for the mirror as long as a write does. */
const MAX_WAIT_MS = 5_000;

export async function seeMirror(
  configuration: LocalConfiguration,
  { clock, random, signal }: Context,
): Promise<MirrorSeen> {
  try {
    const { path } = configuration.destination;
    const waitMs = Math.min(configuration.lock.waitMs, MAX_WAIT_MS);
    const reader = await openReader({ path, waitMs, ...configuration.duckdb, clock, random, signal });
    if (reader === null) return null;
    try {
      return { ...(await reader.observed()), freeBytes: await reader.freeBytes() };
    } finally {
      await reader.close();
    }
  } catch (error) {
    const isFinding =
      error instanceof BusyError || error instanceof StorageError || error instanceof ConfigurationError;
    if (isFinding) return error;
    throw error;
  }
}

/** Null where it is not known. */
export function tablesOf(mirror: MirrorSeen): ObservedState['datasets'] | null {
  if (mirror === null) return new Map();
  return mirror === 'busy' || mirror instanceof Error ? null : mirror.datasets;
}

/** Less is not worth the trouble. */
const LEAST_WON_BYTES = 256_000_000;
/** A reload needs room for the table as it was and as it will be: half of the file free is what that leaves behind. */
const LEAST_FREE_SHARE = 0.5;

export interface MirrorSize {
  /** With its log; 0 where there is none, or it cannot be looked at. */
  readonly bytes: number;
  /** Of them, those that hold nothing; null where that is not known. */
  readonly freeBytes: number | null;
}

export function isWorthCompacting({ bytes, freeBytes }: MirrorSize): boolean {
  return freeBytes !== null && freeBytes >= LEAST_WON_BYTES && freeBytes > bytes * LEAST_FREE_SHARE;
}

/** Of the file at the path and its log; 0 where there is none, or it cannot be looked at. */
export function mirrorBytes(path: string): number {
  return bytesOf(path) + bytesOf(`${path}.wal`);
}

function bytesOf(path: string): number {
  try {
    return statSync(path).size;
  } catch {
    return 0;
  }
}

/** Their process ids, without our own and that of the running instance, whose work it is to have it open at times. */
export function mirrorHolders(
  path: string,
  { identity, readFile }: Pick<Context, 'identity' | 'readFile'>,
  instancePid: number | null,
): readonly number[] {
  const pids = mirrorLocks(path, readFile).map(({ pid }) => pid);
  return pids.filter((pid) => pid !== identity.pid && pid !== instancePid);
}

export function mirrorLocks(path: string, readFile: Context['readFile']): readonly FileLock[] {
  try {
    const file = statSync(path, { throwIfNoEntry: false });
    return file === undefined ? [] : locksOn(file, readFile('/proc/locks'));
  } catch {
    // Elsewhere than on Linux the system does not tell; opening the mirror will still name a writer.
    return [];
  }
}

export interface FileLock {
  readonly pid: number;
  /** A reader lets other readers in; a writer nobody. */
  readonly mode: 'reads' | 'writes';
}

/** The device and the number of a file, as `stat` gives them. */
interface FileIdentity {
  readonly dev: number;
  readonly ino: number;
}

/** `1: POSIX  ADVISORY  WRITE 1234 fe:00:131 0 EOF`; a line that waits for a lock has an arrow before its kind. */
const LINE = /^\d+: POSIX\s+\S+\s+(READ|WRITE)\s+(\d+)\s+([\da-f]+):([\da-f]+):(\d+)\s/;

/** `locks` is the text of /proc/locks. A process is told once, as a writer where it is both. */
export function locksOn({ dev, ino }: FileIdentity, locks: string): readonly FileLock[] {
  const modes = new Map<number, FileLock['mode']>();
  for (const line of locks.split('\n')) {
    const [, mode, pid, major, minor, inode] = LINE.exec(line) ?? [];
    if (mode === undefined || Number(inode) !== ino) continue;
    if (deviceOf(Number.parseInt(major ?? '', 16), Number.parseInt(minor ?? '', 16)) !== dev) continue;
    const known = modes.get(Number(pid));
    modes.set(Number(pid), mode === 'WRITE' || known === 'writes' ? 'writes' : 'reads');
  }
  return [...modes].map(([pid, mode]) => ({ pid, mode }));
}

/** How Linux puts the two numbers of a device into one. */
function deviceOf(major: number, minor: number): number {
  const low = (minor % 0x100) + (major % 0x1000) * 0x100;
  return low + Math.floor(minor / 0x100) * 0x100000 + Math.floor(major / 0x1000) * 0x1_0000_0000;
}
