/** F32 over the wire: a manifest that lags behind the log, a version or a reload is waited for; nothing older goes over newer. */

import { expect, it } from 'vitest';
import { expectCalm, expectNewest, expectPublished } from '../support/oracle.ts';
import { publishNext, withRealMirror } from '../support/served-world.ts';
import { numberedRows, smallContent } from '../support/small-content.ts';
import { kinds } from '../support/small-world.ts';

it('F32 reads from the log what the manifest lacks at a first start', async () => {
  const world = await withRealMirror();
  const { feed } = world;
  feed.manifest.freeze();
  publishNext(feed, 'parcels');
  feed.publisher.publish('permits', smallContent(numberedRows(4), null));
  expect(kinds(await world.catchUp())).toEqual({
    parcels: 'loaded, applied',
    permits: 'waiting',
    roads: 'loaded',
  });
  expect(await expectPublished(world, {})).toEqual({ parcels: 2, permits: 1, roads: 1 });
  await expectCalm(world);
});

it('F32 a table waits for a newer manifest, moves on where changes lead, and never back', async () => {
  const world = await withRealMirror();
  const { feed } = world;
  await world.catchUp();
  feed.manifest.freeze();
  publishNext(feed, 'parcels');
  publishNext(feed, 'roads');
  feed.publisher.publish('permits', smallContent(numberedRows(4), null));
  expect(kinds(await world.catchUp())).toEqual({ parcels: 'applied', permits: 'waiting', roads: 'applied' });
  const before = await expectPublished(world, {});
  expect(before).toEqual({ parcels: 2, permits: 1, roads: 2 });

  // What is asked for again is still older in the manifest than what the table has.
  feed.publisher.resync('roads', 'subscription_changed', { content: smallContent(numberedRows(9), null) });
  feed.requests.clear();
  expect(kinds(await world.catchUp())).toMatchObject({ permits: 'waiting', roads: 'waiting' });
  expect(feed.requests.entries('file')).toEqual([]);
  await expectCalm(world);
  await expectNewest(world);
});
