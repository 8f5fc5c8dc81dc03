/** A live table of the mirror as a GeoParquet file. */

import { StorageError } from '../../../model/errors.ts';
import type { ObservedTable } from '../../../model/write-jobs.ts';
import type { Engine } from '../../../staging/engine/engine.ts';
import { DuckDbError, firstLine } from '../../../staging/engine/errors.ts';
import { explainExport, writeGeoParquet } from '../../../staging/geoparquet.ts';
import { readFormat } from '../catalog/format.ts';
import { readObservedTables } from '../catalog/observed-state.ts';
import { mirrored } from '../catalog/schema.ts';
import { IS_DAMAGE } from '../count-tables.ts';

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
    await writeGeoParquet(engine, table, mirrored(table.tableName), to);
    return table;
  } catch (error) {
    throw explained(error, table, to);
  }
}

function explained(error: unknown, table: ObservedTable, to: string): unknown {
  if (!(error instanceof DuckDbError) || !IS_DAMAGE.has(error.fault)) return explainExport(error, table, to);
  const why = firstLine(error).replace(/[.!]$/, '');
  return new StorageError(`The table ${table.tableName} is damaged and cannot be exported: ${why}.`, {
    code: 'mirror_damaged',
    hint: 'Check the disk of the mirror. The file of the last generation stays.',
    cause: error,
  });
}
