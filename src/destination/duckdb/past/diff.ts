/** The rows that differ between two states of a table in the mirror. */

import type { RowDifference } from '../../../model/commits.ts';
import type { Engine } from '../../../staging/engine/engine.ts';
import { sameKey } from '../../../staging/engine/sql.ts';
import type { Compared } from '../../catalog/compare-states.ts';
import { countDiffs, type DiffDialect, selectDiff as diffIn, rowDifferenceAt } from '../../catalog/diff.ts';
import { historic } from '../catalog/schema.ts';
import { earliestOf } from './history.ts';
import { sourceOf } from './past-logs.ts';

const DIALECT: DiffDialect = {
  earliest: ({ log, columns }, where) =>
    earliestOf(columns, `(SELECT * FROM ${historic(log.logName)} WHERE ${where})`),
  source: ({ log }) => sourceOf(log),
  sameKey,
  differs: (left, right) => `${left} IS DISTINCT FROM ${right}`,
  inOrder: (value) => value,
};

/** Returns a query for the rows, as `selectDiff` of the catalog says. */
export function selectDiff(compared: Compared): string {
  return diffIn(compared, DIALECT);
}

/** Counts the rows that lead from the one state to the other. */
export async function countDiff(engine: Engine, compared: Compared): Promise<RowDifference> {
  const [row = []] = await engine.rows(countDiffs(selectDiff(compared)));
  return rowDifferenceAt(row);
}
