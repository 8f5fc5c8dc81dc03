/** F07 what is kept free on the disks while a snapshot is loaded. */

import { tmpdir } from 'node:os';
import { expect, it } from 'vitest';
import { type Room, RoomTakenError, withinRoom } from '../../src/destination/duckdb/engine/room.ts';
import { systemClock } from '../../src/lib/clock.ts';

const EVERYTHING = Number.MAX_SAFE_INTEGER;

function room(reserveBytes: number, ...folders: readonly string[]): Room {
  // A turn of the loop in place of each wait.
  const clock = { ...systemClock, sleep: (_: number, signal?: AbortSignal) => systemClock.sleep(0, signal) };
  return { folders, reserveBytes, clock };
}

/** Work that goes on until it is stopped. */
const endless = (signal: AbortSignal): Promise<never> =>
  new Promise((_, reject) => signal.addEventListener('abort', () => reject(new Error('stopped'))));

/** Work that ends after some looks at the disks. */
const someTime = async (signal: AbortSignal): Promise<boolean> => {
  await systemClock.sleep(20);
  return signal.aborted;
};

it('F07 work is stopped once less than the reserve is left on one of the disks, which is told', async () => {
  const stopped = withinRoom(room(EVERYTHING, '/nowhere/at/all', tmpdir()), endless);
  await expect(stopped).rejects.toThrow(RoomTakenError);
  await expect(stopped).rejects.toThrow(`${tmpdir()} (`);
});

it('F07 work goes on where there is room, and on disks that cannot be asked', async () => {
  expect(await withinRoom(room(1, tmpdir()), someTime)).toBe(false);
  expect(await withinRoom(room(EVERYTHING, '/nowhere/at/all'), someTime)).toBe(false);
});

it('what is wrong with the work itself stays what it is', async () => {
  const wrong = new TypeError('wrong');
  await expect(withinRoom(room(EVERYTHING, tmpdir()), () => Promise.reject(wrong))).rejects.toBe(wrong);
});
