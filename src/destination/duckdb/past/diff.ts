/**
 * The rows that commits added, changed and removed, from the undo log: the state of a key before them is its first entry among
 * them, its state after them its first later entry, or else its row in the table. A key that ends as it began is left out.
 */

import type { RowDifference } from '../../../model/commits.ts';
import type { PastCommit } from '../../../model/past-states.ts';
import type { Engine } from '../../../staging/engine/engine.ts';
import { identifier, integer, type KeyPair, numberAt, sameKey } from '../../../staging/engine/sql.ts';
import type { Compared } from '../../catalog/compare-states.ts';
import { type LoggedColumn, nameInLog } from '../../catalog/undo-logs.ts';
import type { PastLog } from '../../reader.ts';
import { historic } from '../catalog/schema.ts';
import { earliestOf } from './history.ts';
import { sourceOf } from './past-logs.ts';

/**
 * Returns a query for the rows in the order of their keys: the change, the key, the other columns before, and the same after.
 */
export function selectDiff({ log, columns, from, to }: Compared): string {
  const keys = columns.flatMap(({ role }, index) => (role === 'key' ? [index] : []));
  const values = columns.flatMap(({ role }, index) => (role === 'key' ? [] : [index]));
  const [was, is] = from.commitNumber <= to.commitNumber ? ['b', 'a'] : ['a', 'b'];
  const change = `CASE WHEN NOT ${was}_exists THEN 'added' WHEN NOT ${is}_exists THEN 'removed' ELSE 'changed' END`;
  const order = keys.map((index) => `k${index}`).join(', ');
  const selected = [
    `${change} AS change`,
    ...keys.map((index) => `k${index}`),
    ...[was, is].flatMap((side) => values.map((index) => `${side}${index}`)),
  ];
  return `SELECT ${selected.join(', ')} FROM (${selectTouched(log, columns, from, to)})
    WHERE (b_exists OR a_exists) AND (b_exists <> a_exists OR ${differs(values)}) ORDER BY ${order}`;
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
    FROM (${earliestOf(columns, `(SELECT * FROM ${historic(log.logName)} WHERE ${where})`)}))`;
  const same = (side: string): string =>
    sameKey(
      keys.map(
        (index): KeyPair => [`before.v${index}`, `${side}.v${index}`, columns[index]?.type ?? 'string'],
      ),
    );
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
    LEFT JOIN (SELECT ${live.join(', ')}, TRUE AS is_there FROM ${sourceOf(log)}) AS newest ON ${same('newest')}`;
}

function differs(values: readonly number[]): string {
  const columns = values.map((index) => `b${index} IS DISTINCT FROM a${index}`);
  return columns.length === 0 ? 'FALSE' : `(${columns.join(' OR ')})`;
}

/** Counts the rows that lead from the one state to the other. */
export async function countDiff(engine: Engine, compared: Compared): Promise<RowDifference> {
  const count = (change: string): string => `count(*) FILTER (change = '${change}')`;
  const [row = []] = await engine.rows(
    `SELECT ${['added', 'changed', 'removed'].map(count).join(', ')} FROM (${selectDiff(compared)})`,
  );
  return { added: numberAt(row, 0), changed: numberAt(row, 1), removed: numberAt(row, 2) };
}
