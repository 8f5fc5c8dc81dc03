/**
 * A log whose position is lost, because the checkpoint was lost or the subscription was forgotten, is another
 * one than those in the marks of the tables: reloads that the tables satisfied answer none of its events.
 */

import { expect, it } from 'vitest';
import { kinds, oneSubscription, type World } from '../support/small-world.ts';
import { event, id, subscription, table } from '../support/sync-values.ts';

/** The service asks in its newest event that the table be loaded again. */
function resync(world: World, number: number): void {
  const asked = event(number, 'dataset.resync_required', { version: 1 });
  world.service.logs.set('sub_1', [...(world.service.logs.get('sub_1') ?? []), asked]);
  world.service.watermarkCovers.set('sub_1', id(number));
  world.service.subscriptions[0] = subscription({ lastEventId: id(number) });
}

function logNumber({ checkpoint }: World): number | undefined {
  return checkpoint.followed().get('sub_1')?.logNumber;
}

it("F81 reloads a table whose marks are of later logs than the lost checkpoint's", async () => {
  const world = await oneSubscription('parcels');
  const satisfied = { logNumber: 2, eventNumber: 500n, createdAt: null };
  world.tables.set('parcels', table(1, { reloads: new Map([['sub_1', satisfied]]) }));
  expect(kinds(await world.catchUp())).toEqual({ parcels: 'current' });
  expect(logNumber(world)).toBe(3);
  resync(world, 101);
  expect(kinds(await world.catchUp())).toEqual({ parcels: 'loaded' });
  expect(kinds(await world.catchUp())).toEqual({ parcels: 'current' });
});

it('F81 reloads a table whose subscription was forgotten and is followed again', async () => {
  const world = await oneSubscription('parcels');
  await world.catchUp();
  resync(world, 900);
  expect(kinds(await world.catchUp())).toEqual({ parcels: 'loaded' });
  world.checkpoint.forget('sub_1');
  world.service.logs.set('sub_1', []);
  resync(world, 101);
  // The manifest has the very content that the table was loaded from.
  expect(kinds(await world.catchUp())).toEqual({ parcels: 'current' });
  expect(logNumber(world)).toBe(2);
  resync(world, 102);
  expect(kinds(await world.catchUp())).toEqual({ parcels: 'loaded' });
});

it('numbers the first log as 1', async () => {
  const world = await oneSubscription('parcels');
  await world.catchUp();
  expect(logNumber(world)).toBe(1);
});
