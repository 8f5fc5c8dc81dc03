/** Manifests of the fixture feed that lag: all of them, one subscription's, or one dataset's entry. */

import { expect, it } from 'vitest';
import type { FixtureFeed } from '../../fixtures/feed/feed.ts';
import type { FixtureFeedOptions } from '../../fixtures/feed/settings.ts';
import { call, send } from '../support/feed-calls.ts';
import { numberedRows, smallContent } from '../support/small-content.ts';
import { publishSmall, startedFeed } from '../support/started-feed.ts';

/** The datasets `a` and `b` with two rows each, in sub_1 and in sub_2. */
async function twoSubscriptions(options: FixtureFeedOptions = {}): Promise<FixtureFeed> {
  const feed = await startedFeed(options);
  publishSmall(feed, ['a', 'b']);
  feed.publisher.subscribe({ subscriptionId: 'sub_2', datasetIds: ['a', 'b'] });
  return feed;
}

async function manifest(feed: FixtureFeed, subscriptionId = 'sub_1') {
  return (await call(feed, `/v1/subscriptions/${subscriptionId}/manifest`)).body;
}

/** The last event id, and the datasets with their versions and row counts. */
async function shown(feed: FixtureFeed, subscriptionId = 'sub_1') {
  const { lastEventId, datasets } = await manifest(feed, subscriptionId);
  const entries = datasets.map((entry: { datasetId: string; version: number; rowCount: number }) =>
    [entry.datasetId, `v${entry.version}`, entry.rowCount].join(' '),
  );
  return [lastEventId, ...entries];
}

it('freezes the manifest of one subscription with its lastEventId, members and contents', async () => {
  const feed = await twoSubscriptions();
  const { publisher } = feed;
  const before = await manifest(feed);
  feed.manifest.freeze({ subscriptionId: 'sub_1' });
  publisher.publish('a', smallContent(numberedRows(5)));
  publisher.replace('a', smallContent(numberedRows(6)));
  publisher.remove('b', 'left_coverage');
  expect(await manifest(feed)).toEqual(before);
  expect(await shown(feed, 'sub_2')).toEqual(['evt_5', 'a v2 6']);
  publisher.restart('a', smallContent(numberedRows(7)));
  expect(await manifest(feed)).toEqual(before);
  feed.manifest.thaw({ subscriptionId: 'sub_1' });
  expect(await shown(feed)).toEqual(['evt_6', 'a v1 7']);
});

it('freezes the entry of one dataset wherever it is listed, while all else moves on', async () => {
  const feed = await twoSubscriptions();
  feed.manifest.freeze({ datasetId: 'a' });
  for (const datasetId of ['a', 'b']) feed.publisher.publish(datasetId, smallContent(numberedRows(3)));
  expect(await shown(feed)).toEqual(['evt_4', 'a v1 2', 'b v2 3']);
  expect(await shown(feed, 'sub_2')).toEqual(['evt_4', 'a v1 2', 'b v2 3']);
  feed.publisher.remove('a', 'left_coverage', { subscriptionId: 'sub_2' });
  expect(await shown(feed, 'sub_2')).toEqual(['evt_5', 'b v2 3']);
  feed.manifest.thaw({ datasetId: 'a' });
  expect(await shown(feed)).toEqual(['evt_4', 'a v2 3', 'b v2 3']);
});

it('freezes the entry of one dataset in its own manifest, too', async () => {
  const feed = await twoSubscriptions({ contract: { manifest: 'dataset' } });
  const versions = async () => {
    const entries = [];
    for (const datasetId of ['a', 'b'])
      entries.push((await call(feed, `/v1/datasets/${datasetId}/manifest`)).body.version);
    return entries;
  };
  feed.manifest.freeze({ datasetId: 'a' });
  for (const datasetId of ['a', 'b']) feed.publisher.publish(datasetId, smallContent(numberedRows(3)));
  expect(await versions()).toEqual([1, 2]);
  feed.manifest.thaw({ datasetId: 'a' });
  expect(await versions()).toEqual([2, 2]);
});

it('keeps the files of a frozen entry, and deletes them after it has thawed', async () => {
  const feed = await twoSubscriptions({ files: { keepSnapshots: 1 } });
  const [{ files }] = (await manifest(feed)).datasets;
  feed.manifest.freeze({ subscriptionId: 'sub_1' });
  const publishAndRead = async () => {
    feed.publisher.publish('a', smallContent(numberedRows(3)));
    await manifest(feed, 'sub_2');
    return (await send(files[0].url)).status;
  };
  expect([await publishAndRead(), await publishAndRead(), await publishAndRead()]).toEqual([200, 200, 200]);
  expect((await manifest(feed)).datasets[0].files).toEqual(files);
  feed.manifest.thaw();
  expect(await publishAndRead()).toBe(404);
});

it('shows a frozen subscription first, else a frozen entry, else the frozen whole', async () => {
  const feed = await twoSubscriptions();
  const publish = (datasetId: string, rowCount: number) =>
    feed.publisher.publish(datasetId, smallContent(numberedRows(rowCount)));
  feed.manifest.freeze({ datasetId: 'a' });
  publish('a', 3);
  publish('b', 3);
  feed.manifest.freeze({ subscriptionId: 'sub_1' });
  publish('b', 4);
  feed.manifest.freeze();
  publish('b', 5);
  expect(await shown(feed)).toEqual(['evt_4', 'a v1 2', 'b v2 3']);
  expect(await shown(feed, 'sub_2')).toEqual(['evt_5', 'a v1 2', 'b v3 4']);
  feed.manifest.thaw({ subscriptionId: 'sub_1' });
  expect(await shown(feed)).toEqual(['evt_4', 'a v1 2', 'b v2 3']);
  feed.manifest.freeze();
  expect(await shown(feed)).toEqual(['evt_6', 'a v1 2', 'b v4 5']);
  expect(await shown(feed, 'sub_2')).toEqual(['evt_6', 'a v1 2', 'b v4 5']);
  feed.manifest.thaw();
  expect(await shown(feed)).toEqual(['evt_6', 'a v2 3', 'b v4 5']);
});

it('refuses to freeze a subscription or dataset that is not there', async () => {
  const feed = await twoSubscriptions();
  expect(() => feed.manifest.freeze({ subscriptionId: 'sub_9' })).toThrow('there is no subscription sub_9');
  expect(() => feed.manifest.freeze({ datasetId: 'z' })).toThrow('there is no dataset z');
});
