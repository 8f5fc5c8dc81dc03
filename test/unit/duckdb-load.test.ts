/** A snapshot replaces the whole table or changes nothing (F38, F39, F41, F43). */

import { readFile, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { ParquetSchema, ParquetWriter } from '@dsnp/parquetjs';
import { describe, expect, it } from 'vitest';
import { DataError, UnknownColumnsError } from '../../src/model/errors.ts';
import type { PlannedFrom, SnapshotJob } from '../../src/model/write-jobs.ts';
import { commitAll } from '../support/commit-all.ts';
import { column, duckdb, type SnapshotSpecification, snapshot } from '../support/duckdb-mirror.ts';
import { mirrorOfEachTest } from '../support/own-mirror.ts';
import { reloadMarks } from '../support/reload-marks.ts';

const own = mirrorOfEachTest();

const columns = [column('id', 'integer'), column('name', 'string')];
const nobody = {
  origin: 'https://feed.example',
  subscriptionIds: [],
  forgottenSubscriptionIds: [],
  datasetIds: [],
};

/** The table as the first load left it, when it has this newest commit. */
function afterCommit(commitNumber: number): PlannedFrom {
  return { commitNumber, version: 1, snapshotDigest: 'digest-1' };
}

async function people(
  name: string,
  rows: string,
  rest: Partial<SnapshotSpecification> = {},
): Promise<SnapshotJob> {
  const path = await own.parquet(name, `SELECT * FROM (VALUES ${rows}) t(id, name)`);
  return snapshot({ columns, keyColumns: ['id'], files: [path], ...rest });
}

describe('the catalog after a load', () => {
  it('V14 W29 records a load in feed_sync and in comments, with the envelope columns after the others', async () => {
    const path = await own.parquet(
      'a.parquet',
      `SELECT 1::BIGINT AS id, 'x' AS title, 'y' AS name, 9::BIGINT AS _v`,
    );
    const job = snapshot({
      datasetId: 'us-tx/people',
      version: 7,
      publishedAt: new Date('2026-01-02T03:04:05.678Z'),
      columns: [
        column('id', 'integer', { nullable: false }),
        column('title', 'string', { description: "it's" }),
        column('name', 'string', { sourceName: 'NAME2' }),
      ],
      keyColumns: ['id'],
      envelopeColumns: [column('_v', 'integer'), column('_absent', 'string')],
      files: [path],
      digestKind: 'computed',
      loadedThrough: 'sub_1',
      loadedAt: new Date('2026-01-02T04:00:00.001Z'),
      reloads: reloadMarks([['sub_1', 12n]]),
    });
    await own.mirror.enroll({
      origin: 'https://feed.example',
      subscriptionIds: ['sub_1'],
      forgottenSubscriptionIds: [],
      datasetIds: ['us-tx/people'],
    });
    const [outcome] = await own.load(job);
    const observed = await own.mirror.has();
    expect(outcome).toEqual({
      kind: 'committed',
      datasetId: 'us-tx/people',
      committed: {
        kind: 'snapshot',
        versions: 1,
        bytes: 1,
        durationMs: 0,
        tableName: 'us_tx_people',
        fromVersion: null,
        toVersion: 7,
        rowCount: 1,
        net: null,
        observed: observed.datasets.get('us-tx/people'),
      },
    });
    expect(observed.service).toEqual({ origin: 'https://feed.example', subscriptionIds: ['sub_1'] });
    expect(observed.datasets.get('us-tx/people')).toMatchObject({
      tableName: 'us_tx_people',
      version: 7,
      schemaVersion: '1',
      rowCount: 1,
      keyColumns: ['id'],
      snapshotVersion: 7,
      snapshotDigest: 'digest-1',
      digestKind: 'computed',
      loadedThrough: 'sub_1',
      loadedAt: new Date('2026-01-02T04:00:00.001Z'),
      publishedAt: new Date('2026-01-02T03:04:05.678Z'),
      reloads: reloadMarks([['sub_1', 12n]]),
      columns: [
        { name: 'id', columnName: 'id', type: 'integer', role: 'key', crs: null },
        { name: 'title', columnName: 'title', type: 'string', role: 'data', crs: null },
        { name: 'name', columnName: 'name', type: 'string', role: 'data', crs: null },
        { name: '_v', columnName: '_v', type: 'integer', role: 'envelope', crs: null },
      ],
    });
    expect(await own.query('SELECT * EXCLUDE (dataset_id) FROM feed_sync.columns ORDER BY position')).toEqual(
      [
        ['1', 'id', 'id', 'integer', false, null, null, 'key', null],
        ['2', 'title', 'title', 'string', true, "it's", null, 'data', null],
        ['3', 'name', 'name', 'string', true, null, 'NAME2', 'data', null],
        ['4', '_v', '_v', 'integer', true, null, null, 'envelope', null],
      ],
    );
    expect(
      await own.query('SELECT column_name, comment FROM duckdb_columns() WHERE comment IS NOT NULL'),
    ).toEqual([['title', "it's"]]);
    expect(await own.query('SELECT comment FROM duckdb_tables() WHERE comment IS NOT NULL')).toEqual([
      ['Dataset us-tx/people'],
    ]);
    expect(
      await own.query('SELECT dataset_id, from_version, to_version, kind FROM feed_sync.commits'),
    ).toEqual([['us-tx/people', null, '7', 'load']]);
    expect(await own.query('FROM us_tx_people')).toEqual([['1', 'x', 'y', '9']]);
  });

  it('records the newest reload of each subscription', async () => {
    const first = await people('a.parquet', "(1::BIGINT, 'a')", {
      reloads: reloadMarks([
        ['sub_1', 5n],
        ['sub_2', 5n],
      ]),
    });
    await own.load(first);
    await own.load({
      ...first,
      plannedFrom: afterCommit(1),
      reloads: reloadMarks([
        ['sub_1', 3n],
        ['sub_2', 8n],
      ]),
    });
    expect((await own.mirror.has()).datasets.get('parcels')?.reloads).toEqual(
      reloadMarks([
        ['sub_1', 5n],
        ['sub_2', 8n],
      ]),
    );
  });

  it('records the reload of the newest log, whatever the event numbers', async () => {
    const createdAt = new Date('2026-01-02T03:04:05.678Z');
    const marks = (logNumber: number, eventNumber: bigint) =>
      new Map([['sub_1', { logNumber, eventNumber, createdAt }]]);
    const reloads = async () => (await own.mirror.has()).datasets.get('parcels')?.reloads;
    const first = await people('a.parquet', "(1::BIGINT, 'a')", { reloads: marks(1, 100n) });
    await own.load(first);
    expect(await reloads()).toEqual(marks(1, 100n));
    await own.load({ ...first, plannedFrom: afterCommit(1), reloads: marks(2, 3n) });
    expect(await reloads()).toEqual(marks(2, 3n));
    await own.load({ ...first, plannedFrom: afterCommit(2), reloads: marks(1, 200n) });
    expect(await reloads()).toEqual(marks(2, 3n));
  });

  it('records the reload with the later timestamp where two have one event number', async () => {
    const at = (second: number) => new Date(Date.UTC(2026, 0, 2, 3, 4, second));
    const marks = (second: number) =>
      new Map([['sub_1', { logNumber: 1, eventNumber: 100n, createdAt: at(second) }]]);
    const reloads = async () => (await own.mirror.has()).datasets.get('parcels')?.reloads;
    const first = await people('a.parquet', "(1::BIGINT, 'a')", { reloads: marks(5) });
    await own.load(first);
    await own.load({ ...first, plannedFrom: afterCommit(1), reloads: marks(6) });
    expect(await reloads()).toEqual(marks(6));
    await own.load({ ...first, plannedFrom: afterCommit(2), reloads: marks(4) });
    expect(await reloads()).toEqual(marks(6));
  });

  it('F33 loads an empty table from no files', async () => {
    const [outcome] = await own.load(snapshot({ columns, keyColumns: ['id'], files: [] }));
    expect(outcome).toMatchObject({ kind: 'committed', committed: { rowCount: 0 } });
    expect(await own.query('FROM parcels')).toEqual([]);
  });

  it('loads a file of another writer', async () => {
    const path = join(own.path, 'foreign.parquet');
    const schema = new ParquetSchema({
      id: { type: 'INT64' },
      Id: { type: 'UTF8' },
      at: { type: 'TIMESTAMP_MICROS' },
    });
    const writer = await ParquetWriter.openFile(schema, path);
    await writer.appendRow({ id: 2n ** 63n - 1n, Id: 'two', at: 1_704_067_200_123_456n });
    await writer.close();
    const twins = [column('id', 'integer'), column('Id', 'string'), column('at', 'timestamp')];
    await own.load(snapshot({ columns: twins, files: [path] }));
    expect(await own.query('SELECT id, "Id_2", "at"::VARCHAR FROM parcels')).toEqual([
      ['9223372036854775807', 'two', '2024-01-01 00:00:00.123456+00'],
    ]);
    expect(await own.query('SELECT name, column_name FROM feed_sync.columns ORDER BY position')).toEqual([
      ['id', 'id'],
      ['Id', 'Id_2'],
      ['at', 'at'],
    ]);
  });
});

describe('a snapshot that fails its proof', () => {
  it.each<[string, string, Partial<SnapshotSpecification>, string]>([
    [
      'V8 a row count that differs from the version record',
      "(1::BIGINT, 'x')",
      { expectedRowCounts: [{ rowCount: 2, statedBy: 'the version record' }] },
      'the version record states 2',
    ],
    [
      'V8 a row count that differs from the manifest alone',
      "(1::BIGINT, 'x')",
      {
        expectedRowCounts: [
          { rowCount: 1, statedBy: 'the version record' },
          { rowCount: 2, statedBy: 'the manifest' },
        ],
      },
      'the manifest states 2',
    ],
    [
      'V8 a repeated key',
      "(1::BIGINT, 'x'), (1, 'y')",
      {},
      'The key id = "1" of parcels is there 2 times, as in the file ',
    ],
    [
      'V8 a null in the key',
      "(1::BIGINT, 'x'), (NULL, 'y')",
      {},
      'The key column "id" of parcels is null in 1 of 2 rows, as in the file ',
    ],
    ['V8 a null in a composite key', '(1::BIGINT, NULL)', { keyColumns: ['id', 'name'] }, '"name"'],
    [
      'V8 a repeated composite key',
      "(1::BIGINT, 'x'), (1, 'x')",
      { keyColumns: ['id', 'name'] },
      'id = "1", name = "x"',
    ],
    [
      'V17 a value that cannot be cast',
      "(1::BIGINT, '{}'), (2, '{a: 1}')",
      { columns: [column('id', 'integer'), column('name', 'json')] },
      'The file new.parquet of parcels holds in the column "name" the value "{a: 1}"',
    ],
    [
      'V17 a value that a cast would change',
      "(1::DOUBLE, 'x'), (2.5, 'y')",
      {},
      'The file new.parquet of parcels holds in the column "id" the value "2.5"',
    ],
    [
      'V18 a column type that is not known',
      "(1::BIGINT, 'x')",
      { columns: [column('id', 'integer'), { ...column('name', 'string'), type: { unknown: 'colour' } }] },
      'The column "name" of parcels has the type "colour"',
    ],
  ])('%s keeps the old table', async (_, rows, rest, message) => {
    await own.load(await people('old.parquet', "(1::BIGINT, 'old')"));
    const job = await people('new.parquet', rows, {
      ...rest,
      version: 2,
      digest: 'digest-2',
      plannedFrom: afterCommit(1),
    });
    const error = await own.loadError(job);
    expect(error).toBeInstanceOf(DataError);
    expect(error.message).toContain(message);
    expect(await own.query('FROM parcels')).toEqual([['1', 'old']]);
    expect((await own.mirror.has()).datasets.get('parcels')).toMatchObject({ version: 1 });
    expect(await own.query("SELECT table_name FROM duckdb_tables() WHERE schema_name = 'main'")).toEqual([
      ['parcels'],
    ]);
  });

  it('refuses a file whose row count differs from the manifest before the mirror is touched', async () => {
    const job = await people('a.parquet', "(1::BIGINT, 'x')");
    const [file] = job.files;
    const wrong = { ...job, files: file === undefined ? [] : [{ ...file, rowCount: 3 }] };
    await expect(own.mirror.validate(wrong)).rejects.toThrow(
      'The file a.parquet of parcels has 1 row, but the manifest states 3',
    );
  });

  it('V8 refuses a table whose row count differs although the footer stated it', async () => {
    const expectedRowCounts = [{ rowCount: 1, statedBy: 'the manifest' }];
    const job = await people('a.parquet', "(1::BIGINT, 'x')", { expectedRowCounts });
    const prepared = await own.mirror.validate(job);
    await people('a.parquet', "(1::BIGINT, 'x'), (2, 'y')");
    expect(await commitAll(own.mirror, [prepared])).toMatchObject([
      {
        kind: 'failed',
        error: { message: expect.stringContaining('has 2 rows, but the manifest states 1.') },
      },
    ]);
  });
});

describe('a stale plan', () => {
  it('loads nothing where the table is not the one that the write job was planned from', async () => {
    const job = await people('a.parquet', "(1::BIGINT, 'x')");
    await own.load(job);
    const stale: readonly SnapshotJob['plannedFrom'][] = [
      null,
      afterCommit(2),
      { ...afterCommit(1), snapshotDigest: 'other' },
      { ...afterCommit(1), version: 2 },
    ];
    for (const plannedFrom of stale) {
      expect(await own.load({ ...job, version: 9, plannedFrom })).toEqual([
        { kind: 'stale-plan', datasetId: 'parcels' },
      ]);
    }
    expect((await own.mirror.has()).datasets.get('parcels')?.version).toBe(1);
  });

  it('loads a version over another one, also a lower version', async () => {
    const job = await people('a.parquet', "(1::BIGINT, 'x')", { version: 5 });
    await own.load(job);
    const [outcome] = await own.load({
      ...job,
      version: 4,
      plannedFrom: { ...afterCommit(1), version: 5 },
    });
    expect(outcome).toMatchObject({ kind: 'committed', committed: { fromVersion: 5, toVersion: 4 } });
  });
});

describe('a batch', () => {
  it('commits the other write jobs of a batch where one fails', async () => {
    const good = await people('good.parquet', "(1::BIGINT, 'x')");
    const bad = await people('bad.parquet', "(1::BIGINT, 'x'), (1, 'y')");
    const outcomes = await own.load(
      { ...good, datasetId: 'first' },
      { ...bad, datasetId: 'second' },
      { ...good, datasetId: 'third' },
      { ...good, datasetId: 'fourth', plannedFrom: afterCommit(1) },
    );
    expect(outcomes.map(({ kind, datasetId }) => [datasetId, kind])).toEqual([
      ['first', 'committed'],
      ['second', 'failed'],
      ['third', 'committed'],
      ['fourth', 'stale-plan'],
    ]);
    expect([...(await own.mirror.has()).datasets.keys()]).toEqual(['first', 'third']);
  });
});

describe('columns that do not fit', () => {
  it.each<[string, Partial<SnapshotSpecification>, string]>([
    [
      'a column that is missing in the file',
      { columns: [...columns, column('area', 'number')] },
      'The column "area" of parcels is missing in the file a.parquet',
    ],
    [
      'a column of an unknown type',
      { columns: [column('id', 'integer'), { ...column('name', 'string'), type: { unknown: 'colour' } }] },
      'has the type "colour"',
    ],
    ['a key column that does not exist', { keyColumns: ['uid'] }, 'The key column "uid"'],
    [
      'a column that is twice in the schema',
      { columns: [...columns, column('id', 'integer')] },
      'has the column "id" twice',
    ],
    ['a schema without columns', { columns: [], files: [] }, 'has no columns'],
  ])('refuses %s', async (_, rest, message) => {
    const job = await people('a.parquet', "(1::BIGINT, 'x')", { ...rest });
    const error = await own.mirror.validate(job).catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(DataError);
    expect((error as DataError).message).toContain(message);
  });

  it('C19 names columns of a file that the schema does not know, so that the schemas can be read again', async () => {
    const job = await people('a.parquet', "(1::BIGINT, 'x')", { columns: [column('id', 'integer')] });
    const error = await own.mirror.validate(job).catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(UnknownColumnsError);
    expect(error).toMatchObject({
      datasetId: 'parcels',
      columns: ['name'],
      message: 'The file a.parquet of parcels has columns that the schema does not know: "name".',
    });
  });
});

describe('hostile names (F38, F39)', () => {
  it('keeps hostile names of columns, and never executes them', async () => {
    const names = [
      'a"; DROP TABLE x; --',
      "it's",
      'select',
      '__proto__',
      'constructor',
      'filename',
      'rowid',
      '🏳️‍🌈',
      ' ',
      'x'.repeat(5_000),
      'file_row_number',
      'c0',
    ];
    const select = names.map((name, index) => `${index}::BIGINT AS "${name.replaceAll('"', '""')}"`);
    const path = await own.parquet("o'dd [x]*?.parquet", `SELECT ${select.join(', ')}`);
    const [outcome] = await own.load(
      snapshot({
        columns: names.map((name) => column(name, 'integer')),
        keyColumns: ['rowid'],
        files: [path],
      }),
    );
    expect(outcome?.kind).toBe('committed');
    const stored = await own.query(
      `SELECT column_name FROM duckdb_columns() WHERE table_name = 'parcels' ORDER BY column_index`,
    );
    expect(stored.flat()).toEqual(names);
    expect(await own.query('FROM parcels')).toEqual([names.map((_, index) => String(index))]);
  });

  it('gives datasets with hostile ids safe table names, each its own', async () => {
    const ids = [
      'a-b',
      'a.b',
      'A_B',
      '../a',
      '"; DROP SCHEMA feed_sync; --',
      "'",
      'x'.repeat(5_000),
      '__proto__',
      '1',
      'a-b\0',
    ];
    await own.mirror.enroll({ ...nobody, datasetIds: ids });
    for (const datasetId of ids.slice(0, -1)) {
      const [outcome] = await own.load({ ...(await people('a.parquet', "(1::BIGINT, 'x')")), datasetId });
      expect(outcome?.kind, datasetId).toBe('committed');
    }
    const { datasets } = await own.mirror.has();
    expect([...datasets.keys()].sort()).toEqual(ids.slice(0, -1).sort());
    expect(datasets.get('a-b')?.tableName).toBe('a_b');
    expect(datasets.get('a.b')?.tableName).toMatch(/^a_b_[0-9a-f]{8}$/);
    await expect(
      own.mirror.validate({ ...(await people('a.parquet', "(1::BIGINT, 'x')")), datasetId: 'a-b\0' }),
    ).rejects.toThrow(DataError);
  });

  it('never takes the table of an operator for a dataset', async () => {
    await own.mirror.enroll(nobody);
    await duckdb(
      `ATTACH '${join(own.path, 'mirror.duckdb')}' AS m`,
      'CREATE TABLE m.Parcels AS SELECT 1 AS mine',
    );
    await own.load(await people('a.parquet', "(1::BIGINT, 'x')"));
    expect((await own.mirror.has()).datasets.get('parcels')?.tableName).toMatch(/^parcels_[0-9a-f]{8}$/);
    expect(await own.query('FROM "Parcels"')).toEqual([[1]]);
  });
});

it('F33 loads a table of 500 columns', async () => {
  const names = Array.from({ length: 500 }, (_, index) => `column ${index}`);
  const path = await own.parquet(
    'wide.parquet',
    `SELECT ${names.map((name) => `1::BIGINT AS "${name}"`).join(', ')}`,
  );
  const job = snapshot({
    columns: names.map((name) => column(name, 'integer', { description: name })),
    files: [path],
  });
  expect(await own.load(job)).toMatchObject([{ kind: 'committed' }]);
});

describe('files that are no Parquet files (F43)', () => {
  it.each<[string, (content: Buffer) => Buffer]>([
    ['that is cut', (content) => content.subarray(0, content.length / 2)],
    ['that is empty', () => Buffer.alloc(0)],
    ['of HTML', () => Buffer.from('<html><body>Sign in</body></html>')],
    [
      'with a huge footer',
      (content) =>
        Buffer.concat([content.subarray(0, -8), Buffer.from([0xff, 0xff, 0xff, 0x7f]), Buffer.from('PAR1')]),
    ],
    [
      'with a flipped footer',
      (content) =>
        Buffer.concat([content.subarray(0, -200), Buffer.alloc(100, 0xff), content.subarray(-100)]),
    ],
  ])('refuses, and names, a file %s', async (_, damage) => {
    const job = await people('broken.parquet', "(1::BIGINT, 'x')");
    const path = join(own.path, 'broken.parquet');
    await writeFile(path, damage(await readFile(path)));
    const error = await own.mirror.validate(job).catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(DataError);
    expect((error as DataError).message).toContain('The file broken.parquet');
    expect((await own.load(await people('fine.parquet', "(1::BIGINT, 'x')")))[0]?.kind).toBe('committed');
  });

  it('names a file with damaged pages when it is loaded', async () => {
    const path = await own.parquet(
      'pages.parquet',
      "SELECT range AS id, 'name ' || range AS name FROM range(20000)",
      ', COMPRESSION zstd',
    );
    const content = await readFile(path);
    content.fill(0xff, 4, 60);
    await writeFile(path, content);
    const error = await own.loadError(snapshot({ columns, files: [path] }));
    expect(error).toBeInstanceOf(DataError);
    expect(error.message).toContain('pages.parquet');
  });
});

it('keeps the size of the mirror bounded over five reloads of a table', async () => {
  const path = await own.parquet(
    'big.parquet',
    'SELECT range AS id, md5(range::VARCHAR) AS name FROM range(100000)',
  );
  const job = snapshot({ columns, keyColumns: ['id'], files: [path] });
  await own.load(job);
  const sizeOf = async () => (await stat(join(own.path, 'mirror.duckdb'))).size;
  const first = await sizeOf();
  for (let reload = 0; reload < 5; reload += 1) {
    await own.load({ ...job, plannedFrom: afterCommit(reload + 1) });
  }
  expect(await sizeOf()).toBeLessThan(3 * first);
});
