/** The fixture feed reports what happened as the service's interface says: events, versions and schemas. */

import { describe, expect, it } from 'vitest';
import { DAY_MS } from '../../fixtures/feed/clock.ts';
import { call } from '../support/feed-calls.ts';
import { column, numberedRows, SMALL_SCHEMA, smallContent } from '../support/small-content.ts';
import { publishSmall, startedFeed } from '../support/started-feed.ts';

const EVENTS = '/v1/subscriptions/sub_1/events';

interface LoggedEvent {
  readonly id: string;
  readonly type: string;
  readonly data: { readonly datasetId: string; readonly reason?: string };
}

describe('events', () => {
  it('serves events in order, after the one given, in pages that say whether more follow', async () => {
    const feed = await startedFeed();
    publishSmall(feed, ['a']);
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

  it('an event of an update has everything that the interface names', async () => {
    const feed = await startedFeed();
    publishSmall(feed, ['a']);
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

  it('events are gone after 90 days, but not the subscription’s last event id', async () => {
    const feed = await startedFeed();
    publishSmall(feed, ['a']);
    feed.clock.advance(60 * DAY_MS);
    publishSmall(feed, ['b']);
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

  it('events go to each subscription that contains the dataset, numbered for each', async () => {
    const feed = await startedFeed();
    publishSmall(feed, ['a', 'b']);
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

  it('event numbers leave gaps on demand, and events may be lost', async () => {
    const feed = await startedFeed();
    publishSmall(feed, ['a']);
    feed.store.subscription('sub_1').log.skipNumbers(5);
    feed.publisher.publish('a', smallContent(numberedRows(2)), { announce: false });
    feed.publisher.publish('a', smallContent(numberedRows(2)));
    const { body } = await call(feed, `${EVENTS}?after=evt_1`);
    expect(body.events).toMatchObject([{ id: 'evt_7', data: { version: 3 } }]);
    expect((await call(feed, `${EVENTS}?after=evt_3`)).body.error.code).toBe('invalid_cursor');
  });
});

describe('versions and schemas', () => {
  it('versions have everything that the interface names, and false claims on demand', async () => {
    const feed = await startedFeed();
    publishSmall(feed, ['a']);
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

  it('announces an additive schema and goes on with an update', async () => {
    const feed = await startedFeed();
    publishSmall(feed, ['a']);
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

  it('demands a resync where a schema breaks', async () => {
    const feed = await startedFeed();
    publishSmall(feed, ['a']);
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

  it('refuses to publish versions and schemas that break the model', async () => {
    const feed = await startedFeed();
    publishSmall(feed, ['a']);
    const retyped = { ...SMALL_SCHEMA, columns: [column('id', 'integer', false)] };
    const publish = (version: number, schema = SMALL_SCHEMA) =>
      feed.publisher.publish('a', smallContent([], [], schema), { version });
    expect(() => publish(1)).toThrow('version 1 does not follow 1');
    expect(() => publish(2, retyped)).toThrow('schema version 1 has other columns already');
  });

  it('restarts versions at a lower number after their history was dropped', async () => {
    const feed = await startedFeed();
    publishSmall(feed, ['a']);
    feed.publisher.publish('a', smallContent(numberedRows(2)), { version: 40 });
    feed.publisher.remove('a', 'source_retired');
    feed.publisher.dropHistory('a');
    feed.publisher.publish('a', smallContent(numberedRows(1)), { version: 3 });
    const { body } = await call(feed, `${EVENTS}?after=evt_3`);
    expect(body.events).toMatchObject([{ type: 'dataset.added', data: { version: 3 } }]);
  });
});
