/** How large the mirror is, and when to give back what of it holds nothing. Pure but for the looking at the file. */

import { statSync } from 'node:fs';

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
