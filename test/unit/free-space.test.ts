/** F07 what is kept free on the disks while a snapshot is loaded. */

import { tmpdir } from 'node:os';
import { expect, it } from 'vitest';
import { systemClock } from '../../src/lib/clock.ts';
import { DiskFilledError, type FreeSpaceGuard, whileSpaceIsFree } from '../../src/lib/free-space.ts';
import { until } from '../support/patience.ts';

const EVERYTHING = Number.MAX_SAFE_INTEGER;

/** After so many the work has seen what comes of looking. */
const LOOKS = 3;

/** `someTime` is work that ends once the disks were looked at some times, and gives whether it was stopped. */
function room(reserveBytes: number, ...folders: readonly string[]) {
  let waits = 0;
  // A turn of the loop in place of each wait, after which the disks are looked at.
  const sleep = async (_: number, signal?: AbortSignal): Promise<void> => {
    waits += 1;
    await systemClock.sleep(0, signal);
  };
  const someTime = async (signal: AbortSignal): Promise<boolean> => {
    await until('looks at the disks', () => waits > LOOKS || signal.aborted);
    return signal.aborted;
  };
  const watched: FreeSpaceGuard = { folders, reserveBytes, clock: { ...systemClock, sleep } };
  return { watched, someTime };
}

/** Work that goes on until it is stopped. */
const endless = (signal: AbortSignal): Promise<never> =>
  new Promise((_, reject) => signal.addEventListener('abort', () => reject(new Error('stopped'))));

it('F07 work is stopped once less than the reserve is left on one of the disks, which is told', async () => {
  const stopped = whileSpaceIsFree(room(EVERYTHING, '/nowhere/at/all', tmpdir()).watched, endless);
  await expect(stopped).rejects.toThrow(DiskFilledError);
  await expect(stopped).rejects.toThrow(`${tmpdir()} (`);
});

it('F07 work goes on where there is room, and on disks that cannot be asked', async () => {
  for (const { watched, someTime } of [room(1, tmpdir()), room(EVERYTHING, '/nowhere/at/all')])
    expect(await whileSpaceIsFree(watched, someTime)).toBe(false);
});

it('what is wrong with the work itself stays what it is', async () => {
  const wrong = new TypeError('wrong');
  await expect(
    whileSpaceIsFree(room(EVERYTHING, tmpdir()).watched, () => Promise.reject(wrong)),
  ).rejects.toBe(wrong);
});
