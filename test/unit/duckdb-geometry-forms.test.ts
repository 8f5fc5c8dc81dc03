/** F42: whatever form the files of a version have, its table has the same columns, and its geometries are those of the files. */

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { DataError } from '../../src/model/errors.ts';
import { type SimpleType, spelled, wktOf } from '../support/decoded-parquet.ts';
import { column, snapshot } from '../support/duckdb-mirror.ts';
import { geoParquet } from '../support/geo-files.ts';
import { mirrorOfFile } from '../support/own-mirror.ts';
import { SEED } from '../support/seed.ts';

const own = mirrorOfFile();

const geometry = column('geometry', 'geometry');

it('V15 loads the same columns and rows from the files of different writers', async () => {
  const columns = [column('id', 'integer'), column('seen', 'timestamp'), geometry];
  const polygon = "'POLYGON ((0 0, 1 0, 1 1, 0 0))'::GEOMETRY";
  const ring = "[{'x': 0, 'y': 0}, {'x': 1, 'y': 0}, {'x': 1, 'y': 1}, {'x': 0, 'y': 0}]";
  const seen = "'2026-01-02 03:04:05'";
  const wkb = `ST_AsWKB(${polygon}) AS geometry`;
  const nad83 = '{"type":"GeographicCRS","name":"NAD83","id":{"authority":"EPSG","code":4269}}';
  const files = [
    await geoParquet(own.path, 'wkb.parquet', `SELECT 1::INTEGER AS id, ${seen}::TIMESTAMP AS seen, ${wkb}`, {
      encoding: 'WKB',
    }),
    await geoParquet(
      own.path,
      'crs.parquet',
      `SELECT ${wkb}, ${seen}::TIMESTAMP_NS AS seen, 1::UTINYINT AS id`,
      {
        encoding: 'WKB',
        crs: { id: { authority: 'EPSG', code: 2277 } },
      },
    ),
    await own.parquet(
      'native.parquet',
      `SELECT 1::BIGINT AS id, ${seen}::TIMESTAMP_MS AS seen, ${polygon}::GEOMETRY('${nad83}') AS geometry`,
      ", GEOPARQUET_VERSION 'V2'",
    ),
    await geoParquet(
      own.path,
      'geoarrow.parquet',
      `SELECT 1::DOUBLE AS id, ${seen}::TIMESTAMPTZ AS seen, [${ring}]::STRUCT(x DOUBLE, y DOUBLE)[][] AS geometry`,
      { encoding: 'polygon', crs: null },
    ),
    await geoParquet(
      own.path,
      'interleaved.parquet',
      `SELECT 1::DECIMAL(9,2) AS id, ${seen}::TIMESTAMP_S AS seen, [[[0, 0], [1, 0], [1, 1], [0, 0]]]::DOUBLE[][][] AS geometry`,
      { encoding: 'geoarrow.polygon', geometry_types: ['Polygon'] },
    ),
  ];
  const jobs = files.map((path, index) =>
    snapshot({ datasetId: `version_${index}`, columns, files: [path] }),
  );
  expect((await own.load(...jobs)).map(({ kind }) => kind)).toEqual(files.map(() => 'committed'));
  const shown = [];
  for (const { datasetId } of jobs) {
    const rows = `SELECT id, seen::VARCHAR, ST_AsText(geometry) FROM ${datasetId}`;
    shown.push([await own.query(`DESCRIBE ${datasetId}`), await own.query(rows)]);
  }
  expect(shown[0]).toEqual([
    [
      ['id', 'BIGINT', 'YES', null, null, null],
      ['seen', 'TIMESTAMP WITH TIME ZONE', 'YES', null, null, null],
      ['geometry', 'GEOMETRY', 'YES', null, null, null],
    ],
    [['1', '2026-01-02 03:04:05+00', 'POLYGON ((0 0, 1 0, 1 1, 0 0))']],
  ]);
  for (const version of shown) expect(version).toEqual(shown[0]);
  const crs = await own.query(
    "SELECT crs FROM feed_sync.columns WHERE type = 'geometry' ORDER BY dataset_id",
  );
  expect(crs.flat()).toEqual(['OGC:CRS84', 'EPSG:2277', 'EPSG:4269', null, 'OGC:CRS84']);
});

describe('F42 random geometries in GeoArrow', () => {
  const number = fc.oneof(
    fc.double({ noNaN: true }),
    fc.double({ min: -180, max: 180, noNaN: true }),
    fc.constantFrom(-0, 5e-324, 1.7976931348623157e308, 0.1),
  );
  const position = fc.tuple(number, number, number);
  const line = fc.array(position, { maxLength: 6 });
  const polygon = fc.array(line, { maxLength: 3 });
  const POSITION = 'STRUCT(x DOUBLE, y DOUBLE, z DOUBLE)';
  const kinds: readonly [SimpleType, string, fc.Arbitrary<unknown>][] = [
    ['Point', POSITION, position],
    ['LineString', `${POSITION}[]`, line],
    ['Polygon', `${POSITION}[][]`, polygon],
    ['MultiPoint', `${POSITION}[]`, line],
    ['MultiLineString', `${POSITION}[][]`, polygon],
    ['MultiPolygon', `${POSITION}[][][]`, fc.array(polygon, { maxLength: 3 })],
  ];
  it.each(kinds)(
    `loads random geometries of type %s exactly (seed ${SEED})`,
    async (type, physical, arbitrary) => {
      const values = fc.sample(fc.option(arbitrary, { freq: 10 }), { numRuns: 100, seed: SEED });
      const datasetId = `random_${type.toLowerCase()}`;
      const list = values.map((value, index) => `(${index}, ${sqlOf(value)})`).join(', ');
      const select = `SELECT n, geometry::${physical} AS geometry FROM (VALUES ${list}) t(n, geometry)`;
      const path = await geoParquet(own.path, `${datasetId}.parquet`, select, {
        encoding: type.toLowerCase(),
      });
      await own.load(snapshot({ datasetId, columns: [column('n', 'integer'), geometry], files: [path] }));
      const rows = await own.query(`SELECT ST_AsText(geometry) FROM ${datasetId} ORDER BY n`);
      expect(rows.map(([wkt]) => (wkt === null ? null : spelled(String(wkt))))).toEqual(
        values.map((coordinates) => (coordinates === null ? null : wktOf({ type, coordinates }))),
      );
    },
  );

  function sqlOf(value: unknown): string {
    if (value === null) return 'NULL';
    if (!Array.isArray(value)) throw new Error(`${value} is no list`);
    const [x, y, z] = value.map((number) => `'${Object.is(number, -0) ? '-0.0' : number}'::DOUBLE`);
    return typeof value[0] === 'number'
      ? `{'x': ${x}, 'y': ${y}, 'z': ${z}}`
      : `[${value.map(sqlOf).join(', ')}]`;
  }
});

describe('F42 WKB that names a coordinate system', () => {
  const POINT = '000000000000F03F0000000000000040';
  const little = (srid: string) => `0101000020${srid}${POINT}`;
  let files = 0;

  async function jobOf(digits: string, crs: object) {
    files += 1;
    const name = `ewkb-${files}.parquet`;
    const select = `SELECT unhex(digits) AS geometry FROM (VALUES ('0101000000${POINT}'), ('${digits}'), (NULL)) t(digits)`;
    const path = await geoParquet(own.path, name, select, { encoding: 'WKB', ...crs });
    return snapshot({ datasetId: `ewkb_${files}`, columns: [geometry], files: [path] });
  }

  it.each([
    ['which is not stated', {}, little('E6100000')],
    ['which has its number', { crs: { id: { authority: 'EPSG', code: 2277 } } }, little('E5080000')],
    ['in the other byte order', {}, '0020000001000010E63FF00000000000004000000000000000'],
  ])('loads WKB that names the coordinate system of the column, %s', async (_, crs, digits) => {
    const job = await jobOf(digits, crs);
    const [outcome] = await own.load(job);
    expect(outcome).toMatchObject({ kind: 'committed' });
    expect(await own.query(`SELECT hex(ST_AsWKB(geometry)) FROM ${job.datasetId}`)).toEqual([
      [`0101000000${POINT}`],
      [`0101000000${POINT}`],
      [null],
    ]);
  });

  it.each([
    ['with another number', {}, little('E5080000'), ' but OGC:CRS84'],
    ['where that of the column is unknown', { crs: null }, little('E6100000'), ''],
    [
      'where that of the column has no number',
      { crs: { name: 'My own grid' } },
      little('E6100000'),
      ' but My own grid',
    ],
    ['in a part of a collection', {}, `0107000000${'01000000'}${little('E6100000')}`, ' but OGC:CRS84'],
  ])('refuses WKB that names a coordinate system %s', async (_, crs, digits, but) => {
    const error = await own.loadError(await jobOf(digits, crs));
    expect(error).toBeInstanceOf(DataError);
    expect(error.message).toContain(
      `The file ewkb-${files}.parquet of ewkb_${files} holds in the column "geometry"`,
    );
    expect(error.message).toContain(
      `which cannot become a geometry without being changed; it must be WKB that names no coordinate system${but}.`,
    );
  });
});

it('leaves out declared bounds of a file, and loads them as JSON where the schema names them', async () => {
  const covering = { bbox: { xmin: ['bounds', 'xmin'], ymin: ['bounds', 'ymin'] } };
  const select = `SELECT ST_AsWKB('POINT (1 2)'::GEOMETRY) AS geometry, {'xmin': 1::FLOAT, 'ymin': 2.5::FLOAT} AS bounds`;
  const path = await geoParquet(own.path, 'bounds.parquet', select, { encoding: 'WKB', covering });
  await own.load(
    snapshot({ datasetId: 'without', columns: [geometry], files: [path] }),
    snapshot({ datasetId: 'with', columns: [geometry, column('bounds', 'json')], files: [path] }),
  );
  expect(await own.query('SELECT ST_AsText(COLUMNS(*)) FROM without')).toEqual([['POINT (1 2)']]);
  expect(await own.query('SELECT bounds FROM "with"')).toEqual([['{"xmin":1.0,"ymin":2.5}']]);
});
