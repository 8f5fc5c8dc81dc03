/** The statements that say in comments what a table and its columns are, as text. */

import { identifier, text } from '../engine/quoting.ts';
import type { PlannedColumn } from '../snapshot/table-plan.ts';
import { mirrored } from './mirror-schema.ts';

/** The comments of a table that has none yet. */
export function comments(
  tableName: string,
  datasetId: string,
  columns: readonly PlannedColumn[],
): readonly string[] {
  const table = mirrored(tableName);
  return [
    commentOnTable(table, datasetId),
    ...columns.flatMap(({ column, columnName }) =>
      column.description === null ? [] : [commentOnColumn(table, columnName, column.description)],
    ),
  ];
}

/** `table` is SQL: the table of a dataset, wherever it is. */
export function commentOnTable(table: string, datasetId: string): string {
  return `COMMENT ON TABLE ${table} IS ${text(`Dataset ${datasetId}`)}`;
}

/** Null takes the comment away. */
export function commentOnColumn(table: string, columnName: string, comment: string | null): string {
  return `COMMENT ON COLUMN ${table}.${identifier(columnName)} IS ${text(comment)}`;
}
