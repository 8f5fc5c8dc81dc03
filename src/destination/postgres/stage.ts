/**
 * The stage: a temporary table with the rows of a snapshot, or with those of a net change and a column that marks those present
 * afterwards. It lasts until the end of the transaction.
 */

import { identifier, tuple } from '../../staging/engine/sql.ts';
import type { PlannedColumn } from '../../staging/snapshot/table-plan.ts';
import { type Postgis, typeName } from './types.ts';

/** As SQL. */
export const STAGED = identifier('feed-sync: stage');

/** As SQL. Whether the row of a net change is there afterwards. No dataset has a column of this name. */
export const IS_PRESENT = identifier('feed-sync: present');

/** A table, and the rows that are staged for it. */
export interface Target {
  readonly tableName: string;
  /** The columns afterwards; the columns of the stage have the same names. */
  readonly columns: readonly PlannedColumn[];
  /** Whether the stage is a net change, which leaves the other rows as they are. */
  readonly isNet: boolean;
}

export function createStage({ columns, isNet }: Omit<Target, 'tableName'>, postgis: Postgis | null): string {
  const defined = columns.map(
    ({ columnName, type }) => `${identifier(columnName)} ${typeName(type, postgis)}`,
  );
  return `CREATE TEMPORARY TABLE ${STAGED} (${[...defined, ...(isNet ? [`${IS_PRESENT} boolean`] : [])].join(', ')})
    ON COMMIT DROP`;
}

/** Returns the stage with its columns, as what rows are written into. */
export function stageWithColumns({ columns, isNet }: Omit<Target, 'tableName'>): string {
  return `${STAGED} ${tuple([...columnNames(columns), ...(isNet ? [IS_PRESENT] : [])])}`;
}

export function analyzeStage(): string {
  return `ANALYZE ${STAGED}`;
}

/** Returns the condition that a row `t` of the table and a row `s` of the stage have the same key. */
export function sameKey(columns: readonly PlannedColumn[]): string {
  const keys = columns.filter(({ role }) => role === 'key').map(({ columnName }) => identifier(columnName));
  return keys.map((key) => `t.${key} = s.${key}`).join(' AND ');
}

export function columnNames(columns: readonly PlannedColumn[]): readonly string[] {
  return columns.map(({ columnName }) => identifier(columnName));
}
