/** The rows that differ between two states of a table in PostgreSQL. */

import type { RowDifference } from '../../../model/commits.ts';
import type { Compared } from '../../catalog/compare-states.ts';
import { countDiffs, type DiffDialect, selectDiff as diffIn, rowDifferenceAt } from '../../catalog/diff.ts';
import type { Transaction } from '../connection.ts';
import { differs } from '../types.ts';
import { earliestOf, historic } from './history.ts';
import { logAsOf } from './past-logs.ts';

const DIALECT: DiffDialect = {
  earliest: ({ log, columns }, where) =>
    earliestOf(columns, `(SELECT * FROM ${historic(log.logName)} WHERE ${where})`),
  source: ({ log, columns }) => logAsOf(log, columns).source,
  sameKey: (pairs) => pairs.map(([left, right]) => `${left} = ${right}`).join(' AND '),
  differs,
  inOrder: (value, type) => (type === 'string' ? `${value} COLLATE "C"` : value),
};

/** Returns a query for the rows, as `selectDiff` of the catalog says. */
export function selectDiff(compared: Compared): string {
  return diffIn(compared, DIALECT);
}

/** Counts the rows that lead from the one state to the other. */
export async function countDiff(transaction: Transaction, compared: Compared): Promise<RowDifference> {
  const [row = []] = await transaction.rows(countDiffs(selectDiff(compared)));
  return rowDifferenceAt(row);
}
