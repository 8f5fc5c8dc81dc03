/**
 * The rows that commits added, changed and removed, from the undo log, as SQL that DuckDB and PostgreSQL take alike: the state of a key
 * before them is its first entry among them, its state after them its first later entry, or else its row in the table. A key that ends
 * as it began is left out. Pure.
 */

import type { RowDifference } from '../../model/commits.ts';
import type { ColumnType } from '../../model/records.ts';
import type { Row } from '../../staging/engine/engine.ts';
import { identifier, integer, type KeyPair, numberAt } from '../../staging/engine/sql.ts';
import type { Compared } from './compare-states.ts';
import { nameInLog } from './undo-logs.ts';

/** The expressions in which the SQL of destinations differs. All arguments and answers but types are SQL. */
export interface DiffDialect {
  /** Returns a query for the earliest entry of each key among those for which `where` is true. */
  earliest(compared: Compared, where: string): string;
  /** Returns the table of the newest state. */
  source(compared: Compared): string;
  sameKey(pairs: readonly KeyPair[]): string;
  differs(left: string, right: string, type: ColumnType): string;
  /** Returns the part of a key by which rows are sorted. */
  inOrder(value: string, type: ColumnType): string;
}

/**
 * Returns a query for the rows in the order of their keys: the change, the key, the other columns before, and the same after.
 */
export function selectDiff(compared: Compared, dialect: DiffDialect): string {
  const { columns, from, to } = compared;
  const typed = columns.map(({ role, type }, index) => ({ isKey: role === 'key', type, index }));
  const [keys, values] = [typed.filter(({ isKey }) => isKey), typed.filter(({ isKey }) => !isKey)];
  const [was, is] = from.commitNumber <= to.commitNumber ? ['b', 'a'] : ['a', 'b'];
  const change = `CASE WHEN NOT ${was}_exists THEN 'added' WHEN NOT ${is}_exists THEN 'removed' ELSE 'changed' END`;
  const order = keys.map(({ index, type }) => dialect.inOrder(`k${index}`, type));
  const differing = values.map(({ index, type }) => dialect.differs(`b${index}`, `a${index}`, type));
  const selected = [
    `${change} AS change`,
    ...keys.map(({ index }) => `k${index}`),
    ...[was, is].flatMap((side) => values.map(({ index }) => `${side}${index}`)),
  ];
  return `SELECT ${selected.join(', ')} FROM (${selectTouched(compared, dialect)}) AS touched
    WHERE (b_exists OR a_exists) AND (${['b_exists <> a_exists', ...differing].join(' OR ')}) ORDER BY ${order.join(', ')}`;
}

/** Every key that the commits touched, with its values before and after them. */
function selectTouched(compared: Compared, dialect: DiffDialect): string {
  const { columns, from, to } = compared;
  const first = integer(Math.min(from.commitNumber, to.commitNumber));
  const last = integer(Math.max(from.commitNumber, to.commitNumber));
  const logged = columns.map(({ columnName }, index) => `${nameInLog(columnName)} AS v${index}`);
  const live = columns.map(({ columnName }, index) => `${identifier(columnName)} AS v${index}`);
  const earliest = (where: string): string => `(SELECT ${logged.join(', ')}, _operation <> 'added' AS is_there
    FROM (${dialect.earliest(compared, where)}) AS earliest)`;
  const same = (side: string): string =>
    dialect.sameKey(
      columns.flatMap(({ role, type }, index): readonly KeyPair[] =>
        role === 'key' ? [[`before.v${index}`, `${side}.v${index}`, type]] : [],
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
    LEFT JOIN (SELECT ${live.join(', ')}, TRUE AS is_there FROM ${dialect.source(compared)}) AS newest ON ${same('newest')}`;
}

/** Returns a query for `rowDifferenceAt`. `diff` is that of `selectDiff`. */
export function countDiffs(diff: string): string {
  const count = (change: string): string => `count(*) FILTER (WHERE change = '${change}')`;
  return `SELECT ${['added', 'changed', 'removed'].map(count).join(', ')} FROM (${diff}) AS differing`;
}

export function rowDifferenceAt(row: Row): RowDifference {
  return { added: numberAt(row, 0), changed: numberAt(row, 1), removed: numberAt(row, 2) };
}
