/** A poll requested while a log is being read finds events that came after that reading began, without waiting for the next minute. */

import { expect, it } from 'vitest';
import { smallDaemon } from '../support/small-daemon.ts';
import { calm, oneSubscription, publish, versions } from '../support/small-world.ts';

it('makes a poll that is requested while a log is read right after that reading, once', async () => {
  const world = await oneSubscription('parcels');
  const { daemon, clock, pass, settle } = smallDaemon(world);
  await pass(1_000);
  calm(world);
  let isFirst = true;
  world.intervene = (call) => {
    if (call !== 'events sub_1' || !isFirst) return;
    isFirst = false;
    // By then the page is on its way, and without what is published now.
    queueMicrotask(() => {
      publish(world, 'parcels');
      clock.pass(1);
      daemon.pollNow();
    });
  };
  daemon.pollNow();
  await settle();
  expect(versions(world)).toEqual({ parcels: 2 });
  expect(world.calls.filter((call) => call === 'events sub_1')).toHaveLength(2);
  await pass(10_000);
  expect(world.calls.filter((call) => call === 'events sub_1')).toHaveLength(2);
});
