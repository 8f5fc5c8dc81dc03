/** Requested audits run at once, and not again and again. */

import { expect, it } from 'vitest';
import { smallDaemon } from '../support/small-daemon.ts';
import { calm, oneSubscription, publishWithSnapshot, versions, type World } from '../support/small-world.ts';

const SECOND_MS = 1_000;
const EVERY_SECOND = {
  poll: { kind: 'every', everyMs: SECOND_MS },
  auditEveryMs: 3_600 * SECOND_MS,
} as const;

/** The service keeps no event any more that was there, but for the newest. */
function expirePosition({ service }: World): void {
  const newest = service.logs.get('sub_1')?.at(-1)?.id;
  if (!newest) throw new Error('the log has events');
  service.keepsEventsFrom = newest.number;
  service.subscriptions = service.subscriptions.map((one) => ({ ...one, lastEventId: newest }));
}

it('W17 replaces an expired position at once, and one that expires again only after a minute', async () => {
  const world = await oneSubscription('parcels');
  const { pass } = smallDaemon(world, EVERY_SECOND);
  await pass(5 * SECOND_MS);
  calm(world);
  publishWithSnapshot(world, 'parcels');
  publishWithSnapshot(world, 'parcels');
  expirePosition(world);
  await pass(5 * SECOND_MS);
  expect(versions(world)).toEqual({ parcels: 3 });

  publishWithSnapshot(world, 'parcels');
  publishWithSnapshot(world, 'parcels');
  expirePosition(world);
  await pass(50 * SECOND_MS);
  expect(versions(world)).toEqual({ parcels: 3 });
  await pass(10 * SECOND_MS);
  expect(versions(world)).toEqual({ parcels: 5 });
  // Each audit lists the subscriptions once, and once after each of the two manifests that it reads.
  expect(world.calls.filter((call) => call === 'discover')).toHaveLength(2);
  expect(world.calls.filter((call) => call === 'subscriptions')).toHaveLength(6);
});
