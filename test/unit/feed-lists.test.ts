/** The operations that read several pages: changes, manifests, versions; and a log that promises more than it gives. */

import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Feed } from '../../src/feed/feed.ts';
import { errorOf, testFeed } from '../support/feed-client.ts';
import { answerAt, BASE, interceptedFeed } from '../support/intercepted-feed.ts';
import { pagesIn } from '../support/pages-in.ts';

const signal = new AbortController().signal;
const CHANGES = '/v1/datasets/parcels/changes';
const MANIFEST = '/v1/subscriptions/sub_1/manifest';
const VERSIONS = '/v1/datasets/parcels/versions';

const { start } = interceptedFeed();

let feed: Feed;
let directory: string;

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'feed-lists-'));
  feed = start();
});
afterEach(() => rm(directory, { recursive: true, force: true }));

/** Page after page, each at the cursor that is its number. Gives the queries that were asked. */
function pages(path: string, ...bodies: readonly object[]): string[] {
  const asked: string[] = [];
  answerAt(path, ({ searchParams }) => {
    asked.push(searchParams.toString());
    const page = Number(searchParams.get('cursor') ?? 0);
    const nextCursor = page + 1 < bodies.length ? String(page + 1) : null;
    return [200, JSON.stringify({ nextCursor, ...bodies[page] })];
  });
  return asked;
}

function changes(into = directory, onBytes: (bytes: number) => void = () => {}) {
  return feed.changes({ datasetId: 'parcels', version: 2, pathOf: pagesIn(into), onBytes }, signal);
}

describe('changes', () => {
  it('C1 spools changes page by page, in order, byte for byte', async () => {
    const asked = pages(CHANGES, { changes: [1] }, { changes: [2] }, { changes: [] });
    const arrived: number[] = [];
    const result = await changes(directory, (bytes) => arrived.push(bytes));
    expect(asked).toEqual([
      'version=2&limit=1000',
      'version=2&limit=1000&cursor=1',
      'version=2&limit=1000&cursor=2',
    ]);
    const spooled = result.recorded ? result.pages : [];
    expect(await Promise.all(spooled.map((path) => readFile(path, 'utf8')))).toEqual([
      '{"nextCursor":"1","changes":[1]}',
      '{"nextCursor":"2","changes":[2]}',
      '{"nextCursor":null,"changes":[]}',
    ]);
    expect(arrived).toEqual([32, 32, 32]);
    expect(result).toMatchObject({ bytes: 96 });
  });

  it('takes changes for not recorded where a later page says so', async () => {
    const asked = pages(CHANGES, { changes: [] }, { recorded: false }, { changes: [] });
    expect(await changes()).toMatchObject({ recorded: false });
    expect(asked).toHaveLength(2);
  });

  it.each([
    ['previousVersion', 1, 7],
    ['schemaVersion', 'a', 'b'],
  ])('refuses changes whose pages differ in %s', async (field, first, second) => {
    pages(CHANGES, { changes: [], [field]: first }, { changes: [], [field]: second });
    expect(await errorOf(changes())).toMatchObject({ name: 'ContractViolationError', path: field });
  });

  it('names the missing folder that changes were to be spooled into', async () => {
    pages(CHANGES, { changes: [] });
    const error = await errorOf(changes(join(directory, 'missing')));
    expect(error.name).toBe('StorageError');
    expect(error.message).toContain('missing: no such file or directory (ENOENT)');
  });

  it('leaves the disk reserve free when changes are spooled', async () => {
    const tight = testFeed(BASE, { diskReserveBytes: Number.MAX_SAFE_INTEGER }).feed;
    pages(CHANGES, { changes: [] });
    const request = { datasetId: 'parcels', version: 2, pathOf: pagesIn(directory), onBytes: () => {} };
    const error = await errorOf(tight.changes(request, signal));
    expect(error).toMatchObject({ code: 'disk_full', hint: expect.stringContaining('dataDir') });
    expect(error.message).toContain('the changes of dataset parcels need 32 B beside');
    expect(await readdir(directory)).toEqual([]);
    await tight.close();
  });
});

describe('a manifest', () => {
  const entry = (datasetId: string) => ({ datasetId, version: 1, files: [] });

  it('M1 M3 reads every page of a manifest, and takes the lowest of their watermarks', async () => {
    const asked = pages(
      MANIFEST,
      { lastEventId: 'evt_9', datasets: [entry('a')] },
      { lastEventId: 'evt_8', datasets: [entry('b')] },
      { lastEventId: 'evt_10', datasets: [entry('c')] },
    );
    const manifest = await feed.manifest('sub_1', signal);
    expect(manifest.lastEventId?.text).toBe('evt_8');
    expect(manifest.datasets.map(({ datasetId }) => datasetId)).toEqual(['a', 'b', 'c']);
    expect(asked).toEqual(['limit=200', 'limit=200&cursor=1', 'limit=200&cursor=2']);
  });

  it('M3 takes no watermark where a page of the manifest lacks one', async () => {
    pages(MANIFEST, { lastEventId: 'evt_9', datasets: [] }, { datasets: [] });
    expect((await feed.manifest('sub_1', signal)).lastEventId).toBeNull();
  });
});

describe('the manifest of a dataset', () => {
  it('M2 reads dataset, version, schema version, row count and files from the manifest of a dataset', async () => {
    const manifestPath = '/v1/datasets/{datasetId}/manifest';
    const { feed: byDataset } = testFeed(BASE, { contract: { manifestPath, newerThanParameter: null } });
    const file = { url: 'part-0.parquet', bytes: 7, rowCount: 3, sha256: 'ab'.repeat(32) };
    const entry = { datasetId: 'parcels', version: 4, schemaVersion: '2', rowCount: 3, files: [file] };
    const asked = pages('/v1/datasets/parcels/manifest', entry);
    expect(await byDataset.manifestEntry('parcels', signal)).toMatchObject({ entry });
    expect(asked).toEqual(['']);
    await byDataset.close();
  });
});

describe('versions', () => {
  const version = (number: number) => ({ datasetId: 'parcels', version: number });

  it('filters versions that the service did not, and reads no further than needed', async () => {
    const asked = pages(
      VERSIONS,
      { versions: [version(9), version(8)] },
      { versions: [version(7), version(6)] },
      { versions: [version(5)] },
    );
    const { versions: newer } = await feed.versions('parcels', 6, signal);
    expect(newer.map((item) => item.version)).toEqual([9, 8, 7]);
    expect(asked).toEqual(['since=6&limit=200', 'since=6&limit=200&cursor=1']);
    expect((await feed.versions('parcels', null, signal)).versions).toHaveLength(5);
    expect(asked.slice(2)).toEqual(['limit=200', 'limit=200&cursor=1', 'limit=200&cursor=2']);
  });

  it('reads all versions without the parameter where the lower bound is below the least number', async () => {
    const asked = pages(VERSIONS, { versions: [version(0)] });
    expect((await feed.versions('parcels', -1, signal)).versions).toHaveLength(1);
    expect(asked).toEqual(['limit=200']);
  });
});

it('F25: ends the attempt on a log that promises more and gives none', async () => {
  pages('/v1/subscriptions/sub_1/events', { events: [], hasMore: true });
  expect(await errorOf(feed.events('sub_1', null, signal))).toMatchObject({
    name: 'ContractViolationError',
    path: 'hasMore',
  });
});

it('F25: ends the attempt on a next cursor that repeats', async () => {
  const asked: string[] = [];
  answerAt('/v1/subscriptions', ({ search }) => {
    asked.push(search);
    return [200, '{"subscriptions":[],"nextCursor":"same"}'];
  });
  expect(await errorOf(feed.subscriptions(signal))).toMatchObject({ path: 'nextCursor' });
  expect(asked).toEqual(['?limit=200', '?limit=200&cursor=same']);
});
