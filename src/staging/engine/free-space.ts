/**
 * Keeps free on the disks what is to stay free while DuckDB writes. What the rows of a file become nobody can say beforehand:
 * a text that stands once in it may be that of a million rows.
 */

import type { Clock } from '../../lib/clock.ts';
import { freeBytes } from '../../lib/files.ts';
import { formatBytes } from '../../lib/units.ts';

/** How often the disks are asked. What is written meanwhile is taken of the reserve. */
const CHECK_SPACE_EVERY_MS = 250;

export interface FreeSpaceGuard {
  /** On each of their disks it is kept free. One that cannot be asked is not watched. */
  readonly folders: readonly string[];
  readonly reserveBytes: number;
  readonly clock: Clock;
}

/** Less than the reserve was left: the message is the folder and what was free then, for it is free again when this is told. */
export class DiskFilledError extends Error {
  override readonly name = 'DiskFilledError';
}

/**
 * Runs `work`, whose signal is aborted once less than the reserve is left on a disk. What ends sooner than it is looked at,
 * as small tables do, is not held up.
 * @throws DiskFilledError in place of what `work` throws after that; what `work` throws.
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
