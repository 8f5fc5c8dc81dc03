/** F42: the files of other writers are in the mirror as another library decodes them, in every column of every row. */

import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Destination } from '../../src/destination/destination.ts';
import type { Column, ColumnType } from '../../src/model/records.ts';
import {
  decodedRows,
  type Geometry,
  type SimpleType,
  spelled,
  wktOf,
  wktOfGeoArrow,
} from '../support/decoded-parquet.ts';
import {
  column,
  duckdb,
  inMirror,
  load,
  mirrorIn,
  snapshot,
  temporaryFolder,
} from '../support/duckdb-mirror.ts';
import { realDataDirectory } from '../support/real-data.ts';

const realFolder = realDataDirectory();
const source = join(realFolder ?? '', 'geoparquet');
const names = realFolder === null ? [] : readdirSync(source).filter((name) => name.endsWith('.parquet'));

const TYPES: Readonly<Record<string, ColumnType>> = {
  INTEGER: 'integer',
  BIGINT: 'integer',
  DOUBLE: 'number',
  VARCHAR: 'string',
};
/** What GeoJSON calls the geometries of a file in a native encoding. */
const GEOARROW_TYPES: Readonly<Record<string, SimpleType>> = {
  point: 'Point',
  linestring: 'LineString',
  polygon: 'Polygon',
  multipoint: 'MultiPoint',
  multilinestring: 'MultiLineString',
  multipolygon: 'MultiPolygon',
};

function tableOf(name: string): string {
  return `file_${names.indexOf(name)}`;
}

/** The columns of every file, as DuckDB describes them: name of the file, of the column, of its type. */
const described =
  realFolder === null
    ? []
    : await duckdb(
        names
          .map(
            (name) =>
              `SELECT '${name}', column_name, column_type FROM (DESCRIBE FROM '${join(source, name)}')`,
          )
          .join(' UNION ALL '),
      );

/** The schema that a service would publish for the file: what is nested is JSON, bounds are none of its columns. */
function columnsOf(file: string): readonly Column[] {
  return described
    .filter(([of, name]) => of === file && name !== 'bbox' && name !== 'geometry_bbox')
    .map(([, name, type]) =>
      column(String(name), name === 'geometry' ? 'geometry' : (TYPES[String(type)] ?? 'json')),
    );
}

type Row = Readonly<Record<string, unknown>>;

/** The same without what is null at any depth, of which the other decoder leaves some out; integers as JSON has them. */
function plain(value: unknown): unknown {
  if (typeof value === 'bigint') return Number(value);
  if (Array.isArray(value)) return value.map((item) => plain(item) ?? null);
  if (typeof value !== 'object' || value === null) return value ?? undefined;
  const members = Object.entries(value).map(([name, member]) => [name, plain(member)] as const);
  return Object.fromEntries(members.filter(([, member]) => member !== undefined));
}

/** The columns of the schema as another library decodes them, the geometry as text. */
async function decoded(file: string): Promise<readonly unknown[]> {
  const type = GEOARROW_TYPES[/data-([a-z]+)-encoding_native/.exec(file)?.[1] ?? ''];
  const wkt = (geometry: unknown): string | null =>
    type === undefined ? wktOf(geometry as Geometry | null) : wktOfGeoArrow(type, geometry);
  const rows = await decodedRows(join(source, file));
  return rows.map((row) => {
    const cells = columnsOf(file).map(({ name }) => [name, name === 'geometry' ? wkt(row[name]) : row[name]]);
    return plain(Object.fromEntries(cells));
  });
}

describe.skipIf(realFolder === null)('F42 files by other writers', () => {
  let folder: Awaited<ReturnType<typeof temporaryFolder>>;
  let mirror: Destination;
  const kinds: string[] = [];
  const mirrored = new Map<string, Row[]>();

  beforeAll(async () => {
    folder = await temporaryFolder();
    mirror = await mirrorIn(folder.path, { dataDirectory: source });
    const jobs = names.map((name) =>
      snapshot({ datasetId: tableOf(name), columns: columnsOf(name), files: [join(source, name)] }),
    );
    for (const outcome of await load(mirror, ...jobs)) {
      kinds.push(outcome.kind === 'failed' ? outcome.error.message : outcome.kind);
    }
    const selects = names.map((name) => {
      const cells = columnsOf(name).map(({ name, type }) =>
        type === 'geometry' ? `'${name}': ST_AsText("${name}")` : `'${name}': "${name}"`,
      );
      return `SELECT '${name}' AS file, rowid AS place, to_json({${cells.join(', ')}})::VARCHAR FROM ${tableOf(name)}`;
    });
    const rows = await inMirror(folder.path, `${selects.join(' UNION ALL ')} ORDER BY file, place`);
    for (const [file, , row] of rows) {
      mirrored.set(String(file), [...(mirrored.get(String(file)) ?? []), JSON.parse(String(row))]);
    }
  });
  afterAll(async () => {
    await mirror.close();
    await folder[Symbol.asyncDispose]();
  });

  function rowsOf(name: string): readonly Row[] {
    return mirrored.get(name) ?? [];
  }

  it('are all here, and all load', () => {
    expect(kinds).toEqual(Array.from({ length: 29 }, () => 'committed'));
  });

  it.each(names)('%s is in the mirror as another library decodes it', async (name) => {
    const rows = rowsOf(name).map(({ geometry, ...others }) =>
      plain({ ...others, geometry: typeof geometry === 'string' ? spelled(geometry) : null }),
    );
    expect(rows).toEqual(await decoded(name));
    expect(rows.length).toBeGreaterThan(0);
  });

  const native = names.filter((name) => name.includes('encoding_native'));
  it('of native encodings have a twin in WKB', () => {
    expect(native).toHaveLength(6);
  });
  it.each(native)('%s equals its twin in WKB', (name) => {
    const rows = rowsOf(name);
    expect(rows).toEqual(rowsOf(name.replace('native', 'wkb')));
    const geometries = rows.map(({ geometry }) => geometry);
    expect(geometries).toContain(null);
    expect(geometries.join()).toContain(' EMPTY');
  });

  it('have their coordinate systems recorded', async () => {
    const rows = await inMirror(
      folder.path,
      `SELECT crs, count(*) FROM feed_sync.columns WHERE type = 'geometry' GROUP BY crs ORDER BY crs`,
    );
    expect(rows).toEqual([
      ['EPSG:4326', '5'],
      ['OGC:CRS84', '23'],
    ]);
  });

  it('have one type of geometry', async () => {
    const rows = await inMirror(
      folder.path,
      `SELECT DISTINCT data_type FROM duckdb_columns() WHERE column_name = 'geometry' AND schema_name = 'main'`,
    );
    expect(rows).toEqual([['GEOMETRY']]);
  });
});
