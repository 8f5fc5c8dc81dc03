/** Reading the mirror beside the daemon: no statement changes anything or reads another file, and every value is exact. */

import { readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { MirrorReader, ReaderOptions } from '../../src/destination/duckdb/reader.ts';
import { present } from '../../src/lib/assert.ts';
import { BusyError, UsageError } from '../../src/model/errors.ts';
import { type Child, startChild } from '../support/child.ts';
import {
  column,
  load,
  manualClock,
  mirrorIn,
  parquet,
  readerOf,
  snapshot,
  temporaryFolder,
} from '../support/duckdb-mirror.ts';

let folder: Awaited<ReturnType<typeof temporaryFolder>>;
let reader: MirrorReader | null = null;
let writer: Child | null = null;
beforeEach(async () => {
  folder = await temporaryFolder();
});
afterEach(async () => {
  await reader?.close();
  await writer?.kill();
  reader = null;
  writer = null;
  await folder[Symbol.asyncDispose]();
});

function open(rest: Partial<ReaderOptions> = {}): Promise<MirrorReader | null> {
  return readerOf(join(folder.path, 'mirror.duckdb'), { memoryLimitBytes: 200_000_000, ...rest });
}

async function filled(): Promise<MirrorReader> {
  const mirror = await mirrorIn(folder.path);
  const path = await parquet(
    folder.path,
    'a.parquet',
    "SELECT range AS id, ST_AsWKB('POINT Z (1 2 3)'::GEOMETRY) AS geometry FROM range(5000)",
  );
  await load(
    mirror,
    snapshot({ columns: [column('id', 'integer'), column('geometry', 'geometry')], files: [path] }),
  );
  await mirror.close();
  reader = present(await open(), 'there is a mirror');
  return reader;
}

async function all<T>(items: AsyncIterable<T>): Promise<readonly T[]> {
  const list: T[] = [];
  for await (const item of items) list.push(item);
  return list;
}

async function rowsOf(sql: string): Promise<readonly (readonly unknown[])[]> {
  const { rows } = await present(reader, 'it is open').query(sql);
  return await all(rows);
}

it('opens no reader where there is no mirror, and creates none', async () => {
  expect(await open()).toBeNull();
  expect(await readdir(folder.path)).toEqual([]);
  await writeFile(join(folder.path, 'mirror.duckdb'), '');
  expect(await open()).toBeNull();
});

it('reports the tables of the mirror', async () => {
  const observed = await (await filled()).observed();
  expect(observed.datasets.get('parcels')).toMatchObject({ version: 1, rowCount: 5_000 });
});

it('waits for a writer of the mirror, and then reports the mirror as busy', async () => {
  await (await filled()).close();
  reader = null;
  writer = startChild('duckdb-holder-child.ts', join(folder.path, 'mirror.duckdb'), 'READ_WRITE');
  expect(await writer.nextLine()).toBe('held');
  const clock = manualClock();
  await expect(open({ clock, waitMs: 5_000 })).rejects.toThrow(BusyError);
  expect(clock.slept.reduce((sum, each) => sum + each, 0)).toBe(5_000);
});

describe('a query', () => {
  it('returns names, types and rows of a query in their order', async () => {
    const result = await (await filled()).query(
      'SELECT id, geometry, id AS id FROM parcels ORDER BY id DESC; -- all of them',
    );
    expect(result.columnNames).toEqual(['id', 'geometry', 'id']);
    expect(result.columnTypes).toEqual(['BIGINT', 'GEOMETRY', 'BIGINT']);
    const rows = await all(result.rows);
    expect(rows.length).toBe(5_000);
    expect(rows[0]).toEqual(['4999', 'POINT Z (1 2 3)', '4999']);
  });

  it.each<[string, unknown]>([
    ['9223372036854775807', '9223372036854775807'],
    ['170141183460469231731687303715884105727::HUGEINT', '170141183460469231731687303715884105727'],
    ['1.10::DECIMAL(20,2)', '1.10'],
    ['0.1::DOUBLE', 0.1],
    ["'nan'::DOUBLE", 'NaN'],
    ['true', true],
    ['NULL', null],
    ["'a''b'", "a'b"],
    ["DATE '1600-02-29'", '1600-02-29'],
    ["TIMESTAMPTZ '2024-03-10 02:30:00.000001-06'", '2024-03-10T08:30:00.000001Z'],
    ["TIMESTAMPTZ '1969-12-31 23:59:59.999999+00'", '1969-12-31T23:59:59.999999Z'],
    ["TIMESTAMPTZ '0001-01-01 00:00:00+00'", '0001-01-01T00:00:00.000000Z'],
    ["TIMESTAMPTZ 'infinity'", 'infinity'],
    ["TIMESTAMP '2024-03-10 02:30:00'", '2024-03-10T02:30:00.000000'],
    ["'\\x00\\xFF'::BLOB", '00ff'],
    ["'POINT (1 2)'::GEOMETRY", 'POINT (1 2)'],
    [`'{"a": 1.0}'::JSON`, '{"a": 1.0}'],
    ['[1, NULL]', '[1,null]'],
    [
      "{'a': 9223372036854775807, 'b': [DATE '2024-01-01']}",
      '{"a":"9223372036854775807","b":["2024-01-01"]}',
    ],
    ["{'g': 'POINT (1 2)'::GEOMETRY}", '{"g":"POINT (1 2)"}'],
    ["MAP {'k': 1}", '[{"key":"k","value":1}]'],
    ["uuid_extract_version('b7422d54-9acb-400a-b46b-4ae572c18328'::UUID)", 4],
  ])('shows %s as it is in a query', async (sql, expected) => {
    await filled();
    expect(await rowsOf(`SELECT ${sql} AS value`)).toEqual([[expected]]);
  });

  it.each([
    'selec 1',
    'SELECT nothing FROM parcels',
    "SELECT 'a'::INTEGER",
    'SELECT 1; SELECT 2',
    '',
    'SELECT 1\0',
    "SELECT error('no')",
    'DROP TABLE parcels',
    'INSERT INTO parcels SELECT * FROM parcels',
    "FROM read_csv('/etc/passwd')",
    "COPY parcels TO 'FOLDER/never.csv'",
    "ATTACH 'FOLDER/never.duckdb'",
    "SET memory_limit = '1TB'",
    'INSTALL httpfs',
  ])('refuses a query that is wrong, or that does more than read the mirror: %j', async (sql) => {
    await filled();
    await expect(rowsOf(sql.replace('FOLDER', folder.path))).rejects.toThrow(UsageError);
    expect(await rowsOf('SELECT count(*) FROM parcels')).toEqual([['5000']]);
    expect((await readdir(folder.path)).filter((name) => name.startsWith('never'))).toEqual([]);
  });
});
