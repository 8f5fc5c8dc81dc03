/** Keeps the reserve (disk.reserve) free: checked before a write of known size, and watched during a write of unknown size. */

import type { Clock } from './clock.ts';
import { freeBytes } from './files.ts';
import { formatBytes } from './units.ts';

/**
 * Returns a message where `neededBytes` in `folder` would take a part of the reserve, else null. `who` names the files that
 * need the space, with a verb: `a new mirror needs`.
 */
export async function spaceShortage(
  folder: string,
  neededBytes: number,
  reserveBytes: number,
  who: string,
): Promise<string | null> {
  const free = await freeBytes(folder);
  if (free - neededBytes >= reserveBytes) return null;
  const needed = `${formatBytes(neededBytes)} beside the ${formatBytes(reserveBytes)} that are kept free (disk.reserve)`;
  return `Not enough space in ${folder}: ${who} ${needed}, and ${formatBytes(free)} are free.`;
}

/** How often the free space is checked. Writes between two checks may take a part of the reserve. */
const CHECK_SPACE_EVERY_MS = 250;

export interface FreeSpaceGuard {
  /** The reserve is kept free on the disk of each folder. A disk that cannot be measured is not watched. */
  readonly folders: readonly string[];
  readonly reserveBytes: number;
  readonly clock: Clock;
}

/** The error where less than the reserve was free. The message states the bytes that were free then, because they are free again by now. */
export class DiskFilledError extends Error {
  override readonly name = 'DiskFilledError';
}

/**
 * Runs `work`, whose signal is aborted once less than the reserve is free on a disk. DuckDB needs this: one text in a file
 * may become that of a million rows, so the size of DuckDB's writes is unknown beforehand. Work that ends before the first
 * check is not delayed.
 * @throws DiskFilledError in place of the error that `work` throws after the abort; the error of `work`.
 */
export async function whileSpaceIsFree<T>(
  guard: FreeSpaceGuard,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const taken = new AbortController();
  const ended = new AbortController();
  const watching = watch(guard, taken, ended.signal);
  try {
    return await work(taken.signal);
  } catch (error) {
    throw taken.signal.aborted ? new DiskFilledError(String(taken.signal.reason), { cause: error }) : error;
  } finally {
    ended.abort();
    await watching;
  }
}

/** Refuses work on a full disk. @throws DiskFilledError where less than the reserve is free already. */
export async function refuseIfFilled(guard: FreeSpaceGuard): Promise<void> {
  const place = await tooFull(guard);
  if (place !== null) throw new DiskFilledError(place);
}

async function watch(guard: FreeSpaceGuard, taken: AbortController, ended: AbortSignal): Promise<void> {
  while (!ended.aborted && !taken.signal.aborted) {
    await guard.clock.sleep(CHECK_SPACE_EVERY_MS, ended).catch(() => {});
    const place = await tooFull(guard);
    if (place !== null && !ended.aborted) taken.abort(place);
  }
}

async function tooFull({ folders, reserveBytes }: FreeSpaceGuard): Promise<string | null> {
  for (const folder of folders) {
    const free = await freeBytes(folder).catch(() => Number.POSITIVE_INFINITY);
    if (free < reserveBytes) return `${folder} (${formatBytes(free)} free)`;
  }
  return null;
}
