/** When running again helps at the earliest: a catch-up names the time where a rule waits for it to pass, and no other. */

import { expect, it } from 'vitest';
import type { CatchUpResult } from '../../src/sync/result.ts';
import { elapse, kinds, oneSubscription, publish, type World } from '../support/small-world.ts';
import { entry, NOW, version } from '../support/sync-values.ts';

const MINUTE_MS = 60_000;

/** Catches up after so many minutes, and gives the result. */
async function caughtUpAfter(world: World, minutes: number): Promise<CatchUpResult> {
  elapse(world, minutes * MINUTE_MS);
  return await world.catchUp();
}

/** In minutes after noon. */
function minutesOf({ again }: CatchUpResult): number | null {
  return again === null ? null : (again.at.getTime() - NOW.getTime()) / MINUTE_MS;
}

it('a catch-up names no time to run again where nothing waits, or where no rule gives one', async () => {
  const world = await oneSubscription('parcels');
  expect((await world.catchUp()).again).toBeNull();
  publish(world, 'parcels', { resyncRequired: true });
  const waiting = await caughtUpAfter(world, 1);
  expect(kinds(waiting)).toEqual({ parcels: 'waiting' });
  expect(waiting.again).toBeNull();
});

it('a catch-up names the time at which an absence is confirmed', async () => {
  const world = await oneSubscription('parcels', 'permits');
  await world.catchUp();
  world.service.members.set('sub_1', ['parcels']);
  const lacking = await caughtUpAfter(world, 1);
  expect([minutesOf(lacking), lacking.again?.inMs]).toEqual([11, 10 * MINUTE_MS]);
  expect(minutesOf(await caughtUpAfter(world, 4))).toBe(11);
  const gone = await caughtUpAfter(world, 6);
  expect(kinds(gone)).toEqual({ parcels: 'current', permits: 'retired' });
  expect(gone.again).toBeNull();
});

it('a catch-up never names a time that has passed', async () => {
  const world = await oneSubscription('parcels');
  const { service } = world;
  service.watermarkCovers.delete('sub_1');
  service.versions.set('parcels', [version('parcels', 2), version('parcels', 1)]);
  service.snapshots.set('parcels', entry('parcels', 2));
  await world.catchUp();
  // Version 2 is withdrawn, and nobody says so.
  service.versions.set('parcels', [version('parcels', 1)]);
  service.snapshots.set('parcels', entry('parcels', 1));
  expect(minutesOf(await caughtUpAfter(world, 1))).toBe(61);
  // The absence is confirmed; the manifest, which does not say how far it goes, may be from before that.
  const waiting = await caughtUpAfter(world, 61);
  expect(kinds(waiting)).toEqual({ parcels: 'waiting' });
  expect(minutesOf(waiting)).toBeGreaterThan(77);
  expect(kinds(await caughtUpAfter(world, 16))).toEqual({ parcels: 'loaded' });
});
