/** Parquet files that say what is in a geometry column, as other writers do it. */

import { parquet } from './duckdb-mirror.ts';

/** What the metadata says of the column: `encoding`, `crs`, `geometry_types`, `covering`. */
export type StatedGeometry = Readonly<Record<string, unknown>> & { readonly encoding: string };

/** Writes the result of `select`; gives the path. */
export function geoParquet(
  folder: string,
  name: string,
  select: string,
  stated: StatedGeometry,
  column = 'geometry',
): Promise<string> {
  const geo = { version: '1.1.0', primary_column: column, columns: { [column]: stated } };
  const text = JSON.stringify(geo).replaceAll("'", "''");
  return parquet(folder, name, select, `, KV_METADATA {geo: '${text}'}`);
}
