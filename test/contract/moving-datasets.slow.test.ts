/** F35 over the wire: datasets that leave and come back, are in two subscriptions, leave one; all of them at once. */

import { expect, it } from 'vitest';
import { expectNewest } from '../support/oracle.ts';
import { publishNext, withRealMirror } from '../support/served-world.ts';
import { numberedRows, smallContent } from '../support/small-content.ts';
import { kinds } from '../support/small-world.ts';

it('F35 a dataset leaves and comes back on one page, later, and with lower versions', async () => {
  const world = await withRealMirror();
  const { publisher } = world.feed;
  publishNext(world.feed, 'permits');
  await world.catchUp();

  publisher.remove('permits', 'left_coverage');
  publishNext(world.feed, 'permits');
  publisher.restore('permits');
  expect(kinds(await world.catchUp())).toMatchObject({ permits: 'loaded' });
  await expectNewest(world);

  publisher.remove('permits', 'left_coverage');
  expect(kinds(await world.catchUp())).toMatchObject({ permits: 'retired' });
  await expectNewest(world);

  publisher.dropHistory('permits');
  publisher.publish('permits', smallContent(numberedRows(9)));
  publisher.restore('permits');
  expect(kinds(await world.catchUp())).toMatchObject({ permits: 'loaded' });
  expect(world.feed.store.dataset('permits').versions.at(-1)?.version).toBe(1);
  await expectNewest(world);
});

it('F35 a dataset comes back with lower versions on the page on which it leaves', async () => {
  const world = await withRealMirror();
  const { publisher } = world.feed;
  for (let time = 0; time < 3; time += 1) publishNext(world.feed, 'permits');
  await world.catchUp();
  publisher.remove('permits', 'source_retired');
  publisher.dropHistory('permits');
  publisher.publish('permits', smallContent(numberedRows(7)), { announce: false });
  publisher.restore('permits', { subscriptionId: 'sub_1' });
  await world.catchUp();
  await expectNewest(world);
});

it('F35 a dataset in two subscriptions leaves one, then the other', async () => {
  const world = await withRealMirror();
  const { publisher } = world.feed;
  publisher.restore('permits', { subscriptionId: 'sub_2' });
  await world.catchUp();
  publisher.remove('permits', 'subscription_changed', { subscriptionId: 'sub_1' });
  publishNext(world.feed, 'permits');
  expect(kinds(await world.catchUp())).toMatchObject({ permits: 'applied' });
  await expectNewest(world);
  publisher.remove('permits', 'subscription_changed', { subscriptionId: 'sub_2' });
  expect(kinds(await world.catchUp())).toMatchObject({ permits: 'retired' });
  await expectNewest(world);
});

it('F35 retires three datasets that leave at once, and asks an operator about ten', async () => {
  const world = await withRealMirror();
  const { publisher } = world.feed;
  const more = ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i', 'j'];
  publisher.subscribe({ subscriptionId: 'sub_3', datasetIds: more });
  for (const datasetId of more) {
    publisher.addDataset({ datasetId });
    publisher.publish(datasetId, smallContent(numberedRows(1)));
  }
  await world.catchUp();
  for (const datasetId of ['parcels', 'permits', 'roads']) publisher.remove(datasetId, 'left_coverage');
  expect(kinds(await world.catchUp())).toMatchObject({
    parcels: 'retired',
    permits: 'retired',
    roads: 'retired',
  });
  await expectNewest(world);
  const before = await world.parts.destination.has();
  for (const datasetId of more) publisher.remove(datasetId, 'left_coverage');
  expect((await world.catchUp()).suspensions).toHaveLength(1);
  expect((await world.parts.destination.has()).datasets).toEqual(before.datasets);
  world.checkpoint.approveRetirements();
  await world.catchUp();
  await expectNewest(world);
});
