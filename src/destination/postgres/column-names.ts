/**
 * The names of columns that PostgreSQL cannot take: those of its own columns of every table, and those above 63 bytes, which it would
 * cut. A column with such a name gets another one, which the catalog has beside the service's name; every other name stays. Pure.
 *
 * Invariants: a name depends on the names of the dataset alone, so that every instance gives the same one. A column that the table
 * has already keeps its name.
 */

import { createHash } from 'node:crypto';
import { DataError } from '../../model/errors.ts';
import { MAX_TABLE_NAME_BYTES } from '../../model/naming.ts';
import type { ObservedColumn } from '../../model/write-jobs.ts';
import type { PlannedColumn } from '../../staging/snapshot/table-plan.ts';

/** The columns that every table has. */
const SYSTEM_COLUMNS: ReadonlySet<string> = new Set(['ctid', 'tableoid', 'xmin', 'xmax', 'cmin', 'cmax']);
const DIGEST_DIGITS = 8;
/** A table of the server has at most 1,600, and an undo log and a difference have five of their own beside them. */
export const MAX_COLUMNS = 1_595;

/** Returns the columns with possible names. `kept` are the columns of the table that is there. */
export function withPossibleNames(
  columns: readonly PlannedColumn[],
  kept: readonly Pick<ObservedColumn, 'name'>[] = [],
): readonly PlannedColumn[] {
  const stay = new Set(kept.map(({ name }) => name));
  const isGiven = ({ column, columnName }: PlannedColumn) => stay.has(column.name) || isPossible(columnName);
  if (columns.every(isGiven)) return columns;
  const taken = new Set(columns.map(({ columnName }) => columnName.toLowerCase()));
  return columns.map((planned) => {
    if (isGiven(planned)) return planned;
    const columnName = possibleName(planned, taken);
    taken.add(columnName.toLowerCase());
    return { ...planned, columnName };
  });
}

function isPossible(columnName: string): boolean {
  return !SYSTEM_COLUMNS.has(columnName) && Buffer.byteLength(columnName) <= MAX_TABLE_NAME_BYTES;
}

function possibleName({ column, columnName }: PlannedColumn, taken: ReadonlySet<string>): string {
  if (SYSTEM_COLUMNS.has(columnName)) {
    for (let number = 2; ; number += 1) {
      const name = `${columnName}_${number}`;
      if (!taken.has(name)) return name;
    }
  }
  const digest = createHash('sha256').update(column.name).digest('hex');
  for (let digits = DIGEST_DIGITS; digits < digest.length; digits += 1) {
    const ending = `_${digest.slice(0, digits)}`;
    const name = cut(columnName, MAX_TABLE_NAME_BYTES - ending.length) + ending;
    if (!taken.has(name.toLowerCase())) return name;
  }
  throw new RangeError(`No free name for the column ${JSON.stringify(column.name)}`);
}

/** Returns the longest beginning of whole characters within so many bytes. */
function cut(text: string, maxBytes: number): string {
  let bytes = 0;
  let kept = '';
  for (const character of text) {
    bytes += Buffer.byteLength(character);
    if (bytes > maxBytes) break;
    kept += character;
  }
  return kept;
}

/** Refuses more columns than a table can have. @throws DataError */
export function refuseTooManyColumns(datasetId: string, columns: readonly PlannedColumn[]): void {
  if (columns.length <= MAX_COLUMNS) return;
  throw new DataError(
    `The schema of ${datasetId} has ${columns.length} columns; PostgreSQL can hold ${MAX_COLUMNS} and what feed-sync needs beside them.`,
    { hint: 'Mirror this dataset into DuckDB, or ask the service for fewer columns.' },
  );
}
