/** Snapshots as the manifest describes them, with the real client: facts about files, links that expire, digests. */

import { createHash } from 'node:crypto';
import { expect, it } from 'vitest';
import { present } from '../../src/lib/assert.ts';
import type { ManifestEntry } from '../../src/model/manifest.ts';
import { openNew } from '../support/checkpoint-files.ts';
import { duckdb, inMirror } from '../support/duckdb-mirror.ts';
import { type ServedWorld, withRealMirror } from '../support/served-world.ts';
import { column, numberedRows, SMALL_SCHEMA, smallContent } from '../support/small-content.ts';
import { kinds } from '../support/small-world.ts';

async function entryOf({ parts }: ServedWorld, datasetId: string): Promise<ManifestEntry> {
  const { datasets } = await parts.feed.manifest('sub_1', new AbortController().signal);
  const listed = datasets.find((entry) => entry.datasetId === datasetId);
  return present(listed, 'the manifest lists it');
}

function filesAsked({ requests }: ServedWorld['feed']): readonly string[] {
  return requests.entries('file').map(({ path, status }) => `${path.split('/').at(-1)} ${status}`);
}

it.each([
  ['bytes', 1, 'stated 1 bytes, found', 'content_mismatch'],
  ['rowCount', 7, 'has 3 rows, but the manifest states 7.', 'data_invalid'],
  ['sha256', '0'.repeat(64), `stated sha256 ${'0'.repeat(64)}, found`, 'content_mismatch'],
])(
  'M4 loads a file without %s, also from a relative address, and rejects one with a wrong value',
  async (name, wrong, reported, error) => {
    const world = await withRealMirror({ files: { [name]: false } });
    const { feed } = world;
    const rewrite = (body: unknown): unknown => {
      for (const { datasetId, files } of Object(body).datasets) {
        if (datasetId === 'permits') Object.assign(files[0], { [name]: wrong });
      }
      return body;
    };
    feed.settings.files.urls = 'relative';
    expect(kinds(await world.catchUp())).toEqual({ parcels: 'loaded', permits: 'loaded', roads: 'loaded' });
    expect(feed.requests.entries('file').map(({ hasAuthorization }) => hasAuthorization)).not.toContain(
      false,
    );

    feed.settings.files.urls = 'second-origin';
    feed.publisher.publish('permits', smallContent(numberedRows(3), null));
    feed.faults.add({ match: { operation: 'manifest', times: 'always' }, act: { kind: 'rewrite', rewrite } });
    expect(await world.catchUp()).toMatchObject({
      datasets: [
        { kind: 'current' },
        { kind: 'failed', error: { code: error, message: expect.stringContaining(reported) } },
        { kind: 'current' },
      ],
    });
    expect((await world.parts.destination.has()).datasets.get('permits')).toMatchObject({ version: 1 });
  },
);

it('M5 loads all files of a snapshot together, as GeoParquet or as Parquet without geometry', async () => {
  const world = await withRealMirror({ files: { filesPerSnapshot: 3 } });
  const schema = {
    ...SMALL_SCHEMA,
    schemaVersion: '2',
    columns: [...SMALL_SCHEMA.columns, column('at', 'geometry')],
  };
  const rows = numberedRows(7).map(([id = null, amount = null]) => {
    const point = { type: 'Point', coordinates: [Number(amount), 1] } as const;
    return [id, amount, point] as const;
  });
  world.feed.publisher.publish('permits', smallContent(rows, null, schema));
  world.feed.publisher.publish('parcels', smallContent(numberedRows(7), null));
  const geo = new Map<string, unknown>();
  const { feed } = world.parts;
  const download: typeof feed.download = async (request, signal) => {
    const downloaded = await feed.download(request, signal);
    const paths = downloaded.kind === 'complete' ? downloaded.files.map(({ path }) => `'${path}'`) : [];
    const reported = await duckdb(`SELECT count(DISTINCT file_name) FILTER (decode(key) = 'geo')
      FROM parquet_kv_metadata([${paths.join(', ')}])`);
    geo.set(request.entry.datasetId, [paths.length, ...(reported[0] ?? [])]);
    return downloaded;
  };
  Object.assign(world.parts, { feed: { ...feed, download } });
  await world.catchUp();
  expect(Object.fromEntries(geo)).toMatchObject({ permits: [3, '3'], parcels: [3, '0'] });
  const read = (table: string, shown: string) =>
    inMirror(world.folder, `SELECT id, ${shown} FROM ${table} ORDER BY id`);
  expect(await read('permits', 'ST_AsText("at")')).toEqual(
    rows.map(([id, amount]) => [id, `POINT (${amount} 1)`]),
  );
  expect(await read('parcels', 'amount::INTEGER')).toEqual(numberedRows(7));
});

it('M10 loads the newer version that a link expires into, and keeps files of equal digest', async () => {
  const downloads = { allowedOrigins: [], concurrency: 1 };
  const world = await withRealMirror({ files: { filesPerSnapshot: 2 } }, { downloads });
  const { publisher, faults, requests } = world.feed;
  await world.catchUp();
  publisher.publish('permits', smallContent(numberedRows(4), null));
  const second = { operation: 'file', datasetId: 'permits', nth: 2 } as const;
  const next = smallContent([...numberedRows(3), ['r00009', 9]], null);
  const until = async (): Promise<void> => void publisher.publish('permits', next);
  faults.add({ match: second, act: { kind: 'wait', until } });
  faults.add({ match: second, act: { kind: 'respond', status: 403 } });
  requests.clear();
  expect(kinds(await world.catchUp())).toMatchObject({ permits: 'loaded' });
  expect(filesAsked(world.feed)).toEqual(['part-0.parquet 200', 'part-1.parquet 403', 'part-1.parquet 200']);
  expect(await inMirror(world.folder, 'SELECT id FROM permits ORDER BY id')).toEqual(
    ['r00000', 'r00001', 'r00002', 'r00009'].map((id) => [id]),
  );
});

it('M15 M16 records the digest of the files, and downloads nothing that the mirror has by its digest', async () => {
  const world = await withRealMirror({ files: { filesPerSnapshot: 2, sha256: false } });
  const { feed, parts } = world;
  await world.catchUp();
  feed.settings.files.sha256 = true;
  const { files } = await entryOf(world, 'permits');
  const digests = files.map(({ sha256 }) => sha256).sort();
  const digest = createHash('sha256').update(digests.join('\n')).digest('hex');
  expect(digests).toHaveLength(2);
  expect((await parts.destination.has()).datasets.get('permits')?.snapshotDigest).toBe(digest);

  const startAnew = async () => {
    feed.requests.clear();
    Object.assign(parts, { checkpoint: await openNew() });
    return kinds(await world.catchUp());
  };
  expect(await startAnew()).toEqual({ parcels: 'current', permits: 'current', roads: 'current' });
  expect(filesAsked(feed)).toEqual([]);
  // The same version of other content.
  feed.publisher.resync('permits', 'subscription_changed', { content: smallContent([['r', 1]], null) });
  expect(await startAnew()).toEqual({ parcels: 'current', permits: 'loaded', roads: 'current' });
  expect(filesAsked(feed)).toHaveLength(2);
});
