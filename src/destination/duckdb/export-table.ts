/**
 * A live table as a GeoParquet file. Readers skip what lies outside of their window by the statistics of the geometry type of
 * Parquet itself; docs/decisions/export.md says why there is no bbox column.
 */

import { durable } from '../../lib/files.ts';
import { StorageError } from '../../model/errors.ts';
import type { ObservedColumn, ObservedTable } from '../../model/write-jobs.ts';
import { isWgs84 } from '../../staging/coordinate-systems.ts';
import type { Engine } from '../../staging/engine/engine.ts';
import { DuckDbError, firstLine } from '../../staging/engine/errors.ts';
import { identifier, text } from '../../staging/engine/sql.ts';
import { readFormat, readObservedTables } from './catalog/observed-state.ts';
import { mirrored } from './catalog/schema.ts';
import { IS_DAMAGE } from './count-tables.ts';

interface ParquetOptions {
  /** `BOTH`: geometries also have the type of Parquet itself, with statistics. */
  readonly version: 'V1' | 'BOTH';
  /** What the file says of its geometries where DuckDB does not: the engines of the mirror read and write none of it. */
  readonly geo?: string;
}

/** Returns the statement that writes the rows of a query to a file, with the metadata of GeoParquet 1.0. */
export function copyToParquet(query: string, path: string, { version, geo }: ParquetOptions): string {
  const metadata = geo === undefined ? '' : `, KV_METADATA {geo: ${text(geo)}}`;
  return `COPY (${query}) TO ${text(path)} (FORMAT parquet, GEOPARQUET_VERSION '${version}'${metadata}, USE_TMP_FILE false)`;
}

/** Writes the table with the mirror attached, as `ExportSource.writeTable` says. @throws its errors, and DuckDbError. */
export async function exportTable(
  engine: Engine,
  mirrorPath: string,
  datasetId: string,
  to: string,
): Promise<ObservedTable | null> {
  const format = await readFormat(engine, mirrorPath);
  if (format === null) return null;
  const table = (await readObservedTables(engine, [datasetId], format)).get(datasetId);
  if (table === undefined) return null;
  try {
    await durable('destination.export-table', () => engine.run(copyTable(table, to)));
    return table;
  } catch (error) {
    throw explained(error, table, to);
  }
}

function copyTable({ tableName, columns }: ObservedTable, to: string): string {
  const geometries = columns.filter(({ type }) => type === 'geometry');
  const named = geometries.flatMap(({ columnName, crs }) => {
    const name = identifier(columnName);
    const definition = definitionOf(crs);
    return definition === null ? [] : `${name}::GEOMETRY(${text(JSON.stringify(definition))}) AS ${name}`;
  });
  const replaced = named.length === 0 ? '' : ` REPLACE (${named.join(', ')})`;
  const query = `SELECT *${replaced} FROM ${mirrored(tableName)}`;
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

function explained(error: unknown, { tableName }: ObservedTable, to: string): unknown {
  if (!(error instanceof DuckDbError) || error.fault === 'interrupted') return error;
  const why = firstLine(error).replace(/[.!]$/, '');
  if (IS_DAMAGE.has(error.fault)) {
    return new StorageError(`The table ${tableName} is damaged and cannot be exported: ${why}.`, {
      code: 'mirror_damaged',
      hint: 'Check the disk of the mirror. The last generation of the export stays.',
      cause: error,
    });
  }
  return new StorageError(`The table ${tableName} cannot be exported to ${to}: ${why}.`, {
    code: 'export_failed',
    hint: 'Check the folder of export.path and the space on its disk. The last generation of the export stays.',
    cause: error,
  });
}
