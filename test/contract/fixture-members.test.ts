/** Datasets that join and leave subscriptions of the fixture feed, and lists that lack what is there. */

import { describe, expect, it } from 'vitest';
import type { FixtureFeed } from '../../fixtures/feed/feed.ts';
import type { Omission } from '../../fixtures/feed/omissions.ts';
import { call } from '../support/feed-calls.ts';
import { numberedRows, smallContent } from '../support/small-content.ts';
import { publishSmall, startedFeed } from '../support/started-feed.ts';

/** The datasets `a` and `b` are in sub_1 by their place, in sub_2 by id. */
async function twoSubscriptions(): Promise<FixtureFeed> {
  const feed = await startedFeed();
  publishSmall(feed, ['a', 'b']);
  feed.publisher.subscribe({ subscriptionId: 'sub_2', datasetIds: ['a', 'b'] });
  return feed;
}

/** Of a subscription: the datasets that its record names, how many it counts, and its last event. */
async function recorded(feed: FixtureFeed, subscriptionId = 'sub_2') {
  const { body } = await call(feed, '/v1/subscriptions');
  const found = body.subscriptions.find(({ id }: { id: string }) => id === subscriptionId);
  return [found.datasetIds, found.datasetCount, found.lastEventId];
}

async function inManifest(feed: FixtureFeed, subscriptionId = 'sub_2') {
  const { body } = await call(feed, `/v1/subscriptions/${subscriptionId}/manifest`);
  return body.datasets.map(({ datasetId }: { datasetId: string }) => datasetId);
}

describe('members that leave or join one subscription', () => {
  it('a member that leaves or joins moves in the log, record and manifest of that subscription alone', async () => {
    const feed = await twoSubscriptions();
    feed.publisher.remove('b', 'left_coverage', { subscriptionId: 'sub_2' });
    expect([await recorded(feed), await inManifest(feed)]).toEqual([[['a'], 1, 'evt_3'], ['a']]);
    expect([await recorded(feed, 'sub_1'), await inManifest(feed, 'sub_1')]).toEqual([
      [[], 2, 'evt_2'],
      ['a', 'b'],
    ]);
    feed.publisher.restore('b', { subscriptionId: 'sub_2', announce: false });
    expect([await recorded(feed), await inManifest(feed)]).toEqual([
      [['a', 'b'], 2, 'evt_3'],
      ['a', 'b'],
    ]);
  });

  it('a member may leave and join without the record, which another call corrects', async () => {
    const feed = await twoSubscriptions();
    const move = { subscriptionId: 'sub_2', record: false };
    feed.publisher.remove('b', 'left_coverage', move);
    expect([await recorded(feed), await inManifest(feed)]).toEqual([[['a', 'b'], 2, 'evt_3'], ['a']]);
    feed.publisher.remove('b', 'left_coverage');
    expect([await recorded(feed), await inManifest(feed)]).toEqual([[['a'], 1, 'evt_3'], ['a']]);
    feed.publisher.restore('b', { ...move, announce: false });
    expect([await recorded(feed), await inManifest(feed)]).toEqual([
      [['a'], 1, 'evt_3'],
      ['a', 'b'],
    ]);
    feed.publisher.restore('b', { subscriptionId: 'sub_2' });
    expect(await recorded(feed)).toEqual([['a', 'b'], 2, 'evt_3']);
  });
});

describe('omissions', () => {
  const nth = async (count: number, read: () => Promise<unknown>) => {
    const answers = [];
    for (let index = 0; index < count; index += 1) answers.push(await read());
    return answers;
  };

  it('an omission applies to exactly as many readings as were demanded', async () => {
    const feed = await twoSubscriptions();
    feed.publisher.publish('a', smallContent(numberedRows(3)));
    const listed = async () =>
      (await call(feed, '/v1/subscriptions')).body.subscriptions.map(({ id }: { id: string }) => id);
    feed.omissions.add({ list: 'subscriptions', subscriptionId: 'sub_1' }, 2);
    expect(await nth(3, listed)).toEqual([['sub_2'], ['sub_2'], ['sub_1', 'sub_2']]);

    feed.omissions.add({ list: 'manifest', subscriptionId: 'sub_2', datasetId: 'a' });
    expect(await inManifest(feed, 'sub_1')).toEqual(['a', 'b']);
    expect(await nth(2, () => inManifest(feed))).toEqual([['b'], ['a', 'b']]);

    feed.omissions.add({ list: 'record', subscriptionId: 'sub_2', datasetId: 'b' }, 2);
    expect(await nth(3, () => recorded(feed))).toEqual([
      [['a'], 1, 'evt_3'],
      [['a'], 1, 'evt_3'],
      [['a', 'b'], 2, 'evt_3'],
    ]);

    const versions = async () =>
      (await call(feed, '/v1/datasets/a/versions')).body.versions.map(
        (one: { version: number }) => one.version,
      );
    feed.omissions.add({ list: 'versions', datasetId: 'a', version: 2 });
    expect(await nth(2, versions)).toEqual([[1], [2, 1]]);
    expect(feed.omissions.list()).toEqual([]);
  });

  it('an omission applies to all pages of one reading', async () => {
    const feed = await twoSubscriptions();
    const read = async (path: string, field: string) => {
      const first = (await call(feed, `${path}?limit=1`)).body;
      if (first.nextCursor === null) return first[field].length;
      const second = (await call(feed, `${path}?limit=1&cursor=${first.nextCursor}`)).body;
      return first[field].length + second[field].length;
    };
    const lists: readonly (readonly [Omission, string, string])[] = [
      [{ list: 'subscriptions', subscriptionId: 'sub_2' }, '/v1/subscriptions', 'subscriptions'],
      [
        { list: 'manifest', subscriptionId: 'sub_2', datasetId: 'b' },
        '/v1/subscriptions/sub_2/manifest',
        'datasets',
      ],
    ];
    for (const [omission, path, field] of lists) {
      feed.omissions.add(omission);
      expect([path, await read(path, field), await read(path, field)]).toEqual([path, 1, 2]);
    }
  });

  it('an omission ends once it is replaced or cleared', async () => {
    const feed = await twoSubscriptions();
    const omission = { list: 'manifest', subscriptionId: 'sub_2', datasetId: 'a' } as const;
    feed.omissions.add(omission, 5);
    feed.omissions.add(omission, 1);
    expect(feed.omissions.list()).toEqual([{ omission, readsLeft: 1 }]);
    expect(await nth(2, () => inManifest(feed))).toEqual([['b'], ['a', 'b']]);
    feed.omissions.add(omission, 5);
    feed.omissions.clear();
    expect(await inManifest(feed)).toEqual(['a', 'b']);
  });
});
