/** What is to be said of the columns of a table after changes, in comments and in the books. Pure. */

import { isDeepStrictEqual } from 'node:util';
import type { HeldDataset } from '../../destination.ts';
import { commentOnColumn, comments } from '../books/comment-sql.ts';
import { mirrored } from '../books/mirror-schema.ts';
import { type RecordedColumn, recordedColumn } from '../books/recorded-column.ts';
import type { PlannedColumn } from '../snapshot/table-plan.ts';
import type { TableAfter } from './table-after.ts';

export interface Description {
  /** Those that say what no comment says yet. */
  readonly statements: readonly string[];
  /** In the place of what is written of the columns; null: that stays. */
  readonly columns: readonly PlannedColumn[] | null;
}

/** `recorded` is what is written of the columns before. A table that is written anew has no comments. */
export function describeColumns(
  { datasetId, tableName }: Pick<HeldDataset, 'datasetId' | 'tableName'>,
  recorded: readonly RecordedColumn[],
  { columns, alteration }: TableAfter,
): Description {
  const isSame = isDeepStrictEqual(recorded, columns.map(recordedColumn));
  const statements =
    alteration.kind === 'rewrite'
      ? comments(tableName, datasetId, columns)
      : renewedComments(tableName, recorded, columns);
  return { statements, columns: isSame ? null : columns };
}

function renewedComments(
  tableName: string,
  recorded: readonly RecordedColumn[],
  columns: readonly PlannedColumn[],
): readonly string[] {
  const before = new Map(recorded.map(({ columnName, description }) => [columnName, description]));
  return columns
    .filter(({ column, columnName }) => (before.get(columnName) ?? null) !== column.description)
    .map(({ column, columnName }) => commentOnColumn(mirrored(tableName), columnName, column.description));
}
