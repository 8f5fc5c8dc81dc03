/** The file of the mirror from outside, without opening it: its size, whether compacting it is worth it, and its locks. */

import { statSync } from 'node:fs';
import type { ReadFile } from '../configuration/file.ts';

/** Compacting for less is not worth the time it takes. */
const LEAST_RECLAIMED_BYTES = 256_000_000;
/** A reload needs space for the old and the new table, and leaves up to half of the file free behind. */
const LEAST_FREE_SHARE = 0.5;

export interface MirrorSize {
  /** Of the file and its log; 0 where there is no file, or it cannot be examined. */
  readonly bytes: number;
  /** The unused bytes of the file; null where they are not known. */
  readonly freeBytes: number | null;
}

export function isWorthCompacting({ bytes, freeBytes }: MirrorSize): boolean {
  return freeBytes !== null && freeBytes >= LEAST_RECLAIMED_BYTES && freeBytes > bytes * LEAST_FREE_SHARE;
}

/** The size of the file at the path and its log; 0 where there is no file, or it cannot be examined. */
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

export function mirrorLocks(path: string, readFile: ReadFile): readonly FileLock[] {
  try {
    const file = statSync(path, { throwIfNoEntry: false });
    return file === undefined ? [] : locksOn(file, readFile('/proc/locks'));
  } catch {
    // Only Linux lists the locks; opening the mirror names a writer on every system.
    return [];
  }
}

export interface FileLock {
  readonly pid: number;
  /** A reader admits other readers; a writer admits nobody. */
  readonly mode: 'reads' | 'writes';
}

/** The device and the number of a file, as `stat` gives them. */
interface FileIdentity {
  readonly dev: number;
  readonly ino: number;
}

/** `1: POSIX  ADVISORY  WRITE 1234 fe:00:131 0 EOF`; a line that waits for a lock has an arrow before its kind. */
const LINE = /^\d+: POSIX\s+\S+\s+(READ|WRITE)\s+(\d+)\s+([\da-f]+):([\da-f]+):(\d+)\s/;

/** `locks` is the text of /proc/locks. A process that both reads and writes is listed once, as a writer. */
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
