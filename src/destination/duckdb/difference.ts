/**
 * The difference that a reload makes, by keys alone: how many rows it adds and removes. Comparing whole rows costs as much as the
 * load itself; the keys cost a tenth of it.
 */

import { isDeepStrictEqual } from 'node:util';
import type { RowDifference } from '../../model/commits.ts';
import type { Engine } from '../../staging/engine/engine.ts';
import { DuckDbError } from '../../staging/engine/errors.ts';
import { identifier, numberAt } from '../../staging/engine/sql.ts';
import type { PlannedColumn } from '../../staging/snapshot/table-plan.ts';
import { mirrored } from './catalog/schema.ts';
import type { Current } from './catalog/tables.ts';
import { LOADING } from './load-sql.ts';

/** The table of the dataset cannot be compared: it is damaged, or was changed by hand. The load replaces it all the same. */
export class IncomparableError extends Error {
  override readonly name = 'IncomparableError';
  readonly datasetId: string;
  override readonly cause: DuckDbError;

  constructor(datasetId: string, cause: DuckDbError) {
    super(cause.message);
    this.datasetId = datasetId;
    this.cause = cause;
  }
}

/**
 * Compares the loaded table with the live one. Returns null where there is none, or where their keys are not of the same columns.
 * `keyColumns` and `rowCount` are those of the loaded table, whose keys are proven.
 * @throws IncomparableError
 */
export async function differenceByKeys(
  engine: Engine,
  { live, existingObject }: Pick<Current, 'live' | 'existingObject'>,
  keyColumns: readonly PlannedColumn[],
  rowCount: number,
): Promise<RowDifference | null> {
  if (live === null || existingObject !== 'table' || keyColumns.length === 0) return null;
  const keys = keyColumns.map(({ columnName, type }) => [columnName, type]);
  const keysBefore = live.columns
    .filter(({ role }) => role === 'key')
    .map(({ columnName, type }) => [columnName, type]);
  if (!isDeepStrictEqual(keys, keysBefore)) return null;
  try {
    const [row = []] = await engine.rows(countKept(live.tableName, keyColumns));
    const [rowsBefore, kept] = [numberAt(row, 0), numberAt(row, 1)];
    return { added: rowCount - kept, changed: null, removed: Math.max(0, rowsBefore - kept) };
  } catch (error) {
    if (!(error instanceof DuckDbError) || !IS_OF_TABLE.has(error.fault)) throw error;
    throw new IncomparableError(live.datasetId, error);
  }
}

const IS_OF_TABLE: ReadonlySet<DuckDbError['fault']> = new Set([
  'statement',
  'unreadable',
  'gave-up',
  'out-of-memory',
]);

/** Returns one row: the number of rows of the live table, and of loaded rows whose key it has. */
function countKept(tableName: string, keyColumns: readonly PlannedColumn[]): string {
  const sameKey = keyColumns.map(({ columnName, type }) => {
    const pair = ['loaded', 'live'].map((side) => `${side}.${identifier(columnName)}`);
    // In a join, DuckDB silently treats equal geometries as different.
    return pair.map((value) => (type === 'geometry' ? `ST_AsWKB(${value})` : value)).join(' = ');
  });
  return `SELECT (SELECT count(*) FROM ${mirrored(tableName)}),
    (SELECT count(*) FROM ${LOADING} AS loaded SEMI JOIN ${mirrored(tableName)} AS live ON ${sameKey.join(' AND ')})`;
}
