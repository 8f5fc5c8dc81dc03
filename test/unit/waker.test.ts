/** The loop is woken at once, and not a thousand times by a thousand webhooks. */

import { expect, it } from 'vitest';
import { WAKE_PAUSE_MS } from '../../src/daemon/server/limits.ts';
import { Waker } from '../../src/daemon/server/webhook.ts';
import { type Clock, systemClock } from '../../src/lib/clock.ts';

/** A waker whose pauses a test ends; sleeps are as real ones, but for their length. */
function steered() {
  const pauses: { readonly durationMs: number; readonly end: () => void }[] = [];
  const sleep: Clock['sleep'] = (durationMs, signal) =>
    new Promise((resolve, reject) => {
      pauses.push({ durationMs, end: resolve });
      signal?.addEventListener('abort', () => reject(signal.reason));
    });
  const wakes: number[] = [];
  const waker = new Waker(() => void wakes.push(1), { ...systemClock, sleep });
  const endPause = async (): Promise<void> => {
    pauses.at(-1)?.end();
    await new Promise(setImmediate);
  };
  return { waker, pauses, endPause, woken: () => wakes.length };
}

it('wakes at once, and once more for all calls within the pause', async () => {
  const { waker, pauses, endPause, woken } = steered();
  for (let count = 0; count < 1_000; count += 1) waker.wake();
  expect(woken()).toBe(1);
  await endPause();
  expect(woken()).toBe(2);
  await endPause();
  expect(woken()).toBe(2);
  expect(pauses.map(({ durationMs }) => durationMs)).toEqual([WAKE_PAUSE_MS, WAKE_PAUSE_MS]);
  waker.wake();
  expect(woken()).toBe(3);
});

it('wakes nothing after its end', async () => {
  const { waker, woken } = steered();
  waker.wake();
  waker.wake();
  waker.end();
  await new Promise(setImmediate);
  expect(woken()).toBe(1);
});
