/** F07 the reserve that stays free on the disks while a snapshot is loaded. */

import { tmpdir } from 'node:os';
import { expect, it } from 'vitest';
import { systemClock } from '../../src/lib/clock.ts';
import { DiskFilledError, type FreeSpaceGuard, whileSpaceIsFree } from '../../src/lib/free-space.ts';
import { until } from '../support/patience.ts';

const EVERYTHING = Number.MAX_SAFE_INTEGER;

/** After so many readings of the free space the work is either stopped or goes on. */
const READINGS = 3;

/** `someTime` is work that ends once the free space was read some times, and returns whether it was stopped. */
function room(reserveBytes: number, ...folders: readonly string[]) {
  let waits = 0;
  // A turn of the loop in place of each wait, after which the free space is read.
  const sleep = async (_: number, signal?: AbortSignal): Promise<void> => {
    waits += 1;
    await systemClock.sleep(0, signal);
  };
  const someTime = async (signal: AbortSignal): Promise<boolean> => {
    await until('readings of the free space', () => waits > READINGS || signal.aborted);
    return signal.aborted;
  };
  const watched: FreeSpaceGuard = { folders, reserveBytes, clock: { ...systemClock, sleep } };
  return { watched, someTime };
}

/** Work that goes on until it is stopped. */
const endless = (signal: AbortSignal): Promise<never> =>
  new Promise((_, reject) => signal.addEventListener('abort', () => reject(new Error('stopped'))));

it('F07 stops the work once one of the disks has less than the reserve, and names the disk', async () => {
  const stopped = whileSpaceIsFree(room(EVERYTHING, '/nowhere/at/all', tmpdir()).watched, endless);
  await expect(stopped).rejects.toThrow(DiskFilledError);
  await expect(stopped).rejects.toThrow(`${tmpdir()} (`);
});

it('F07 continues the work where there is space, and on disks that cannot be read', async () => {
  for (const { watched, someTime } of [room(1, tmpdir()), room(EVERYTHING, '/nowhere/at/all')])
    expect(await whileSpaceIsFree(watched, someTime)).toBe(false);
});

it("rejects with the work's own error", async () => {
  const wrong = new TypeError('wrong');
  await expect(
    whileSpaceIsFree(room(EVERYTHING, tmpdir()).watched, () => Promise.reject(wrong)),
  ).rejects.toBe(wrong);
});
