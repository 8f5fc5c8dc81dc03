/**
 * The net change of a backlog: for each key that the versions touch, the row it has afterwards, or that it has none.
 * It is folded off the lock and kept in Parquet files beside the pages, from which the window reads it in one statement.
 *
 * Invariant of the files: no key is there twice or holds a null, and every value is what the table is to hold, exactly.
 */

import type { UnusableChangesError } from '../../../model/errors.ts';
import { readParquet } from '../snapshot/parquet-file.ts';
import type { PlannedColumn } from '../snapshot/table-plan.ts';

export interface NetChange {
  /** The Parquet files. They lie in the folders of pages and are gone with those. */
  readonly paths: readonly string[];
  /** Keys that have a row afterwards. */
  readonly rows: number;
  /** Keys that have none afterwards, whether or not the table has one now. */
  readonly removals: number;
  /**
   * The columns of the table as it has to be afterwards, in their order: those a load of a snapshot with this schema
   * would give it. They are the table's own unless the unit adds columns.
   */
  readonly columns: readonly PlannedColumn[];
  /** Columns that take the coordinate system of the changes, where the table holds no value in them. */
  readonly firstValues: readonly FirstValues[];
}

/** The first GeoJSON for a geometry column of the table whose coordinate system is not known. */
export interface FirstValues {
  readonly columnName: string;
  /** What is wrong where the table holds a value in the column already. */
  readonly refusal: UnusableChangesError;
}

/** In the rows of the net change: true where the key has a row afterwards, false where only its key is given. */
export const PRESENT = 'present';

/** The name, in the rows of the net change, of the column at this position (from 0) of `NetChange.columns`. */
export function netColumn(position: number): string {
  return `c${position}`;
}

/**
 * The rows of the net change, for use after FROM and under an alias: the columns `c0`, `c1`, … in the order of
 * `NetChange.columns` and with the types of the mirror, then `present`. Columns that are not asked for cost nothing.
 */
export function netRows({ paths, columns }: Pick<NetChange, 'paths' | 'columns'>): string {
  const values = columns.map(({ type }, position) => {
    const name = netColumn(position);
    return type === 'geometry' ? `ST_GeomFromWKB(${name}) AS ${name}` : name;
  });
  return `(SELECT ${[...values, PRESENT].join(', ')} FROM ${readParquet(paths)})`;
}
