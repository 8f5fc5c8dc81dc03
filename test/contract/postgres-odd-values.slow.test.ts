/** F40 F42: values that PostgreSQL or PostGIS treats in a way of its own reach the table all the same, by a load and by changes. */

import process from 'node:process';
import { describe, expect, it, onTestFinished } from 'vitest';
import { CITUS, startCitus } from '../../fixtures/citus-cluster.ts';
import { type Binaries, DEBIAN, EMBEDDED, statement } from '../../fixtures/postgres-server.ts';
import type { Geometry, Row } from '../../fixtures/source/content.ts';
import { openPostgresComparer } from '../../src/destination/postgres/compare-table.ts';
import { systemClock } from '../../src/lib/clock.ts';
import { runProgram } from '../../src/lib/run-program.ts';
import { Secret } from '../../src/lib/secret.ts';
import { firstContent, sourceSchema } from '../support/duckdb-changes.ts';
import { parquet, snapshot, column as snapshotColumn } from '../support/duckdb-mirror.ts';
import { ALL_HISTORY } from '../support/people.ts';
import {
  type DatabaseAtWork,
  databaseAtWork,
  openReaderOf,
  textsInPostgres,
} from '../support/postgres-destination.ts';
import { postgresOfTests } from '../support/postgres-of-tests.ts';
import { contentFrom } from '../support/repairing.ts';
import { column } from '../support/small-content.ts';

const SHAPES = sourceSchema([
  column('id', 'integer', false),
  column('name', 'string'),
  column('shape', 'geometry'),
]);
const OPEN_RING: Geometry = {
  type: 'Polygon',
  coordinates: [
    [
      [0, 0],
      [1, 1],
      [1, 0],
    ],
  ],
};
const ONE_POINT: Geometry = { type: 'LineString', coordinates: [[7, 8]] };
const POINT: Geometry = { type: 'Point', coordinates: [-97.7, 30.2] };

/** The rows of 0 to 3, whose last shape is `shape`, SQL of DuckDB. */
async function loadExtremes(world: DatabaseAtWork, datasetId: string, shape: string) {
  const rows = [
    `(0::BIGINT, '', 'nan'::DOUBLE, true, '4714-11-24 (BC)'::DATE, '4714-11-24 (BC) 00:00:00+00'::TIMESTAMPTZ, '""')`,
    `(-9223372036854775808, '\\.', '-0', false, 'infinity', '-infinity', '{"a":"\\\\"}')`,
    `(9223372036854775807, 'ü"'',' || chr(10), 5e-324, NULL, '5874897-12-31', '294246-12-31 23:59:59.999999+00', '[1e400, 1.0]')`,
    '(3, NULL, NULL, NULL, NULL, NULL, NULL)',
  ];
  const select = `SELECT *, ST_AsWKB((CASE WHEN id = 3 THEN ${shape} ELSE 'POINT Z (1 2 3)' END)::GEOMETRY) AS shape
    FROM (VALUES ${rows.join(', ')}) t(id, name, size, is_open, day, moment, more)`;
  const types = {
    name: 'string',
    size: 'number',
    is_open: 'boolean',
    day: 'date',
    moment: 'timestamp',
  } as const;
  const columns = [
    snapshotColumn('id', 'integer', { nullable: false }),
    ...Object.entries(types).map(([name, type]) => snapshotColumn(name, type)),
    snapshotColumn('more', 'json'),
    snapshotColumn('shape', 'geometry'),
  ];
  const files = [await parquet(world.folder, `${datasetId}.parquet`, select)];
  return await world.execute(snapshot({ datasetId, columns, files, keyColumns: ['id'] }));
}

function onServer(binaries: Binaries) {
  return { name: binaries.name, isMissing: binaries.folder === null, binaries };
}

describe.skipIf(DEBIAN.folder === null)(DEBIAN.name, () => {
  const server = postgresOfTests(DEBIAN);

  it('F42 keeps geometries that PostGIS refuses to read from their bytes', async () => {
    const address = await server.database();
    const world = await databaseAtWork(address, { history: ALL_HISTORY });
    const states: readonly (readonly Row[])[] = [
      [
        [1, 'one', OPEN_RING],
        [2, 'two', POINT],
      ],
      [
        [1, 'one', ONE_POINT],
        [2, 'two', POINT],
        [3, 'three', OPEN_RING],
      ],
      [
        [2, 'two', OPEN_RING],
        [3, 'three', OPEN_RING],
      ],
    ];
    const [first = [], second = [], third = []] = states;
    const course = await world.loaded(firstContent(SHAPES, first));
    const shapes = async () =>
      (await world.byHand('SELECT ST_AsText(shape) FROM feeds.parcels ORDER BY id')).flat();
    expect(await shapes()).toEqual(['POLYGON((0 0,1 1,1 0))', 'POINT(-97.7 30.2)']);
    course.publishRows(second);
    const changed = { kind: 'committed', committed: { net: { added: 1, changed: 1, removed: 0 } } };
    expect(await world.apply(course)).toMatchObject(changed);
    expect(await shapes()).toEqual(['LINESTRING(7 8)', 'POINT(-97.7 30.2)', 'POLYGON((0 0,1 1,1 0))']);
    course.publishRows(third);
    expect(await world.load(course)).toMatchObject({
      kind: 'committed',
      committed: { net: { added: 0, changed: 1, removed: 1 } },
    });
    expect(await world.byHand('SELECT DISTINCT ST_SRID(shape) FROM feeds.parcels')).toEqual([['4326']]);
    const comparer = await openPostgresComparer({
      url: new Secret(address),
      directory: world.folder,
      memoryLimitBytes: 500_000_000,
      threads: 1,
      reserveBytes: 0,
      clock: systemClock,
      signal: new AbortController().signal,
      runProgram,
      programPath: process.env['PATH'] ?? '',
    });
    onTestFinished(() => comparer.close());
    const content = await contentFrom(course.newest(), course, world);
    expect(await comparer.compare(await world.observed(), content, () => {})).toMatchObject({
      kind: 'equal',
    });
  });

  it('F40 F42 writes the values beside such a geometry as it writes them beside any other', async () => {
    const world = await databaseAtWork(await server.database());
    const rows = async (datasetId: string) =>
      await world.byHand(`SELECT id, encode(convert_to(name, 'UTF8'), 'hex'), float8send(size), is_open, day, moment, more,
        encode(shape, 'hex') FROM feeds.${datasetId} WHERE id <> 3 ORDER BY id`);
    expect(await loadExtremes(world, 'closed', "'POINT EMPTY'")).toMatchObject([{ kind: 'committed' }]);
    expect(await loadExtremes(world, 'opened', "'LINESTRING(1 2)'")).toMatchObject([{ kind: 'committed' }]);
    expect(await rows('opened')).toEqual(await rows('closed'));
    expect(await rows('opened')).toHaveLength(3);
    expect(await world.byHand('SELECT name, day, shape IS NULL FROM feeds.opened WHERE id = 3')).toEqual([
      [null, null, 'f'],
    ]);
  });

  it('F42 keeps geometries of a coordinate system whose number is too great for PostGIS', async () => {
    const world = await databaseAtWork(await server.database());
    const crs = { type: 'ProjectedCRS', name: 'far', id: { authority: 'EPSG', code: 1_000_001 } };
    const shape = { encoding: 'WKB', geometry_types: [], crs };
    const geo = JSON.stringify({ version: '1.0.0', primary_column: 'shape', columns: { shape } });
    const select = "SELECT 1::BIGINT AS id, ST_AsWKB('POINT(1 2)'::GEOMETRY) AS shape";
    const files = [await parquet(world.folder, 'far.parquet', select, `, KV_METADATA {geo: '${geo}'}`)];
    const columns = [
      snapshotColumn('id', 'integer', { nullable: false }),
      snapshotColumn('shape', 'geometry'),
    ];
    expect(await world.execute(snapshot({ columns, files, keyColumns: ['id'] }))).toMatchObject([
      { kind: 'committed' },
    ]);
    expect(await world.byHand('SELECT ST_AsEWKT(shape) FROM feeds.parcels')).toEqual([['POINT(1 2)']]);
    expect((await world.observed()).columns[1]).toMatchObject({ crs: 'EPSG:1000001' });
  });
});

describe.each([EMBEDDED, DEBIAN].map(onServer))('$name', ({ binaries, isMissing }) => {
  describe.skipIf(isMissing)('tables at the limits of PostgreSQL', () => {
    const server = postgresOfTests(binaries);

    it('F40 a reload writes a key whose number is written otherwise, and the log has the one before', async () => {
      const address = await server.database();
      const world = await databaseAtWork(address, { history: ALL_HISTORY });
      const load = async (version: number, ...keys: readonly string[]) => {
        const rows = keys.map((key, index) => `('${key}', ${index}::BIGINT)`);
        const select = `SELECT * FROM (VALUES ${rows.join(', ')}) t(id, size)`;
        const files = [await parquet(world.folder, `v${version}.parquet`, select)];
        const columns = [
          snapshotColumn('id', 'json', { nullable: false }),
          snapshotColumn('size', 'integer'),
        ];
        const plannedFrom = version === 1 ? null : await world.observed();
        const [result] = await world.execute(
          snapshot({ version, digest: `digest-${version}`, columns, files, keyColumns: ['id'], plannedFrom }),
        );
        return result;
      };
      expect(await load(1, '{"n":1}', '2', '[3]')).toMatchObject({ kind: 'committed' });
      expect(await load(2, '{"n":1.0}', '2', '[3]')).toMatchObject({
        kind: 'committed',
        committed: { net: { added: 0, changed: 1, removed: 0 } },
      });
      const keys = async (from: string) =>
        (await world.byHand(`SELECT id::text FROM ${from} ORDER BY size`)).flat();
      expect(await keys('feeds.parcels')).toEqual(['{"n": 1.0}', '2', '[3]']);
      expect(await keys('history.parcels_as_of_commit(1)')).toEqual(['{"n": 1}', '2', '[3]']);
      const [counted] = await (await openReaderOf(address)).count(['parcels'], () => false);
      expect(counted?.table).toMatchObject({ rowCount: 3, hasRecordedChecksum: true });
    });

    it('F40 names the column and the row of a JSON value that is too deep for PostgreSQL', async () => {
      const world = await databaseAtWork(await server.database());
      const select = `SELECT i AS id, repeat('[', 1 + 20_000 * i) || repeat(']', 1 + 20_000 * i) AS more
        FROM range(2) t(i)`;
      const files = [await parquet(world.folder, 'deep.parquet', select)];
      const columns = [snapshotColumn('id', 'integer', { nullable: false }), snapshotColumn('more', 'json')];
      const [failed] = await world.execute(snapshot({ columns, files, keyColumns: ['id'] }));
      expect(failed).toMatchObject({
        kind: 'failed',
        error: {
          code: 'data_invalid',
          message: expect.stringMatching(/\(COPY parcels, line 2, column more\)$/),
        },
      });
    });

    it('F33 keeps a table whose key has more columns than an index can have', async () => {
      const address = await server.database();
      const world = await databaseAtWork(address, { history: ALL_HISTORY });
      const names = Array.from({ length: 40 }, (_, index) => `key_${index}`);
      const columns = [...names.map((name) => column(name, 'integer', false)), column('name', 'string')];
      const schema = { ...sourceSchema(columns), keyColumns: names };
      const row = (number: number, name: string): Row => [...names.map((_, index) => number + index), name];
      const course = await world.loaded(firstContent(schema, [row(1, 'one'), row(2, 'two')]));
      const counts = { added: 1, changed: 1, removed: 1 };
      course.publishRows([row(1, 'ONE'), row(3, 'three')]);
      expect(await world.apply(course)).toMatchObject({ kind: 'committed', committed: { net: counts } });
      course.publishRows([row(3, 'THREE'), row(4, 'four')]);
      expect(await world.load(course)).toMatchObject({ kind: 'committed', committed: { net: counts } });
      const table = await textsInPostgres(address, await world.observed());
      expect(table.map((cells) => cells.at(-1))).toEqual(['THREE', 'four']);
      course.publish(firstContent(schema, [row(5, 'five'), row(5, 'again')]));
      expect(await world.load(course)).toMatchObject({ kind: 'failed', error: { code: 'data_invalid' } });
    });

    it('F34 says that a table has had too many columns, and makes it anew once it is dropped', async () => {
      const world = await databaseAtWork(await server.database());
      const contentOf = (version: number) => {
        const names = Array.from({ length: 1_000 }, (_, index) => `v${version}_${index}`);
        const columns = [column('id', 'integer', false), ...names.map((name) => column(name, 'boolean'))];
        const schema = sourceSchema(columns, { schemaVersion: String(version) });
        return firstContent(schema, [[1, ...names.map(() => true)]]);
      };
      const course = await world.loaded(contentOf(1));
      course.publish(contentOf(2));
      expect(await world.load(course)).toMatchObject({
        kind: 'failed',
        error: {
          code: 'dataset_storage_failed',
          message: expect.stringContaining('tables can have at most 1600 columns'),
          hint: expect.stringContaining('Drop the table'),
        },
      });
      expect((await world.observed()).version).toBe(1);
      await world.byHand('DROP TABLE feeds.parcels');
      expect(await world.load(course)).toMatchObject({ kind: 'committed' });
    });
  });
});

describe.skipIf(CITUS.folder === null)(CITUS.name, () => {
  it('F42 fails the dataset of a geometry that a node would refuse, by column and row, and not the node', async () => {
    const cluster = await startCitus();
    onTestFinished(() => cluster.stop());
    const address = await cluster.database();
    await statement(address, 'CREATE EXTENSION IF NOT EXISTS postgis');
    const world = await databaseAtWork(address);
    const course = await world.loaded(firstContent(SHAPES, [[1, 'one', POINT]]));
    course.publishRows([
      [1, 'ONE', POINT],
      [2, 'two', null],
    ]);
    expect(await world.apply(course)).toMatchObject({ kind: 'committed' });
    course.publishRows([[1, 'one', OPEN_RING]]);
    expect(await world.apply(course)).toMatchObject({
      kind: 'failed',
      error: { code: 'changes_inapplicable' },
    });
    expect(await world.load(course)).toMatchObject({
      kind: 'failed',
      error: {
        code: 'data_invalid',
        message: expect.stringMatching(/four points in each ring\. \(COPY [^,]+, line 1, column shape\)$/),
      },
    });
    expect(await world.byHand('SELECT id, name FROM feeds.parcels ORDER BY id')).toEqual([
      ['1', 'ONE'],
      ['2', 'two'],
    ]);
  });
});
