/** The fixture feed lists its content as the service's interface says: in pages, by id, under the chosen names. */

import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import type { FixtureFeed } from '../../fixtures/feed/feed.ts';
import { call, send } from '../support/feed-calls.ts';
import { numberedRows, SMALL_SCHEMA, smallContent } from '../support/small-content.ts';
import { publishSmall, startedFeed } from '../support/started-feed.ts';

const EVENTS = '/v1/subscriptions/sub_1/events';

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

describe('lists', () => {
  it('lists a subscription with everything that the interface names', async () => {
    const feed = await startedFeed();
    publishSmall(feed, ['parcels']);
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
    const feed = await startedFeed({ defaultLimit: 2 });
    publishSmall(feed, ['a', 'b', 'c']);
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
    const feed = await startedFeed();
    publishSmall(feed, ['a']);
    feed.publisher.publish('a', smallContent(numberedRows(2)));
    const first = await call(feed, '/v1/datasets/a/versions?limit=1');
    feed.publisher.publish('a', smallContent(numberedRows(2)));
    const second = await call(feed, `/v1/datasets/a/versions?limit=1&cursor=${first.body.nextCursor}`);
    expect([first.body.versions[0].version, second.body.versions[0].version]).toEqual([2, 1]);
  });

  it('lists only versions newer than the given one, under the chosen parameter name', async () => {
    const feed = await startedFeed({ contract: { newerThanParameter: 'newerThan' } });
    publishSmall(feed, ['a']);
    feed.publisher.publish('a', smallContent(numberedRows(2)), { version: 7 });
    const { body } = await call(feed, '/v1/datasets/a/versions?newerThan=1');
    expect(body.versions.map(({ version }: { version: number }) => version)).toEqual([7]);
    expect((await call(feed, '/v1/datasets/a/versions?newerThan=7')).body.versions).toEqual([]);
    expect((await call(feed, '/v1/datasets/a/versions?since=1')).status).toBe(400);
  });

  it('accepts ids of any spelling', async () => {
    const feed = await startedFeed();
    const hostile = [`a/b'; DROP "x`, 'ключ ☃ 鍵', 'x'.repeat(5000), 'percent%2Fslash', 'evt_?#&'];
    publishSmall(feed, hostile);
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
    const feed = await startedFeed();
    publishSmall(feed, ['a']);
    const statuses: number[] = [];
    for (const method of ['POST', 'POST', 'DELETE', 'DELETE'])
      statuses.push((await call(feed, '/v1/datasets/a/watch', { method })).status);
    expect(statuses).toEqual([201, 200, 204, 404]);
  });
});

it('leaves nothing of its own behind, even where it is closed while it writes', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'closed-feed-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const feed = await startedFeed({ dataDir: folder, files: { filesPerSnapshot: 20 } });
  publishSmall(feed, ['a', 'b'], 40);
  const preparing = feed.prepareSnapshots().catch((error: unknown) => error);
  await feed.close();
  expect(readdirSync(folder)).toEqual([]);
  expect(await preparing).toEqual(new Error('No snapshot of b: the feed has closed.'));
  expect(readdirSync(folder)).toEqual([]);
});
