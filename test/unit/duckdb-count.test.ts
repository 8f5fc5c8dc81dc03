/** The tables of the mirror, counted as they are, whatever the catalog says of them: every change by hand is found. */

import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import type { CountedDataset } from '../../src/destination/reader.ts';
import { present } from '../../src/lib/assert.ts';
import { damageBlock } from '../support/damaged-mirror.ts';
import {
  column,
  load,
  mirrorIn,
  parquet,
  readerOf,
  snapshot,
  temporaryFolder,
} from '../support/duckdb-mirror.ts';
import { writeMirror } from '../support/mirror-file.ts';

let folder: Awaited<ReturnType<typeof temporaryFolder>>;
beforeEach(async () => {
  folder = await temporaryFolder();
  const mirror = await mirrorIn(folder.path);
  const path = await parquet(
    folder.path,
    'a.parquet',
    `SELECT 'p' || range AS id, range % 7 AS part, TIMESTAMPTZ '2024-01-01 00:00:00+00' AS at,
      ST_AsWKB('POINT (1 2)'::GEOMETRY) AS shape, '{}' AS rest FROM range(100)`,
  );
  const columns = [
    column('id', 'string'),
    column('part', 'integer'),
    column('at', 'timestamp'),
    column('shape', 'geometry'),
    column('rest', 'json'),
  ];
  const files = [path];
  await load(
    mirror,
    snapshot({ datasetId: 'parcels', columns, keyColumns: ['id', 'part'], files }),
    snapshot({ datasetId: 'zoning', columns, files }),
  );
  await mirror.close();
});
afterEach(() => folder[Symbol.asyncDispose]());

async function counted(ids = ['parcels', 'zoning'], isEnough = () => false) {
  const reader = await readerOf(join(folder.path, 'mirror.duckdb'), { memoryLimitBytes: 200_000_000 });
  try {
    return await present(reader, 'there is a mirror').count(ids, isEnough);
  } finally {
    await reader?.close();
  }
}

function tableOf(all: readonly CountedDataset[], datasetId: string) {
  return all.find(({ observed }) => observed.datasetId === datasetId)?.table;
}

it('counts rows and keys, and finds every column of every type in its place', async () => {
  const all = await counted(['zoning', 'nowhere', 'parcels']);
  expect(all.map(({ observed }) => [observed.datasetId, observed.rowCount])).toEqual([
    ['zoning', 100],
    ['parcels', 100],
  ]);
  const keys = { nullRows: 0, repeatedRows: 0, example: null };
  expect(tableOf(all, 'parcels')).toEqual({
    rowCount: 100,
    keys,
    strayColumns: [],
    hasRecordedChecksum: true,
  });
  expect(tableOf(all, 'zoning')).toEqual({
    rowCount: 100,
    keys: null,
    strayColumns: [],
    hasRecordedChecksum: true,
  });
});

it('stops counting after a dataset when the caller has enough', async () => {
  const all = await counted(['zoning', 'parcels'], () => true);
  expect(all.map(({ observed }) => observed.datasetId)).toEqual(['zoning']);
});

it('finds rows and keys that were changed by hand', async () => {
  await writeMirror(
    join(folder.path, 'mirror.duckdb'),
    `DELETE FROM parcels WHERE id = 'p0'`,
    `UPDATE parcels SET id = NULL WHERE id IN ('p1', 'p2')`,
    `INSERT INTO parcels SELECT * FROM parcels WHERE id = 'p3'`,
    `INSERT INTO parcels SELECT * FROM parcels WHERE id = 'p3'`,
  );
  const { rowCount, keys } = present(tableOf(await counted(), 'parcels'), 'the table is there');
  expect(rowCount).toBe(102);
  const example = new Map([
    ['id', 'p3'],
    ['part', '3'],
  ]);
  expect(keys).toEqual({ nullRows: 2, repeatedRows: 3, example });
});

it('finds a single value that was changed by hand, by the checksum of the rows', async () => {
  const path = join(folder.path, 'mirror.duckdb');
  await writeMirror(path, `UPDATE parcels SET rest = '"other"' WHERE id = 'p7'`);
  expect(tableOf(await counted(), 'parcels')).toMatchObject({ rowCount: 100, hasRecordedChecksum: false });
  await writeMirror(path, `UPDATE parcels SET rest = '{}' WHERE id = 'p7'`);
  expect(tableOf(await counted(), 'parcels')).toMatchObject({ hasRecordedChecksum: true });
});

it('does not judge a checksum of another version of the hash, or a missing one', async () => {
  const path = join(folder.path, 'mirror.duckdb');
  for (const sql of ["checksum_version = '0-0'", 'checksum = NULL']) {
    await writeMirror(path, `UPDATE feed_sync.datasets SET ${sql}`);
    expect(tableOf(await counted(), 'parcels')).toMatchObject({ rowCount: 100, hasRecordedChecksum: null });
  }
});

it('finds tables and columns that were changed by hand', async () => {
  await writeMirror(
    join(folder.path, 'mirror.duckdb'),
    'DROP TABLE zoning',
    'CREATE VIEW zoning AS FROM parcels',
    'ALTER TABLE parcels DROP COLUMN part',
    'ALTER TABLE parcels ALTER COLUMN rest TYPE VARCHAR',
    'ALTER TABLE parcels ADD COLUMN mine DATE',
  );
  const all = await counted();
  expect(tableOf(all, 'zoning')).toBeNull();
  expect(tableOf(all, 'parcels')).toEqual({
    rowCount: 100,
    keys: null,
    strayColumns: [
      { columnName: 'part', expected: 'BIGINT', found: null },
      { columnName: 'rest', expected: 'JSON', found: 'VARCHAR' },
      { columnName: 'mine', expected: null, found: 'DATE' },
    ],
    hasRecordedChecksum: null,
  });
});

it('reads every table to its end, names a damaged one, and counts the others in the next turn', async () => {
  await writeMirror(
    join(folder.path, 'mirror.duckdb'),
    'UPDATE zoning SET rest = \'{"text": "\' || sha256(id || part) || \'"}\'',
    'UPDATE zoning SET rest = \'{"text": "the damaged value"}\' WHERE id = \'p1\'',
    // Without a recorded checksum the values are read all the same.
    'UPDATE feed_sync.datasets SET checksum = NULL',
  );
  damageBlock(join(folder.path, 'mirror.duckdb'), 'the damaged value');
  const all = await counted(['zoning', 'parcels']);
  expect(all).toMatchObject([
    { observed: { datasetId: 'zoning' }, table: null, damage: expect.stringContaining('checksum') },
  ]);
  expect(await counted(['parcels'])).toMatchObject([{ table: { rowCount: 100 }, damage: null }]);
});
