/**
 * Columns that hold no value in a file: all null, or there are no rows. Such a column binds neither type nor coordinate system there,
 * whatever the schema of the file says: writers give it the type that comes first to them, and leave out what they would say of it.
 *
 * Whether a column holds a value is asked of a file only where something depends on it. DuckDB passes over the row groups of which the
 * footer says that all is null, and stops at the first value; so a column is read to its end only where all of it is null.
 */

import type { Column, ColumnType } from '../../../model/column.ts';
import type { SnapshotUnit } from '../../destination.ts';
import { DuckDbError } from '../engine/diagnosis.ts';
import type { Engine } from '../engine/engine.ts';
import { isWgs84 } from '../srid.ts';
import { castFor } from './casts.ts';
import { findFilled } from './load-sql.ts';
import { type ParquetColumn, type ParquetFile, unreadableFile } from './parquet-file.ts';

/** Returns the files with `holdsValue` false for the columns that were found to hold no value. @throws InterruptedError */
export async function markValueless(
  engine: Engine,
  { schema }: SnapshotUnit,
  files: readonly ParquetFile[],
): Promise<readonly ParquetFile[]> {
  const valueless = new Set<ParquetColumn>();
  for (const column of [...schema.columns, ...schema.envelopeColumns]) {
    for await (const found of findValueless(engine, column, files)) valueless.add(found);
  }
  if (valueless.size === 0) return files;
  return files.map((file) => ({
    ...file,
    columns: file.columns.map((column) =>
      valueless.has(column) ? { ...column, holdsValue: false } : column,
    ),
  }));
}

/** A column as one file has it. */
interface Place {
  readonly file: ParquetFile;
  readonly column: ParquetColumn;
}

async function* findValueless(
  engine: Engine,
  { name, type }: Column,
  files: readonly ParquetFile[],
): AsyncGenerator<ParquetColumn> {
  if (typeof type !== 'string') return;
  const places = files.flatMap((file): readonly Place[] =>
    file.columns.flatMap((column) => (column.name === name && column.holdsValue ? { file, column } : [])),
  );
  const systems = [...new Set(places.map(({ column }) => column.geometry?.crs ?? null))];
  const isOne = systems.length === 1;
  // What is not known, and WGS 84, is the same with and without a value: table-plan.ts.
  let isKnown = type !== 'geometry' || (isOne && systems.every((crs) => crs === null || isWgs84(crs)));
  for (const place of places) {
    if (isKnown && isReadable(place.column, type)) continue;
    const isFilled = await holdsValue(engine, place);
    if (!isFilled) yield place.column;
    // Where all say the same, one that holds a value is enough to know that it counts.
    else if (isOne) isKnown = true;
  }
}

function isReadable(column: ParquetColumn, type: ColumnType): boolean {
  return column.inexact === null && castFor(column, type) !== null;
}

/** Returns true as well where the file cannot be read: the load reports what is wrong with it. */
async function holdsValue(engine: Engine, { file, column }: Place): Promise<boolean> {
  try {
    return (await engine.rows(findFilled(file, file.columns.indexOf(column)))).length > 0;
  } catch (error) {
    if (error instanceof DuckDbError && error.trouble === 'interrupted')
      throw await unreadableFile(engine, file, error);
    if (engine.invalidated) await engine.reopen();
    return true;
  }
}
