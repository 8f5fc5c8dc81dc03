/** The GeoParquet files of other writers: their names, their columns, and their rows as a library decodes them that is not DuckDB. */

import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import type { Column, ColumnType } from '../../src/model/records.ts';
import { decodedRows, type Geometry, type SimpleType, wktOf, wktOfGeoArrow } from './decoded-parquet.ts';
import { column, duckdb } from './duckdb-mirror.ts';
import { realDataDirectory } from './real-data.ts';

const realFolder = realDataDirectory();
/** The folder of the files; null where the real data is missing. */
export const GEOPARQUET_FOLDER = realFolder === null ? null : join(realFolder, 'geoparquet');
const source = GEOPARQUET_FOLDER ?? '';
export const GEOPARQUET_FILES =
  GEOPARQUET_FOLDER === null ? [] : readdirSync(source).filter((name) => name.endsWith('.parquet'));

const TYPES: Readonly<Record<string, ColumnType>> = {
  INTEGER: 'integer',
  BIGINT: 'integer',
  DOUBLE: 'number',
  VARCHAR: 'string',
};
/** The names in GeoJSON of the geometries of a file in a native encoding. */
const GEOARROW_TYPES: Readonly<Record<string, SimpleType>> = {
  point: 'Point',
  linestring: 'LineString',
  polygon: 'Polygon',
  multipoint: 'MultiPoint',
  multilinestring: 'MultiLineString',
  multipolygon: 'MultiPolygon',
};

/** Returns a function that gives the schema that a service would publish for a file: what is nested is JSON, bounds are no columns. */
export async function describeFiles(): Promise<(file: string) => readonly Column[]> {
  const selects = GEOPARQUET_FILES.map(
    (name) => `SELECT '${name}', column_name, column_type FROM (DESCRIBE FROM '${join(source, name)}')`,
  );
  const described = selects.length === 0 ? [] : await duckdb(selects.join(' UNION ALL '));
  return (file) =>
    described
      .filter(([of, name]) => of === file && name !== 'bbox' && name !== 'geometry_bbox')
      .map(([, name, type]) =>
        column(String(name), name === 'geometry' ? 'geometry' : (TYPES[String(type)] ?? 'json')),
      );
}

/**
 * The same without members of objects that are null at any depth, of which the decoder leaves some out; integers as JSON has them.
 */
export function plain(value: unknown): unknown {
  if (typeof value === 'bigint') return Number(value);
  if (Array.isArray(value)) return value.map((item) => plain(item) ?? null);
  if (typeof value !== 'object' || value === null) return value ?? undefined;
  const members = Object.entries(value).map(([name, member]) => [name, plain(member)] as const);
  return Object.fromEntries(members.filter(([, member]) => member !== undefined));
}

/** The rows of a file with the columns of its schema, the geometry as text. */
export async function decodedFile(
  file: string,
  columns: readonly Column[],
): Promise<readonly Readonly<Record<string, unknown>>[]> {
  const type = GEOARROW_TYPES[/data-([a-z]+)-encoding_native/.exec(file)?.[1] ?? ''];
  const wkt = (geometry: unknown): string | null =>
    type === undefined ? wktOf(geometry as Geometry | null) : wktOfGeoArrow(type, geometry);
  const rows = await decodedRows(join(source, file));
  return rows.map((row) =>
    Object.fromEntries(
      columns.map(({ name }) => [name, name === 'geometry' ? wkt(row[name]) : row[name]] as const),
    ),
  );
}
