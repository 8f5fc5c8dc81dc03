/**
 * Keeps free on the disks what is to stay free while DuckDB writes. What the rows of a file become nobody can say beforehand:
 * a text that stands once in it may be that of a million rows.
 */

import type { Clock } from '../../lib/clock.ts';
import { freeBytes } from '../../lib/files.ts';
import { formatBytes } from '../../lib/units.ts';

/** How often the disks are asked. What is written meanwhile is taken of the reserve. */
const LOOK_AGAIN_MS = 250;

export interface Room {
  /** On each of their disks it is kept free. One that cannot be asked is not watched. */
  readonly folders: readonly string[];
  readonly reserveBytes: number;
  readonly clock: Clock;
}

/** Less than the reserve was left: the message is the folder and what was free then, for it is free again when this is told. */
export class RoomTakenError extends Error {
  override readonly name = 'RoomTakenError';
}

/**
 * Runs `work`, whose signal is aborted once less than the reserve is left on a disk. What ends sooner than it is looked at,
 * as small tables do, is not held up.
 * @throws RoomTakenError in place of what `work` throws after that; what `work` throws.
 */
export async function withinRoom<T>(room: Room, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const taken = new AbortController();
  const ended = new AbortController();
  const watching = watch(room, taken, ended.signal);
  try {
    return await work(taken.signal);
  } catch (error) {
    throw taken.signal.aborted ? new RoomTakenError(String(taken.signal.reason), { cause: error }) : error;
  } finally {
    ended.abort();
    await watching;
  }
}

async function watch(room: Room, taken: AbortController, ended: AbortSignal): Promise<void> {
  while (!ended.aborted && !taken.signal.aborted) {
    await room.clock.sleep(LOOK_AGAIN_MS, ended).catch(() => {});
    const place = await tooFull(room);
    if (place !== null && !ended.aborted) taken.abort(place);
  }
}

async function tooFull({ folders, reserveBytes }: Room): Promise<string | null> {
  for (const folder of folders) {
    const free = await freeBytes(folder).catch(() => Number.POSITIVE_INFINITY);
    if (free < reserveBytes) return `${folder} (${formatBytes(free)} free)`;
  }
  return null;
}
