/** F42: the files of other writers are in the mirror as another library decodes them, in every column of every row. */

import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Destination } from '../../src/destination/destination.ts';
import type { Column, ColumnType } from '../../src/model/column.ts';
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
const withGeometry = names.filter((name) => !name.includes('plain'));

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

const described = new Map(
  await Promise.all(
    names.map(async (name) => {
      const rows = await duckdb(`DESCRIBE FROM read_parquet('${join(source, name)}')`);
      return [name, rows.map(([name, type]) => [String(name), String(type)] as const)] as const;
    }),
  ),
);

/** The schema that a service would publish for the file: what is nested is JSON, bounds are none of its columns. */
function columnsOf(name: string): readonly Column[] {
  return (described.get(name) ?? [])
    .filter(([name]) => name !== 'bbox' && name !== 'geometry_bbox')
    .map(([name, type]) => column(name, name === 'geometry' ? 'geometry' : (TYPES[type] ?? 'json')));
}

/** As our look into the mirror shows integers of 64 bits. */
function wholeNumber(value: unknown): unknown {
  return value === null ? null : String(value);
}

/** JSON without its members that are null, of which the other decoder leaves some out. */
function parsed(value: unknown): unknown {
  if (value === null) return null;
  return JSON.parse(String(value), (_, inside) => withoutNulls(inside));
}

function withoutNulls(value: unknown): unknown {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return value;
  return Object.fromEntries(Object.entries(value).filter(([, member]) => member !== null));
}

describe.skipIf(realFolder === null)('files by other writers', () => {
  let folder: Awaited<ReturnType<typeof temporaryFolder>>;
  let mirror: Destination;
  const kinds: string[] = [];
  beforeAll(async () => {
    folder = await temporaryFolder();
    mirror = await mirrorIn(folder.path, { dataDirectory: source });
    const units = names.map((name) =>
      snapshot({ datasetId: tableOf(name), columns: columnsOf(name), files: [join(source, name)] }),
    );
    for (const outcome of await load(mirror, ...units)) {
      kinds.push(outcome.kind === 'failed' ? outcome.error.message : outcome.kind);
    }
  });
  afterAll(async () => {
    await mirror.close();
    await folder[Symbol.asyncDispose]();
  });

  /** The rows of the mirror in the order of the file: text for a geometry, and JSON as text. */
  async function mirrored(name: string): Promise<readonly Readonly<Record<string, unknown>>[]> {
    const columns = columnsOf(name);
    const list = columns.map(({ name, type }) =>
      type === 'geometry' ? `ST_AsText("${name}")` : `"${name}"`,
    );
    const rows = await inMirror(
      folder.path,
      `SELECT ${list.join(', ')} FROM ${tableOf(name)} ORDER BY rowid`,
    );
    return rows.map((row) => Object.fromEntries(columns.map(({ name }, index) => [name, row[index]])));
  }

  it('are all here, and all load', () => {
    expect(kinds).toEqual(Array.from({ length: 29 }, () => 'committed'));
  });

  it.each(withGeometry)('%s has the geometries that another decoder finds', async (name) => {
    const decoded = await decodedRows(join(source, name));
    const type = GEOARROW_TYPES[/data-([a-z]+)-encoding_native/.exec(name)?.[1] ?? ''];
    const expected = decoded.map(({ geometry }) =>
      type === undefined ? wktOf(geometry as Geometry | null) : wktOfGeoArrow(type, geometry),
    );
    const rows = await mirrored(name);
    expect(rows.map(({ geometry }) => (geometry === null ? null : spelled(String(geometry))))).toEqual(
      expected,
    );
    expect(rows.length).toBeGreaterThan(0);
  });

  it.each(names)('%s has the values that another decoder finds', async (name) => {
    const decoded = await decodedRows(join(source, name));
    const columns = columnsOf(name).filter(({ type }) => type !== 'geometry');
    const rows = await mirrored(name);
    for (const { name, type } of columns) {
      const values = rows.map((row) => row[name]);
      const found = decoded.map((row) => row[name] ?? null);
      if (type === 'json')
        expect(values.map(parsed), name).toEqual(found.map((value) => parsed(JSON.stringify(value))));
      else expect(values, name).toEqual(type === 'integer' ? found.map(wholeNumber) : found);
    }
  });

  const native = names.filter((name) => name.includes('encoding_native'));
  it('of native encodings have a twin in WKB', () => {
    expect(native).toHaveLength(6);
  });
  it.each(native)('%s equals its twin in WKB', async (name) => {
    const rows = await mirrored(name);
    expect(rows).toEqual(await mirrored(name.replace('native', 'wkb')));
    const text = rows.map(({ geometry }) => String(geometry)).join();
    // Each of them has a null, and all but lines of a single kind have an empty geometry.
    expect(text).toContain('null');
    expect(text).toContain('EMPTY');
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
