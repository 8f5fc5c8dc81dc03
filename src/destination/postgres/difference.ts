/**
 * The difference between a table and the rows that are staged, as one temporary table: a row for each key that the commit adds, changes
 * or removes, with its operation, where the row is in the table and in the stage, and the row as it was. The gate counts it, the
 * statements in place follow it, the undo log and a repair take the old rows from it. That of a net change has all of its keys, and the
 * hashes of their rows before and afterwards, so that one join serves them all.
 *
 * Invariant: between the difference and the statements that follow it nothing moves a row, so that their addresses hold: the table is
 * read in the same transaction, which keeps a rewrite of the table out.
 */

import { MAX_SHOWN_KEYS } from '../../model/gate.ts';
import type { Counts } from '../../model/records.ts';
import { identifier, numberAt, textAt } from '../../staging/engine/sql.ts';
import type { PlannedColumn } from '../../staging/snapshot/table-plan.ts';
import { type KeyStatements, MAX_KEY_CHARACTERS } from '../judge-commit.ts';
import { qualified } from './catalog/names.ts';
import type { Transaction } from './connection.ts';
import { type Content, contentAt, contentOf, hashOf } from './content.ts';
import { changeable, IS_PRESENT, sameKey, stageOf, type Target } from './stage.ts';
import { differs } from './types.ts';

/**
 * Its columns: `operation`, `place` and `staged` (addresses), `is_counted`, and `v0`, `v1`, … in the order of the table's columns; of a
 * net change also `hashes`, of the row before and of the staged one, null where there is none: five beside those of the table, which the
 * greatest number of columns leaves.
 */
export const DIFFERENCE = identifier('feed-sync: difference');

/** As SQL. The condition of the rows that differ: those of a net change may be as they were. */
export const DIFFERS = "operation <> 'unchanged'";

export interface Difference extends Counts {
  /** The changed rows that differ in a column which the table had before. */
  readonly changedBefore: number;
  /** Null where the stage is no net change. */
  readonly contents: NetContents | null;
}

/** The content of the rows whose keys are in a net change. */
export interface NetContents {
  /** That of the table, in the columns of the target; null where it lacks one. */
  readonly before: Content | null;
  /** That of the stage: the rows that are there afterwards. */
  readonly staged: Content;
}

export interface Differing {
  readonly target: Target;
  /** The names of the columns that the table has now, with the types that they are to have. The others are null in all of its rows. */
  readonly known: ReadonlySet<string>;
  /** Whether the values of changed and removed rows are kept as they were; the keys are kept always. */
  readonly keepsRows: boolean;
}

/** The memory for the hashes of one join. */
const JOIN_MEMORY = '64MB';

/** Compares the stage with the table, which has the columns of the key. @throws PostgresError */
export async function createDifference(transaction: Transaction, differing: Differing): Promise<Difference> {
  const back = differing.keepsRows ? ['SAVEPOINT difference'] : [];
  await transaction.runAll([`SET LOCAL work_mem = '${JOIN_MEMORY}'`, ...back]);
  await transaction.run(
    `CREATE TEMPORARY TABLE ${DIFFERENCE} ON COMMIT DROP AS ${selectDifference(differing)}`,
  );
  await transaction.run(`ANALYZE ${DIFFERENCE}`);
  const of = (operation: string): string => `count(*) FILTER (WHERE operation = '${operation}')`;
  const counts = [...['added', 'changed', 'removed'].map(of), 'count(*) FILTER (WHERE is_counted)'];
  const hashes = differing.target.isNet
    ? ['hashes[1]', 'hashes[2]'].map((hash) => contentOf(`count(${hash})`, hash))
    : [];
  const [row = []] = await transaction.rows(`SELECT ${[...counts, ...hashes].join(', ')} FROM ${DIFFERENCE}`);
  return {
    added: numberAt(row, 0),
    changed: numberAt(row, 1),
    removed: numberAt(row, 2),
    changedBefore: numberAt(row, 3),
    contents: differing.target.isNet
      ? { before: hasAll(differing) ? contentAt(row, 4) : null, staged: contentAt(row, 7) }
      : null,
  };
}

/** Whether the table has all columns of the target, so that its rows are hashed as they will be. */
function hasAll({ target, known }: Differing): boolean {
  return target.columns.every(({ columnName }) => known.has(columnName));
}

function selectDifference(differing: Differing): string {
  const { target, known, keepsRows } = differing;
  const { columns, isNet } = target;
  const values = columns.map((column, index) => `${valueBefore(column, known, keepsRows)} AS v${index}`);
  const differ = (some: readonly PlannedColumn[]): string => {
    const conditions = changeable(some).map((column) =>
      differs(nameBefore(column, known), `s.${identifier(column.columnName)}`, column.type),
    );
    return conditions.length === 0 ? 'false' : `(${conditions.join(' OR ')})`;
  };
  const isThere = 's.ctid IS NOT NULL AND t.ctid IS NOT NULL';
  const isPresent = isNet ? `s.${IS_PRESENT}` : 'true';
  const counted = differ(columns.filter(({ columnName }) => known.has(columnName)));
  const join = isNet
    ? `${stageOf(target)} AS s LEFT JOIN ${qualified(target)} AS t`
    : `${qualified(target)} AS t FULL JOIN ${stageOf(target)} AS s`;
  const isRemoved = isNet ? `NOT s.${IS_PRESENT}` : 's.ctid IS NULL';
  const operation = `CASE WHEN t.ctid IS NULL THEN 'added' WHEN ${isRemoved} THEN 'removed'
    ${isNet ? `WHEN NOT ${differ(columns)} THEN 'unchanged'` : ''} ELSE 'changed' END`;
  const isKept = isNet ? 't.ctid IS NOT NULL' : `t.ctid IS NOT NULL AND (${isRemoved} OR ${differ(columns)})`;
  return `SELECT ${operation} AS operation,
      t.ctid AS place, s.ctid AS staged, ${isThere} AND ${isPresent} AND ${counted} AS is_counted, ${values.join(', ')}
      ${isNet ? `, ${selectNetHashes(differing)}` : ''}
    FROM ${join} ON ${sameKey(columns)}
    WHERE (t.ctid IS NULL AND ${isPresent}) OR (${isKept})`;
}

function selectNetHashes(differing: Differing): string {
  const { columns } = differing.target;
  const before = hasAll(differing) ? `CASE WHEN t.ctid IS NOT NULL THEN ${hashOf('t', columns)} END` : 'NULL';
  return `ARRAY[${before}::numeric, CASE WHEN s.${IS_PRESENT} THEN ${hashOf('s', columns)} END] AS hashes`;
}

/** A value that goes into a table of its own leaves so many bytes in the row. */
const BYTES_OF_A_POINTER = 18;

/**
 * Returns the key of the longest row that was to be kept, as texts in the order of the key's columns, after a statement has failed: the
 * table is as it was before the difference. Null without such a row.
 */
export async function findLongestKept(
  transaction: Transaction,
  differing: Differing,
): Promise<readonly string[] | null> {
  const { columns } = differing.target;
  await transaction.run('ROLLBACK TO SAVEPOINT difference');
  const keys = columns.flatMap(({ role }, index) =>
    role === 'key' ? [`left(v${index}::text, ${MAX_KEY_CHARACTERS})`] : [],
  );
  const sizes = columns.map(
    (_, index) => `least(coalesce(pg_column_size(v${index}), 0), ${BYTES_OF_A_POINTER})`,
  );
  const [row] =
    await transaction.rows(`SELECT ${keys.join(', ')} FROM (${selectDifference(differing)}) AS difference
    WHERE place IS NOT NULL AND ${DIFFERS}
    ORDER BY (SELECT sum(size) FROM unnest(ARRAY[${sizes.join(', ')}]) AS size) DESC, ${keys.join(', ')} LIMIT 1`);
  return row?.map((_, index) => textAt(row, index)) ?? null;
}

function nameBefore({ columnName, type }: PlannedColumn, known: ReadonlySet<string>): string {
  return known.has(columnName) ? `t.${identifier(columnName)}` : nullOf(type);
}

/** The server takes the type of a null from where it stands, and the text of a document from a document alone. */
function nullOf(type: PlannedColumn['type']): string {
  if (type === 'json') return 'NULL::jsonb';
  return type === 'number' ? 'NULL::double precision' : 'NULL';
}

function valueBefore(column: PlannedColumn, known: ReadonlySet<string>, keepsRows: boolean): string {
  const name = identifier(column.columnName);
  if (column.role === 'key') return `CASE WHEN t.ctid IS NULL THEN s.${name} ELSE t.${name} END`;
  // A null of the stage's type.
  if (!keepsRows || !known.has(column.columnName)) return `CASE WHEN false THEN s.${name} END`;
  return `t.${name}`;
}

/** Returns statements for `readShownKeys`. */
export function lowestKeys({ columns }: Target): KeyStatements {
  const keys = columns.flatMap(({ role, type }, index) =>
    role === 'key' ? [{ name: `v${index}`, type }] : [],
  );
  const shown = keys.map(({ name }) => `left(${name}::text, ${MAX_KEY_CHARACTERS})`);
  const order = keys.map(({ name, type }) => (type === 'string' ? `${name} COLLATE "C"` : name));
  const lowest = (where: string): string =>
    `SELECT ${shown.join(', ')} FROM ${DIFFERENCE} WHERE ${where} ORDER BY ${order.join(', ')} LIMIT ${MAX_SHOWN_KEYS}`;
  return {
    added: lowest("operation = 'added'"),
    changed: lowest('is_counted'),
    removed: lowest("operation = 'removed'"),
  };
}
