/**
 * A live table as a GeoParquet file, written by DuckDB whatever the destination. Readers skip what lies outside of their window by
 * the statistics of the geometry type of Parquet itself; docs/decisions/export.md says why there is no bbox column.
 */

import { durable } from '../lib/files.ts';
import { StorageError } from '../model/errors.ts';
import type { ObservedColumn, ObservedTable } from '../model/write-jobs.ts';
import { isWgs84 } from './coordinate-systems.ts';
import type { Engine } from './engine/engine.ts';
import { DuckDbError, firstLine } from './engine/errors.ts';
import { identifier, text } from './engine/sql.ts';

interface ParquetOptions {
  /** `BOTH`: geometries also have the type of Parquet itself, with statistics. */
  readonly version: 'V1' | 'BOTH';
  /** The file's metadata about its geometries, where DuckDB writes none: the engines of the mirror read and write none of it. */
  readonly geo?: string;
}

/** Returns the statement that writes the rows of a query to a file, with the metadata of GeoParquet 1.0. */
export function copyToParquet(query: string, path: string, { version, geo }: ParquetOptions): string {
  const metadata = geo === undefined ? '' : `, KV_METADATA {geo: ${text(geo)}}`;
  return `COPY (${query}) TO ${text(path)} (FORMAT parquet, GEOPARQUET_VERSION '${version}'${metadata}, USE_TMP_FILE false)`;
}

/** Writes the rows of `from`, which is SQL and has the columns of the table. @throws DuckDbError */
export async function writeGeoParquet(
  engine: Engine,
  table: ObservedTable,
  from: string,
  to: string,
): Promise<void> {
  await durable('staging.export-table', () => engine.run(copyTable(table, from, to)));
}

function copyTable({ columns }: ObservedTable, from: string, to: string): string {
  const geometries = columns.filter(({ type }) => type === 'geometry');
  const named = geometries.flatMap(({ columnName, crs }) => {
    const name = identifier(columnName);
    const definition = definitionOf(crs);
    return definition === null ? [] : `${name}::GEOMETRY(${text(JSON.stringify(definition))}) AS ${name}`;
  });
  const replaced = named.length === 0 ? '' : ` REPLACE (${named.join(', ')})`;
  const query = `SELECT *${replaced} FROM ${from}`;
  const [primary] = geometries;
  if (primary === undefined) return copyToParquet(query, to, { version: 'BOTH' });
  const described = geometries.map(({ columnName, crs }) => {
    const definition = definitionOf(crs);
    const system = definition === null ? {} : { crs: definition };
    return [columnName, { encoding: 'WKB', geometry_types: [], ...system }];
  });
  const geo = JSON.stringify({
    version: '1.0.0',
    primary_column: primary.columnName,
    columns: Object.fromEntries(described),
  });
  return copyToParquet(query, to, { version: 'BOTH', geo });
}

/**
 * Null for WGS 84, which a file has that names no system. Nobody here can define another one, so the file has one of its own, with
 * the name that the service gave: readers then refuse to mix it up with WGS 84.
 */
function definitionOf(crs: ObservedColumn['crs']): Readonly<Record<string, unknown>> | null {
  if (isWgs84(crs)) return null;
  const name = crs ?? 'unknown';
  const axis = (direction: string) => {
    return { name: direction, abbreviation: direction, direction: 'unspecified', unit: 'unity' };
  };
  return {
    type: 'EngineeringCRS',
    name,
    datum: { type: 'EngineeringDatum', name },
    coordinate_system: { subtype: 'Cartesian', axis: [axis('x'), axis('y')] },
  };
}

/** Returns the error for people where DuckDB could not write the file; any other one as it is. */
export function explainExport(error: unknown, { tableName }: ObservedTable, to: string): unknown {
  if (!(error instanceof DuckDbError) || error.fault === 'interrupted') return error;
  const why = firstLine(error).replace(/[.!]$/, '');
  return new StorageError(`The table ${tableName} cannot be exported to ${to}: ${why}.`, {
    code: 'export_failed',
    hint: 'Check the folder of export.path and the space on its disk. The last generation of the export stays.',
    cause: error,
  });
}
