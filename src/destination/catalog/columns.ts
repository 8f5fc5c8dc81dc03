/** The columns of a live table, as the catalog records them. Pure. */

import { assert } from '../../lib/assert.ts';
import { columnNames } from '../../model/naming.ts';
import { COLUMN_TYPES, type ColumnType } from '../../model/records.ts';
import type { ObservedColumn } from '../../model/write-jobs.ts';
import type { Row } from '../../staging/engine/engine.ts';
import { damagedBookkeeping } from '../../staging/engine/errors.ts';
import { storedJson, textOrNullAt } from '../../staging/engine/sql.ts';
import type { PlannedColumn } from '../../staging/snapshot/table-plan.ts';
import type { ShownKey } from '../comparer.ts';

export interface RecordedColumn {
  readonly name: string;
  /** The column's name in the mirror. */
  readonly columnName: string;
  readonly type: string;
  readonly isNullable: boolean;
  readonly description: string | null;
  readonly sourceName: string | null;
  readonly role: string;
  readonly crs: string | null;
}

export function recordedColumn({ column, columnName, type, role, crs }: PlannedColumn): RecordedColumn {
  const { name, nullable: isNullable, description, sourceName } = column;
  return { name, columnName, type, isNullable, description, sourceName, role, crs };
}

export function observedColumn({ name, columnName, type, role, crs }: RecordedColumn): ObservedColumn {
  return { name, columnName, type: knownColumnType(type), role: role as ObservedColumn['role'], crs };
}

export function knownColumnType(stated: string): ColumnType {
  const type = COLUMN_TYPES.find((known) => known === stated);
  if (type === undefined) throw damagedBookkeeping('a column has an unknown type');
  return type;
}

/** The cells of the query in `readColumns`: position, name, name in the table, type, role, coordinate system. */
type ColumnCells = readonly [string, string, string, string, ObservedColumn['role'], string | null];

/** Reads the JSON text of the cells of all columns of a table, in any order. */
export function columnsFrom(json: string): readonly ObservedColumn[] {
  const columns = storedJson(json) as readonly ColumnCells[];
  return columns
    .toSorted((left, right) => Number(left[0]) - Number(right[0]))
    .map(([, name, columnName, type, role, crs]) => ({
      name,
      columnName,
      type: knownColumnType(type),
      role,
      crs,
    }));
}

/**
 * Returns the columns of a table after changes, in the order of `columns`: those that it has keep their names, the new ones get
 * theirs.
 */
export function columnsAfter(
  observed: readonly ObservedColumn[],
  columns: readonly PlannedColumn[],
): readonly PlannedColumn[] {
  const kept = new Map(observed.map(({ name, columnName }) => [name, columnName]));
  const names = columnNames(
    columns.map(({ column }) => column.name),
    kept,
  );
  const after = columns.map((planned, index) => ({ ...planned, columnName: names[index] ?? '' }));
  for (const { name, type } of observed) {
    const same = after.find(({ column }) => column.name === name);
    assert(same?.type === type, `changes leave the column ${JSON.stringify(name)} with its type`);
  }
  return after;
}

/** Says of a table that somebody gave it other columns; `columnName` is one of those that differ. */
export function hasOtherColumns(tableName: string, columnName: string): string {
  return `The table ${tableName} has not the columns that the catalog lists: ${JSON.stringify(columnName)}.`;
}

/** Reads the first cells of a row as the key of the table, in the order of its columns. */
export function shownKeyAt(
  row: Row,
  columns: readonly Pick<ObservedColumn, 'columnName' | 'role'>[],
): ShownKey {
  const keys = columns.filter(({ role }) => role === 'key');
  return new Map(keys.map(({ columnName }, index) => [columnName, textOrNullAt(row, index)]));
}
