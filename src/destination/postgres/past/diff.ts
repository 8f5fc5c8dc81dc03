/**
 * The rows that commits added, changed and removed, from the undo log: the state of a key before them is its first entry among
 * them, its state after them its first later entry, or else its row in the table. A key that ends as it began is left out.
 */

import type { RowDifference } from '../../../model/commits.ts';
import type { PastCommit } from '../../../model/past-states.ts';
import { identifier, integer, numberAt } from '../../../staging/engine/sql.ts';
import type { Compared } from '../../catalog/compare-states.ts';
import { type LoggedColumn, nameInLog } from '../../catalog/undo-logs.ts';
import type { PastLog } from '../../reader.ts';
import type { Transaction } from '../connection.ts';
import { differs } from '../types.ts';
import { earliestOf, historic } from './history.ts';
import { logAsOf } from './past-logs.ts';

/**
 * Returns a query for the rows in the order of their keys: the change, the key, the other columns before, and the same after.
 */
export function selectDiff({ log, columns, from, to }: Compared): string {
  const keys = columns.flatMap(({ role }, index) => (role === 'key' ? [index] : []));
  const values = columns.flatMap(({ role }, index) => (role === 'key' ? [] : [index]));
  const [was, is] = from.commitNumber <= to.commitNumber ? ['b', 'a'] : ['a', 'b'];
  const change = `CASE WHEN NOT ${was}_exists THEN 'added' WHEN NOT ${is}_exists THEN 'removed' ELSE 'changed' END`;
  const order = keys
    .map((index) => (columns[index]?.type === 'string' ? `k${index} COLLATE "C"` : `k${index}`))
    .join(', ');
  const selected = [
    `${change} AS change`,
    ...keys.map((index) => `k${index}`),
    ...[was, is].flatMap((side) => values.map((index) => `${side}${index}`)),
  ];
  return `SELECT ${selected.join(', ')} FROM (${selectTouched(log, columns, from, to)}) AS touched
    WHERE (b_exists OR a_exists) AND (b_exists <> a_exists OR ${differing(columns, values)}) ORDER BY ${order}`;
}

/** Every key that the commits touched, with its values before and after them. */
function selectTouched(
  log: PastLog,
  columns: readonly LoggedColumn[],
  one: PastCommit,
  other: PastCommit,
): string {
  const first = integer(Math.min(one.commitNumber, other.commitNumber));
  const last = integer(Math.max(one.commitNumber, other.commitNumber));
  const keys = columns.flatMap(({ role }, index) => (role === 'key' ? [index] : []));
  const logged = columns.map(({ columnName }, index) => `${nameInLog(columnName)} AS v${index}`);
  const live = columns.map(({ columnName }, index) => `${identifier(columnName)} AS v${index}`);
  const earliest = (where: string): string => `(SELECT ${logged.join(', ')}, _operation <> 'added' AS is_there
    FROM (${earliestOf(columns, `(SELECT * FROM ${historic(log.logName)} WHERE ${where})`)}) AS earliest)`;
  const same = (side: string): string =>
    keys.map((index) => `before.v${index} = ${side}.v${index}`).join(' AND ');
  const cells = columns.flatMap(({ role }, index) =>
    role === 'key'
      ? [`before.v${index} AS k${index}`]
      : [
          `before.v${index} AS b${index}`,
          `CASE WHEN later.is_there IS NULL THEN newest.v${index} ELSE later.v${index} END AS a${index}`,
        ],
  );
  return `SELECT ${cells.join(', ')}, before.is_there AS b_exists,
      coalesce(later.is_there, newest.is_there IS NOT NULL) AS a_exists
    FROM ${earliest(`_commit > ${first} AND _commit <= ${last}`)} AS before
    LEFT JOIN ${earliest(`_commit > ${last}`)} AS later ON ${same('later')}
    LEFT JOIN (SELECT ${live.join(', ')}, true AS is_there FROM ${logAsOf(log, columns).source}) AS newest ON ${same('newest')}`;
}

function differing(columns: readonly LoggedColumn[], values: readonly number[]): string {
  const conditions = values.map((index) => {
    return differs(`b${index}`, `a${index}`, columns[index]?.type ?? 'string');
  });
  return conditions.length === 0 ? 'false' : `(${conditions.join(' OR ')})`;
}

/** Counts the rows that lead from the one state to the other. */
export async function countDiff(transaction: Transaction, compared: Compared): Promise<RowDifference> {
  const count = (change: string): string => `count(*) FILTER (WHERE change = '${change}')`;
  const [row = []] = await transaction.rows(
    `SELECT ${['added', 'changed', 'removed'].map(count).join(', ')} FROM (${selectDiff(compared)}) AS differing`,
  );
  return { added: numberAt(row, 0), changed: numberAt(row, 1), removed: numberAt(row, 2) };
}
