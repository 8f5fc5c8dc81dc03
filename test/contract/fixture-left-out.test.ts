/** The fixture feed leaves optional fields out: lastEventId (of one subscription, too), and others. */

import { expect, it } from 'vitest';
import type { FixtureFeed } from '../../fixtures/feed/feed.ts';
import type { FixtureFeedOptions } from '../../fixtures/feed/settings.ts';
import { call } from '../support/feed-calls.ts';
import { numberedRows, smallContent } from '../support/small-content.ts';
import { publishSmall, startedFeed } from '../support/started-feed.ts';

async function started(options: FixtureFeedOptions = {}): Promise<FixtureFeed> {
  const feed = await startedFeed(options);
  publishSmall(feed, ['a']);
  feed.publisher.subscribe({ subscriptionId: 'sub_2', datasetIds: ['a'] });
  feed.publisher.publish('a', smallContent(numberedRows(3), [{ op: 'added', row: ['r00002', 2] }]));
  return feed;
}

/** By subscription: what its record and its manifest state. */
async function lastEventIds(feed: FixtureFeed) {
  const { body } = await call(feed, '/v1/subscriptions');
  const stated = [];
  for (const { id, lastEventId } of body.subscriptions) {
    const manifest = await call(feed, `/v1/subscriptions/${id}/manifest`);
    stated.push([lastEventId ?? 'none', manifest.body.lastEventId ?? 'none']);
  }
  return stated;
}

it('leaves lastEventId out of records or of manifests', async () => {
  const feed = await started({ contract: { recordLastEventId: false } });
  expect(await lastEventIds(feed)).toEqual([
    ['none', 'evt_2'],
    ['none', 'evt_2'],
  ]);
  feed.settings.contract.recordLastEventId = true;
  feed.settings.contract.manifestLastEventId = false;
  expect(await lastEventIds(feed)).toEqual([
    ['evt_2', 'none'],
    ['evt_2', 'none'],
  ]);
});

it('leaves lastEventId out of the record or the manifest of one subscription', async () => {
  const lastEventIdOf = new Map([['sub_2', { manifest: false }]]);
  const feed = await started({ contract: { lastEventIdOf } });
  expect(await lastEventIds(feed)).toEqual([
    ['evt_2', 'evt_2'],
    ['evt_2', 'none'],
  ]);
  feed.settings.contract.manifestLastEventId = false;
  feed.settings.contract.lastEventIdOf.set('sub_1', { manifest: true, record: false });
  feed.settings.contract.lastEventIdOf.delete('sub_2');
  expect(await lastEventIds(feed)).toEqual([
    ['none', 'evt_2'],
    ['evt_2', 'none'],
  ]);
});

it('freezes the record of one subscription, and leaves lastEventId out of it all the same', async () => {
  const feed = await started();
  const records = async () => (await call(feed, '/v1/subscriptions')).body.subscriptions;
  const [before] = await records();
  feed.records.freeze('sub_1');
  feed.publisher.remove('a', 'left_coverage');
  expect(await records()).toMatchObject([
    before,
    { id: 'sub_2', datasetIds: [], datasetCount: 0, lastEventId: 'evt_3' },
  ]);
  feed.settings.contract.recordLastEventId = false;
  const { lastEventId: _, ...rest } = before;
  expect((await records())[0]).toEqual(rest);
  feed.records.thaw('sub_1');
  expect((await records())[0]).toMatchObject({ datasetCount: 0 });
  expect(() => feed.records.freeze('sub_9')).toThrow('there is no subscription sub_9');
});

it('leaves optional fields out of records, events, versions and manifest entries', async () => {
  const feed = await started({
    answers: {
      leftOut: {
        subscription: ['datasetCount'],
        event: ['createdAt'],
        eventData: ['previousVersion', 'links'],
        version: ['publishedAt', 'rowCount', 'previousVersion'],
        entry: ['rowCount'],
      },
    },
  });
  const { subscriptions } = (await call(feed, '/v1/subscriptions')).body;
  expect(subscriptions[0]).not.toHaveProperty('datasetCount');
  const { events } = (await call(feed, '/v1/subscriptions/sub_1/events')).body;
  expect(events[1]).toEqual({
    id: 'evt_2',
    type: 'dataset.updated',
    subscriptionId: 'sub_1',
    data: { datasetId: 'a', version: 2, schemaVersion: '1', counts: { added: 1, changed: 0, removed: 0 } },
  });
  const { versions } = (await call(feed, '/v1/datasets/a/versions')).body;
  expect(versions[0]).toEqual({
    datasetId: 'a',
    version: 2,
    schemaVersion: '1',
    counts: { added: 1, changed: 0, removed: 0 },
    resyncRequired: false,
  });
  const { datasets } = (await call(feed, '/v1/subscriptions/sub_1/manifest')).body;
  expect(Object.keys(datasets[0])).toEqual(['datasetId', 'version', 'schemaVersion', 'files']);
  feed.settings.answers.leftOut.version = [];
  expect((await call(feed, '/v1/datasets/a/versions')).body.versions[0]).toMatchObject({ rowCount: 3 });
});
