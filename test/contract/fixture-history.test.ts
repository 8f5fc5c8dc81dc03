/** The fixture feed after its past has changed: versions withdrawn, restarted, or issued anew. */

import { describe, expect, it } from 'vitest';
import type { FixtureFeed } from '../../fixtures/feed/feed.ts';
import { call, firstFileUrl, send } from '../support/feed-calls.ts';
import { column, numberedRows, SMALL_SCHEMA, smallContent } from '../support/small-content.ts';
import { publishSmall, startedFeed } from '../support/started-feed.ts';

const EVENTS = '/v1/subscriptions/sub_1/events';
const MANIFEST = '/v1/subscriptions/sub_1/manifest';
const VERSIONS = '/v1/datasets/a/versions';

/** The dataset `a` at version 2 with three rows; version 1 had two. */
async function twoVersions(): Promise<FixtureFeed> {
  const feed = await startedFeed();
  publishSmall(feed, ['a']);
  feed.publisher.publish('a', smallContent(numberedRows(3), [{ op: 'added', row: ['r00002', 2] }]));
  return feed;
}

async function eventsAfter(feed: FixtureFeed, after: string) {
  const { body } = await call(feed, `${EVENTS}?after=${after}`);
  return body.events.map(({ type, data }: { type: string; data: { version?: number; reason?: string } }) => [
    type,
    data.version,
    data.reason,
  ]);
}

async function listed(feed: FixtureFeed, path = VERSIONS, field = 'versions') {
  return (await call(feed, path)).body[field];
}

async function entry(feed: FixtureFeed) {
  return (await call(feed, MANIFEST)).body.datasets[0];
}

describe('versions that are withdrawn', () => {
  it('a withdrawn version is in no list, manifest or changes, and in no event', async () => {
    const feed = await twoVersions();
    await firstFileUrl(feed);
    const before = await entry(feed);
    expect(before).toMatchObject({ version: 2, rowCount: 3 });
    expect(feed.publisher.withdraw('a')).toMatchObject({ version: 2 });
    expect(await listed(feed)).toMatchObject([{ version: 1, rowCount: 2 }]);
    expect((await call(feed, '/v1/datasets/a/changes?version=2')).status).toBe(404);
    const after = await entry(feed);
    expect(after).toMatchObject({ version: 1, rowCount: 2 });
    expect((await send(after.files[0].url)).status).toBe(200);
    expect(await eventsAfter(feed, 'evt_2')).toEqual([]);
    expect((await call(feed, '/v1/subscriptions')).body.subscriptions[0].lastEventId).toBe('evt_2');
  });

  it('a withdrawn version takes the schema along that came with it', async () => {
    const feed = await twoVersions();
    const columns = [...SMALL_SCHEMA.columns, column('note', 'string')];
    const schema = { ...SMALL_SCHEMA, schemaVersion: '2', columns };
    feed.publisher.publish('a', smallContent([['r00000', 1, null]], [], schema));
    feed.publisher.withdraw('a');
    expect(await listed(feed, '/v1/datasets/a/schemas', 'schemas')).toMatchObject([{ schemaVersion: '1' }]);
    const other = { ...schema, columns: [...SMALL_SCHEMA.columns, column('size', 'integer')] };
    feed.publisher.publish('a', smallContent([['r00000', 1, 2]], [], other));
    expect(await listed(feed, '/v1/datasets/a/schemas', 'schemas')).toMatchObject([
      { schemaVersion: '2', firstVersion: 3, columns: other.columns },
      { schemaVersion: '1' },
    ]);
  });

  it('a withdrawn version leaves its number to the next one, which has another publishedAt at the same time', async () => {
    const feed = await twoVersions();
    const timestamps = new Set([(await listed(feed))[0].publishedAt]);
    for (let count = 0; count < 3; count += 1) {
      feed.publisher.withdraw('a');
      feed.publisher.publish('a', smallContent(numberedRows(5)));
      const [newest] = await listed(feed);
      expect(newest).toMatchObject({ version: 2, previousVersion: 1, rowCount: 5 });
      timestamps.add(newest.publishedAt);
    }
    expect(timestamps.size).toBe(4);
    feed.publisher.withdraw('a');
    const publishedAt = '2026-01-01T00:00:00.000Z';
    feed.publisher.publish('a', { ...smallContent(numberedRows(5)), publishedAt });
    expect(await listed(feed)).toMatchObject([{ version: 2, publishedAt }, { version: 1 }]);
  });

  it('the only version cannot be withdrawn', async () => {
    const feed = await startedFeed();
    publishSmall(feed, ['a']);
    expect(() => feed.publisher.withdraw('a')).toThrow('a has no version before the one to be withdrawn');
  });
});

describe('versions that restart', () => {
  const anew = smallContent(numberedRows(7));

  it('restarted versions are alone in every list, at 1 by default, and have another publishedAt', async () => {
    const feed = await twoVersions();
    const before = await listed(feed);
    feed.publisher.restart('a', anew);
    const after = await listed(feed);
    expect(after).toMatchObject([{ version: 1, rowCount: 7 }]);
    expect(after[0]).not.toHaveProperty('previousVersion');
    expect(before.map(({ publishedAt }: { publishedAt: string }) => publishedAt)).not.toContain(
      after[0].publishedAt,
    );
    expect(await entry(feed)).toMatchObject({ version: 1, rowCount: 7 });
    expect((await call(feed, '/v1/datasets/a/changes?version=2')).status).toBe(404);
    feed.publisher.restart('a', anew, { version: 9 });
    expect(await listed(feed)).toMatchObject([{ version: 9 }]);
    feed.publisher.publish('a', anew);
    expect(await listed(feed)).toMatchObject([{ version: 10, previousVersion: 9 }, { version: 9 }]);
  });

  it('restarted versions have the schemas of the new content alone', async () => {
    const feed = await twoVersions();
    const columns = [column('id', 'integer', false)];
    feed.publisher.restart('a', smallContent([[1]], null, { ...SMALL_SCHEMA, columns }));
    expect(await listed(feed, '/v1/datasets/a/schemas', 'schemas')).toEqual([
      { datasetId: 'a', firstVersion: 1, ...SMALL_SCHEMA, columns },
    ]);
  });

  it.each([
    [{}, [['dataset.resync_required', 1, 'source_retired']]],
    [{ reason: 'subscription_changed' }, [['dataset.resync_required', 1, 'subscription_changed']]],
    [{ announce: 'updated' }, [['dataset.updated', 1, undefined]]],
    [
      { announce: 'removed+added' },
      [
        ['dataset.removed', undefined, 'source_retired'],
        ['dataset.added', 1, undefined],
      ],
    ],
    [{ announce: false }, []],
  ] as const)('a version restart is announced as %j says', async (options, events) => {
    const feed = await twoVersions();
    feed.publisher.restart('a', anew, options);
    expect(await eventsAfter(feed, 'evt_2')).toEqual(events);
    expect((await call(feed, '/v1/subscriptions')).body.subscriptions).toMatchObject([{ datasetCount: 1 }]);
  });
});

describe('a version that is issued anew', () => {
  const other = smallContent(numberedRows(9));

  it('a version that is issued anew has other digests and row counts, and no recorded changes', async () => {
    const feed = await twoVersions();
    const [record] = await listed(feed);
    const before = await entry(feed);
    feed.publisher.replace('a', other);
    const after = await entry(feed);
    expect([before.version, after.version, before.rowCount, after.rowCount]).toEqual([2, 2, 3, 9]);
    expect(after.files[0].sha256).not.toBe(before.files[0].sha256);
    expect(await listed(feed)).toMatchObject([{ ...record, rowCount: 9 }, { version: 1 }]);
    expect((await call(feed, '/v1/datasets/a/changes?version=2')).body.recorded).toBe(false);
    expect(await eventsAfter(feed, 'evt_2')).toEqual([
      ['dataset.resync_required', 2, 'subscription_changed'],
    ]);
  });

  it('a version that is issued anew may keep its row count and changes, and be announced by no event', async () => {
    const feed = await twoVersions();
    const changes = await call(feed, '/v1/datasets/a/changes?version=2');
    feed.publisher.replace('a', other, { announce: false, keepsRowCount: true, keepsChanges: true });
    expect(await listed(feed)).toMatchObject([{ version: 2, rowCount: 3 }, { version: 1 }]);
    expect(await entry(feed)).toMatchObject({ version: 2, rowCount: 9 });
    expect((await call(feed, '/v1/datasets/a/changes?version=2')).text).toBe(changes.text);
    expect(await eventsAfter(feed, 'evt_2')).toEqual([]);
  });
});
