/** The fixture feed serves what the service's interface says: lists, events, schemas, changes and manifests. */

import { afterEach, describe, expect, it } from 'vitest';
import { DAY_MS, stillClock } from '../../fixtures/feed/clock.ts';
import { type FixtureFeed, startFixtureFeed } from '../../fixtures/feed/feed.ts';
import type { FixtureFeedOptions } from '../../fixtures/feed/settings.ts';
import { call, send } from '../support/feed-calls.ts';
import { column, numberedRows, SMALL_SCHEMA, smallContent } from '../support/small-content.ts';

const START = '2026-01-01T00:00:00Z';
const EVENTS = '/v1/subscriptions/sub_1/events';
const feeds: FixtureFeed[] = [];

interface LoggedEvent {
  readonly id: string;
  readonly type: string;
  readonly data: { readonly datasetId: string; readonly reason?: string };
}

/** A feed with the subscription sub_1 to Travis county, closed after the test. */
async function started(options: FixtureFeedOptions = {}): Promise<FixtureFeed> {
  const feed = await startFixtureFeed({ clock: stillClock(START), ...options });
  feeds.push(feed);
  feed.publisher.subscribe({ subscriptionId: 'sub_1', places: ['us-tx-travis'] });
  return feed;
}

function addDatasets(feed: FixtureFeed, ...datasetIds: string[]): void {
  for (const datasetId of datasetIds) {
    feed.publisher.addDataset({ datasetId, placeId: 'us-tx-travis', topic: 'parcels' });
    feed.publisher.publish(datasetId, smallContent(numberedRows(2)));
  }
}

/** Reads a list to its end by `nextCursor`, in pages of `limit`. */
async function pages(feed: FixtureFeed, path: string, field: string, limit: number) {
  const read: unknown[][] = [];
  let cursor: string | null = null;
  do {
    const separator = path.includes('?') ? '&' : '?';
    const position = cursor === null ? '' : `&cursor=${encodeURIComponent(cursor)}`;
    const { body } = await call(feed, `${path}${separator}limit=${limit}${position}`);
    read.push(body[field]);
    cursor = body.nextCursor;
  } while (cursor !== null);
  return read;
}

afterEach(async () => {
  await Promise.all(feeds.splice(0).map((feed) => feed.close()));
});

describe('lists', () => {
  it('shows a subscription with everything the interface names', async () => {
    const feed = await started();
    addDatasets(feed, 'parcels');
    const { body } = await call(feed, '/v1/subscriptions');
    const record = {
      id: 'sub_1',
      name: 'sub_1',
      places: ['us-tx-travis'],
      topics: [],
      datasetIds: [],
      delivery: { type: 'pull' },
      datasetCount: 1,
      createdAt: '2026-01-01T00:00:00.000Z',
      format: 'geoparquet',
      lastEventId: 'evt_1',
    };
    expect(body).toEqual({ subscriptions: [record], nextCursor: null });
  });

  it('pages each list without repeating or leaving out', async () => {
    const feed = await started({ defaultLimit: 2 });
    addDatasets(feed, 'a', 'b', 'c');
    feed.publisher.subscribe({ subscriptionId: 'sub_2', places: ['us-tx-travis'], topics: ['zoning'] });
    feed.publisher.addDataset({ datasetId: 'd', placeId: 'us-tx-hays', placeName: 'Hays', state: 'TX' });
    for (let version = 2; version <= 5; version += 1) {
      const schema = { ...SMALL_SCHEMA, schemaVersion: String(version) };
      feed.publisher.publish('a', smallContent(numberedRows(2), [], schema));
    }
    for (const datasetId of ['a', 'b', 'c'])
      await call(feed, `/v1/datasets/${datasetId}/watch`, { method: 'POST' });
    const sizes = async (path: string, field: string) =>
      (await pages(feed, path, field, 2)).map((page) => page.length);
    expect(await pages(feed, '/v1/subscriptions', 'subscriptions', 1)).toMatchObject([
      [{ id: 'sub_1', datasetCount: 3 }],
      [{ id: 'sub_2', datasetCount: 0 }],
    ]);
    expect(await pages(feed, '/v1/datasets/a/versions', 'versions', 2)).toMatchObject([
      [{ version: 5 }, { version: 4 }],
      [{ version: 3 }, { version: 2 }],
      [{ version: 1 }],
    ]);
    expect(await pages(feed, '/v1/datasets/a/schemas', 'schemas', 3)).toMatchObject([
      [{ schemaVersion: '5' }, { schemaVersion: '4' }, { schemaVersion: '3' }],
      [{ schemaVersion: '2' }, { schemaVersion: '1' }],
    ]);
    expect(await sizes('/v1/subscriptions/sub_1/manifest', 'datasets')).toEqual([2, 1]);
    expect(await sizes('/v1/dataset-watches', 'watches')).toEqual([2, 1]);
    expect(await pages(feed, '/v1/coverage', 'counties', 1)).toEqual([
      [{ id: 'us-tx-hays', name: 'Hays', state: 'TX' }],
      [{ id: 'us-tx-travis', name: 'us-tx-travis', state: '' }],
    ]);
    expect((await call(feed, '/v1/datasets/a/versions')).body.versions).toHaveLength(2);
  });

  it('goes on after a cursor where the list grew at its head meanwhile', async () => {
    const feed = await started();
    addDatasets(feed, 'a');
    feed.publisher.publish('a', smallContent(numberedRows(2)));
    const first = await call(feed, '/v1/datasets/a/versions?limit=1');
    feed.publisher.publish('a', smallContent(numberedRows(2)));
    const second = await call(feed, `/v1/datasets/a/versions?limit=1&cursor=${first.body.nextCursor}`);
    expect([first.body.versions[0].version, second.body.versions[0].version]).toEqual([2, 1]);
  });

  it('lists only versions newer than asked for, under the name that was chosen', async () => {
    const feed = await started({ contract: { newerThanParameter: 'newerThan' } });
    addDatasets(feed, 'a');
    feed.publisher.publish('a', smallContent(numberedRows(2)), { version: 7 });
    const { body } = await call(feed, '/v1/datasets/a/versions?newerThan=1');
    expect(body.versions.map(({ version }: { version: number }) => version)).toEqual([7]);
    expect((await call(feed, '/v1/datasets/a/versions?newerThan=7')).body.versions).toEqual([]);
    expect((await call(feed, '/v1/datasets/a/versions?since=1')).status).toBe(400);
  });

  it('takes ids of any spelling', async () => {
    const feed = await started();
    const hostile = [`a/b'; DROP "x`, 'ключ ☃ 鍵', 'x'.repeat(5000), 'percent%2Fslash', 'evt_?#&'];
    addDatasets(feed, ...hostile);
    for (const datasetId of hostile) {
      const { body } = await call(feed, `/v1/datasets/${encodeURIComponent(datasetId)}/versions`);
      expect(body.versions[0].datasetId).toBe(datasetId);
    }
    const { body } = await call(feed, EVENTS);
    for (const { data } of body.events) {
      const headers = { authorization: `Bearer ${feed.apiKey}` };
      expect((await send(data.links.version, { headers })).body.versions[0].datasetId).toBe(data.datasetId);
    }
  });

  it('watches and unwatches', async () => {
    const feed = await started();
    addDatasets(feed, 'a');
    const statuses: number[] = [];
    for (const method of ['POST', 'POST', 'DELETE', 'DELETE'])
      statuses.push((await call(feed, '/v1/datasets/a/watch', { method })).status);
    expect(statuses).toEqual([201, 200, 204, 404]);
  });
});

describe('events', () => {
  it('come in order, after the one given, in pages that say whether more follow', async () => {
    const feed = await started();
    addDatasets(feed, 'a');
    for (let count = 0; count < 11; count += 1) feed.publisher.publish('a', smallContent(numberedRows(2)));
    const ids = async (query: string) => {
      const { body } = await call(feed, `${EVENTS}${query}`);
      return [...body.events.map(({ id }: { id: string }) => id), body.hasMore];
    };
    expect(await ids('?limit=2')).toEqual(['evt_1', 'evt_2', true]);
    expect(await ids('?after=evt_9&limit=2')).toEqual(['evt_10', 'evt_11', true]);
    expect(await ids('?after=evt_10&limit=2')).toEqual(['evt_11', 'evt_12', false]);
    expect(await ids('?after=evt_12')).toEqual([false]);
    expect(await ids('?types=dataset.added')).toEqual(['evt_1', false]);
    expect(await ids('?types=dataset.added,dataset.updated&limit=12')).toHaveLength(13);
    const { body } = await call(feed, '/v1/subscriptions');
    expect(body.subscriptions[0].lastEventId).toBe('evt_12');
  });

  it('tell of an update with everything the interface names', async () => {
    const feed = await started();
    addDatasets(feed, 'a');
    const changes = [
      { op: 'added', row: ['n', 1] },
      { op: 'removed', key: ['r00000'] },
    ] as const;
    feed.publisher.publish('a', smallContent(numberedRows(2), changes));
    const { body } = await call(feed, `${EVENTS}?after=evt_1`);
    const dataset = `${feed.baseUrl}/v1/datasets/a`;
    expect(body.events).toEqual([
      {
        id: 'evt_2',
        type: 'dataset.updated',
        createdAt: '2026-01-01T00:00:00.000Z',
        subscriptionId: 'sub_1',
        data: {
          datasetId: 'a',
          version: 2,
          previousVersion: 1,
          schemaVersion: '1',
          counts: { added: 1, changed: 0, removed: 1 },
          links: {
            version: `${dataset}/versions?since=1`,
            changes: `${dataset}/changes?version=2`,
            schema: `${dataset}/schemas`,
          },
        },
      },
    ]);
  });

  it('are gone after 90 days, but not the subscription’s last event id', async () => {
    const feed = await started();
    addDatasets(feed, 'a');
    feed.clock.advance(60 * DAY_MS);
    addDatasets(feed, 'b');
    feed.clock.advance(31 * DAY_MS);
    const kept = await call(feed, EVENTS);
    expect(kept.body.events).toMatchObject([{ id: 'evt_2', data: { datasetId: 'b' } }]);
    expect((await call(feed, `${EVENTS}?after=evt_1`)).status).toBe(410);
    expect((await call(feed, `${EVENTS}?after=evt_2`)).status).toBe(200);
    feed.clock.advance(60 * DAY_MS);
    expect((await call(feed, EVENTS)).body).toEqual({ events: [], hasMore: false });
    expect((await call(feed, `${EVENTS}?after=evt_2`)).status).toBe(410);
    expect((await call(feed, '/v1/subscriptions')).body.subscriptions[0].lastEventId).toBe('evt_2');
  });

  it('go to each subscription that holds the dataset, numbered for each', async () => {
    const feed = await started();
    addDatasets(feed, 'a', 'b');
    feed.publisher.subscribe({ subscriptionId: 'sub_2', datasetIds: ['b'] });
    feed.publisher.publish('b', smallContent(numberedRows(2)));
    feed.publisher.remove('b', 'left_coverage', { subscriptionId: 'sub_1' });
    feed.publisher.restore('b', { subscriptionId: 'sub_1' });
    feed.publisher.remove('b', 'source_retired');
    const log = async (subscriptionId: string) => {
      const { body } = await call(feed, `/v1/subscriptions/${subscriptionId}/events`);
      return body.events.map(({ id, type, data }: LoggedEvent) => [id, type, data.datasetId, data.reason]);
    };
    expect(await log('sub_1')).toEqual([
      ['evt_1', 'dataset.added', 'a', undefined],
      ['evt_2', 'dataset.added', 'b', undefined],
      ['evt_3', 'dataset.updated', 'b', undefined],
      ['evt_4', 'dataset.removed', 'b', 'left_coverage'],
      ['evt_5', 'dataset.added', 'b', undefined],
      ['evt_6', 'dataset.removed', 'b', 'source_retired'],
    ]);
    expect(await log('sub_2')).toEqual([
      ['evt_1', 'dataset.added', 'b', undefined],
      ['evt_2', 'dataset.updated', 'b', undefined],
      ['evt_3', 'dataset.removed', 'b', 'source_retired'],
    ]);
    expect((await call(feed, '/v1/datasets/b/versions')).body.error.code).toBe('outside_coverage');
  });

  it('leave gaps when told, and may be lost', async () => {
    const feed = await started();
    addDatasets(feed, 'a');
    feed.store.subscription('sub_1').log.skipNumbers(5);
    feed.publisher.publish('a', smallContent(numberedRows(2)), { announce: false });
    feed.publisher.publish('a', smallContent(numberedRows(2)));
    const { body } = await call(feed, `${EVENTS}?after=evt_1`);
    expect(body.events).toMatchObject([{ id: 'evt_7', data: { version: 3 } }]);
    expect((await call(feed, `${EVENTS}?after=evt_3`)).body.error.code).toBe('invalid_cursor');
  });
});

describe('versions and schemas', () => {
  it('show a version with everything the interface names, and claims that are not true when told', async () => {
    const feed = await started();
    addDatasets(feed, 'a');
    const changes = [{ op: 'changed', row: ['r00000', 5] }] as const;
    const content = { ...smallContent(numberedRows(2), changes), sourceFetchedAt: '2020-02-01T00:00:00Z' };
    feed.publisher.publish('a', { ...content, publishedAt: '2020-02-02T00:00:00Z' });
    const claims = { rowCount: 99, previousVersion: 1, counts: { added: 7, changed: 0, removed: 0 } };
    feed.publisher.publish('a', smallContent(numberedRows(2)), { version: 9, claims });
    const { body } = await call(feed, '/v1/datasets/a/versions');
    expect(body.versions).toEqual([
      expect.objectContaining({ version: 9, ...claims }),
      {
        datasetId: 'a',
        version: 2,
        schemaVersion: '1',
        publishedAt: '2020-02-02T00:00:00Z',
        rowCount: 2,
        counts: { added: 0, changed: 1, removed: 0 },
        previousVersion: 1,
        sourceFetchedAt: '2020-02-01T00:00:00Z',
        resyncRequired: false,
      },
      expect.objectContaining({ version: 1, publishedAt: '2026-01-01T00:00:00.000Z' }),
    ]);
  });

  it('announce an additive schema and go on with an update', async () => {
    const feed = await started();
    addDatasets(feed, 'a');
    const schema = {
      ...SMALL_SCHEMA,
      schemaVersion: '2',
      columns: [...SMALL_SCHEMA.columns, column('note', 'string')],
    };
    feed.publisher.publish('a', smallContent([['r00000', 1, 'new']], [], schema));
    const { body } = await call(feed, `${EVENTS}?after=evt_1`);
    const schemaChange = {
      kind: 'additive',
      previousSchemaVersion: '1',
      added: [column('note', 'string')],
      removed: [],
      retyped: [],
      keyColumnsChanged: false,
    };
    expect(body.events).toMatchObject([
      { type: 'dataset.schema_changed', data: { version: 2, schemaVersion: '2', schemaChange } },
      { type: 'dataset.updated', data: { version: 2 } },
    ]);
    const schemas = await call(feed, '/v1/datasets/a/schemas');
    expect(schemas.body.schemas).toEqual([
      { datasetId: 'a', firstVersion: 2, ...schema, changeFromPrevious: schemaChange },
      { datasetId: 'a', firstVersion: 1, ...SMALL_SCHEMA },
    ]);
  });

  it('ask for a resync where a schema breaks', async () => {
    const feed = await started();
    addDatasets(feed, 'a');
    const columns = [column('id', 'string', false), column('amount', 'number')];
    feed.publisher.publish(
      'a',
      smallContent(numberedRows(1), null, { ...SMALL_SCHEMA, schemaVersion: '2', columns }),
    );
    const other = { ...SMALL_SCHEMA, schemaVersion: '3', columns, keyColumns: ['id', 'amount'] };
    feed.publisher.publish('a', smallContent(numberedRows(1), null, other));
    const { body } = await call(feed, `${EVENTS}?after=evt_1`);
    const retyped = [{ name: 'amount', from: 'integer', to: 'number' }];
    expect(body.events).toMatchObject([
      { type: 'dataset.schema_changed', data: { schemaChange: { kind: 'breaking', retyped } } },
      { type: 'dataset.resync_required', data: { version: 2 } },
      { type: 'dataset.schema_changed', data: { schemaChange: { keyColumnsChanged: true } } },
      { type: 'dataset.resync_required', data: { version: 3, reason: 'key_columns_changed' } },
    ]);
    const versions = await call(feed, '/v1/datasets/a/versions');
    expect(versions.body.versions).toMatchObject([{ resyncRequired: true }, { resyncRequired: true }, {}]);
  });

  it('refuse to publish what breaks the model', async () => {
    const feed = await started();
    addDatasets(feed, 'a');
    const retyped = { ...SMALL_SCHEMA, columns: [column('id', 'integer', false)] };
    const publish = (version: number, schema = SMALL_SCHEMA) =>
      feed.publisher.publish('a', smallContent([], [], schema), { version });
    expect(() => publish(1)).toThrow('version 1 does not follow 1');
    expect(() => publish(2, retyped)).toThrow('schema version 1 has other columns already');
  });

  it('start again at a lower version after their history was dropped', async () => {
    const feed = await started();
    addDatasets(feed, 'a');
    feed.publisher.publish('a', smallContent(numberedRows(2)), { version: 40 });
    feed.publisher.remove('a', 'source_retired');
    feed.publisher.dropHistory('a');
    feed.publisher.publish('a', smallContent(numberedRows(1)), { version: 3 });
    const { body } = await call(feed, `${EVENTS}?after=evt_3`);
    expect(body.events).toMatchObject([{ type: 'dataset.added', data: { version: 3 } }]);
  });
});
