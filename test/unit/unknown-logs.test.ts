/**
 * A log whose position is known to nobody any more, because the checkpoint was lost or the subscription was given up, is another
 * one than those that the tables know: what they have satisfied of these is no answer to its events.
 */

import { expect, it } from 'vitest';
import { kinds, oneSubscription, type World } from '../support/small-world.ts';
import { event, id, subscription, table } from '../support/sync-values.ts';

/** The service tells that the table is to be loaded again, in its newest event. */
function resync(world: World, number: number): void {
  const asked = event(number, 'dataset.resync_required', { version: 1 });
  world.service.logs.set('sub_1', [...(world.service.logs.get('sub_1') ?? []), asked]);
  world.service.watermarkCovers.set('sub_1', id(number));
  world.service.subscriptions[0] = subscription({ lastEventId: id(number) });
}

function logNumber({ checkpoint }: World): number | undefined {
  return checkpoint.followed().get('sub_1')?.logNumber;
}

it('F81 a reload is honoured where the tables know of later logs than the checkpoint that was lost', async () => {
  const world = await oneSubscription('parcels');
  const satisfied = { logNumber: 2, eventNumber: 500n, createdAt: null };
  world.tables.set('parcels', table(1, { reloads: new Map([['sub_1', satisfied]]) }));
  expect(kinds(await world.catchUp())).toEqual({ parcels: 'current' });
  expect(logNumber(world)).toBe(3);
  resync(world, 101);
  expect(kinds(await world.catchUp())).toEqual({ parcels: 'loaded' });
  expect(kinds(await world.catchUp())).toEqual({ parcels: 'current' });
});

it('F81 a reload is honoured where the subscription was given up and is followed again', async () => {
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

it('the first log of all is counted as the first', async () => {
  const world = await oneSubscription('parcels');
  await world.catchUp();
  expect(logNumber(world)).toBe(1);
});
