/** F42: geometries of every kind and writer are loaded as they are, or the file is refused by its name. */

import { spawnSync } from 'node:child_process';
import { readFile, writeFile } from 'node:fs/promises';
import { describe, expect, it } from 'vitest';
import { EXTREME_GEOMETRIES } from '../../fixtures/source/extreme-geometries.ts';
import { EXTREME_INTEGERS, EXTREME_TIMESTAMPS } from '../../fixtures/source/extreme-values.ts';
import { DataError } from '../../src/model/errors.ts';
import { geometryOf, parseGeoMetadata } from '../../src/staging/snapshot/parquet.ts';
import { scriptPath } from '../support/child.ts';
import { column, inMirror, snapshot, temporaryFolder } from '../support/duckdb-mirror.ts';
import { mirrorOfFile } from '../support/own-mirror.ts';

const own = mirrorOfFile();

const geometry = column('geometry', 'geometry');

describe('F42 geometries', () => {
  it.each([
    'POINT (1 2)',
    'POINT Z (1 2 3)',
    'POINT ZM (1 2 3 4)',
    'POINT EMPTY',
    'LINESTRING (0 0, 1 1)',
    'LINESTRING Z (0 0 1, 1 1 2)',
    'POLYGON ((0 0, 1 0, 1 1, 0 0))',
    'POLYGON Z ((0 0 5, 1 0 5, 1 1 5, 0 0 5))',
    'POLYGON EMPTY',
    'MULTIPOINT (1 2, 3 4)',
    'MULTILINESTRING ((0 0, 1 1), (2 2, 3 3))',
    'MULTIPOLYGON Z (((0 0 1, 1 0 1, 1 1 1, 0 0 1)))',
    'GEOMETRYCOLLECTION (POINT (1 2), LINESTRING (0 0, 1 1))',
    'GEOMETRYCOLLECTION EMPTY',
    null,
  ])('loads %s from WKB as it is', async (wkt) => {
    const datasetId = `wkt ${wkt}`;
    const select =
      wkt === null ? 'SELECT NULL::BLOB AS geometry' : `SELECT ST_AsWKB('${wkt}'::GEOMETRY) AS geometry`;
    const path = await own.parquet('geometry.parquet', select);
    const [outcome] = await own.load(snapshot({ datasetId, columns: [geometry], files: [path] }));
    if (outcome?.kind !== 'committed') throw new Error(JSON.stringify(outcome));
    expect(await own.query(`SELECT ST_AsText(geometry) FROM "${outcome.committed.tableName}"`)).toEqual([
      [wkt],
    ]);
  });

  it('names the file whose value is no geometry', async () => {
    const good = await own.parquet('good.parquet', "SELECT ST_AsWKB('POINT (1 2)'::GEOMETRY) AS geometry");
    const bad = await own.parquet('bad.parquet', "SELECT '\\x01\\xFF'::BLOB AS geometry");
    const error = await own.loadError(
      snapshot({ datasetId: 'bad wkb', columns: [geometry], files: [good, bad] }),
    );
    expect(error).toBeInstanceOf(DataError);
    expect(error.message).toContain('The file bad.parquet of bad wkb');
    expect(error.message).toContain('"geometry"');
  });

  it('loads geometries of the native type of Parquet with their coordinate system', async () => {
    const options = ", GEOPARQUET_VERSION 'V2'";
    const path = await own.parquet(
      'native.parquet',
      "SELECT 'POINT (1 2)'::GEOMETRY('OGC:CRS84') AS geometry",
      options,
    );
    await own.load(snapshot({ datasetId: 'native', columns: [geometry], files: [path] }));
    expect(await own.query('SELECT ST_AsText(geometry), typeof(geometry) FROM native')).toEqual([
      ['POINT (1 2)', 'GEOMETRY'],
    ]);
    expect(await crsOf('native')).toBe('OGC:CRS84');
  });
});

async function crsOf(datasetId: string): Promise<unknown> {
  const rows = await own.query(
    `SELECT crs FROM feed_sync.columns WHERE dataset_id = '${datasetId}' AND type = 'geometry'`,
  );
  return rows[0]?.[0];
}

describe('the coordinate system', () => {
  const metadata = (rest: object) =>
    JSON.stringify({ version: '1.1.0', primary_column: 'g', columns: { g: { encoding: 'WKB', ...rest } } });
  const wkt = 'PROJCRS["NAD83 / Texas Central (ftUS)",BASEGEOGCRS["NAD83",ID["EPSG",4269]],ID["EPSG",2277]]';
  it.each<[string, object, string | null]>([
    ['no statement', {}, 'OGC:CRS84'],
    ['null', { crs: null }, null],
    ['an id', { crs: { name: 'NAD83', id: { authority: 'EPSG', code: 2277 } } }, 'EPSG:2277'],
    ['a name', { crs: { name: 'My own grid' } }, 'My own grid'],
    ['well-known text', { crs: wkt }, 'EPSG:2277'],
    ['well-known text without id', { crs: 'LOCAL_CS["site grid"]' }, 'site grid'],
  ])('reads a coordinate system from %s', (_, rest, expected) => {
    expect(geometryOf(parseGeoMetadata(metadata(rest))?.columns.get('g'), null, new Map())?.crs).toBe(
      expected,
    );
  });

  it('reads the coordinate system of native columns', () => {
    const properties = new Map([['their_crs', '{"id":{"authority":"EPSG","code":2277}}']]);
    const crsOfType = (logicalType: string) => geometryOf(undefined, logicalType, properties)?.crs;
    expect(crsOfType('GeometryType(crs=<null>)')).toBe('OGC:CRS84');
    expect(crsOfType('GeometryType(crs=EPSG:2277)')).toBe('EPSG:2277');
    expect(crsOfType('GeometryType(crs=srid:2277)')).toBe('srid:2277');
    expect(crsOfType('GeometryType(crs=projjson:their_crs)')).toBe('EPSG:2277');
    expect(crsOfType('GeographyType(crs=<null>, algorithm=<null>)')).toBe('OGC:CRS84');
    expect(crsOfType('GeographyType(crs=EPSG:4269, algorithm=VINCENTY)')).toBe('EPSG:4269');
    expect(crsOfType('GeometryType(crs=LOCAL_CS["a (b), c"])')).toBe('a (b), c');
    expect(crsOfType('GeometryType(crs=projjson:none)')).toBe('projjson:none');
    expect(geometryOf(undefined, 'StringType()', properties)).toBeNull();
    expect(geometryOf(undefined, null, properties)).toBeNull();
  });

  it.each<[object, string, string | null]>([
    [{}, 'EPSG:2277', 'EPSG:2277'],
    [{}, '<null>', 'OGC:CRS84'],
    [{ crs: 'EPSG:4269' }, 'EPSG:2277', 'EPSG:4269'],
    [{ crs: null }, 'EPSG:2277', null],
  ])(
    'takes from metadata %j and a native column of %s the coordinate system %s',
    (rest, native, expected) => {
      const stated = parseGeoMetadata(metadata(rest))?.columns.get('g');
      expect(geometryOf(stated, `GeometryType(crs=${native})`, new Map())?.crs).toBe(expected);
    },
  );

  it('takes the dimensions that all geometry types of the metadata share', () => {
    const dimensions = (rest: object) => parseGeoMetadata(metadata(rest))?.columns.get('g')?.dimensions;
    expect(dimensions({})).toBe('xy');
    expect(dimensions({ geometry_types: ['Point', 'MultiPoint'] })).toBe('xy');
    expect(dimensions({ geometry_types: ['Point Z', 'MultiPoint Z'] })).toBe('xyz');
    expect(dimensions({ geometry_types: ['Point', 'Point Z'] })).toBeNull();
    expect(dimensions({ geometry_type: 'Polygon ZM' })).toBe('xyzm');
    expect(dimensions({ geometry_type: ['Polygon M'] })).toBe('xym');
    expect(dimensions({ geometry_types: [null], geometry_type: 7 })).toBe('xy');
  });

  it('reads the coordinate system of a native column from a property of the file', async () => {
    const inline = '{"type":"GeographicCRS","name":"NAD83","id":{"authority":"EPSG","code":4269}}';
    const property = 'x'.repeat(inline.length - 'projjson:'.length);
    const path = await own.parquet(
      'property.parquet',
      `SELECT 'POINT (1 2)'::GEOMETRY('${inline}') AS geometry`,
      `, GEOPARQUET_VERSION 'V2', KV_METADATA {${property}: '${inline.replace('4269', '2277')}'}`,
    );
    const content = await readFile(path, 'latin1');
    expect(content).toContain(inline);
    await writeFile(path, content.replace(inline, `projjson:${property}`), 'latin1');
    await own.load(snapshot({ datasetId: 'property', columns: [geometry], files: [path] }));
    expect(await crsOf('property')).toBe('EPSG:2277');
  });

  it.each([
    ['no JSON', '{'],
    ['no text', '\\xFF'],
  ])('refuses a file whose geo metadata is %s', async (_, geo) => {
    const select = "SELECT ST_AsWKB('POINT (1 2)'::GEOMETRY) AS geometry";
    const path = await own.parquet('none.parquet', select, `, KV_METADATA {geo: '${geo}'::BLOB}`);
    const error = await own.loadError(snapshot({ columns: [geometry], files: [path] }));
    expect(error).toBeInstanceOf(DataError);
    expect(error.message).toBe(
      'The file none.parquet of parcels has geo metadata that cannot be understood.',
    );
  });

  it('recognizes a text that is no geo metadata', () => {
    for (const text of ['', '{', '[]', '{"columns": 1}', '{"columns": {"g": {"encoding": 7}}}']) {
      expect(parseGeoMetadata(text)).toBeNull();
    }
  });
});

describe.each(['UTC', 'America/Chicago'])(
  'every extreme value, by another writer, in a process in %s (F40)',
  (zone) => {
    it('stores and shows every extreme value of another writer exactly', async () => {
      await using elsewhere = await temporaryFolder();
      const child = spawnSync(process.execPath, [scriptPath('duckdb-specimens-child.ts'), elsewhere.path], {
        encoding: 'utf8',
        env: { ...process.env, TZ: zone },
      });
      expect(child.stderr).toBe('');
      const rows = child.stdout
        .trimEnd()
        .split('\n')
        .map((line) => JSON.parse(line) as readonly unknown[]);
      // specimen, label, revision, text, integer, number, boolean, date, timestamp, geometry, json
      const shown = (position: number) => new Set(rows.map((row) => row[position]));
      for (const integer of EXTREME_INTEGERS) expect(shown(4)).toContain(String(integer));
      for (const timestamp of EXTREME_TIMESTAMPS) expect(shown(8)).toContain(inUtc(timestamp));
      for (const wkt of ['POINT EMPTY', 'GEOMETRYCOLLECTION EMPTY', 'POINT Z (-97.7431 30.2672 149.25)'])
        expect(shown(9)).toContain(wkt);
      expect(rows.length).toBeGreaterThan(EXTREME_GEOMETRIES.length);
      const stored = await inMirror(
        elsewhere.path,
        `SELECT strftime("a,b.c\\d", '%Y-%m-%dT%H:%M:%S.%fZ') FROM specimens ORDER BY specimen`,
      );
      expect(stored.map(([timestamp]) => timestamp)).toEqual(rows.map((row) => row[8]));
    });
  },
);

/** The timestamp of an RFC 3339 text in UTC with six decimals, computed apart from the code under test. */
function inUtc(text: string): string {
  const [, whole, fraction, offset] = /^(.*?)(?:\.(\d+))?(Z|[+-]\d\d:\d\d)$/.exec(text) ?? [];
  const date = new Date(`${whole}${offset === '-00:00' ? 'Z' : offset}`).toISOString().slice(0, 19);
  return `${date}.${(fraction ?? '').padEnd(6, '0')}Z`;
}
