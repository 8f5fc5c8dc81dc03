/**
 * Writes rows into a table that is there, in place: DELETE what was removed, UPDATE what changed, INSERT what was added. A row that
 * changed is never deleted, because a reader's foreign key may hang on it. Then proves what was written.
 */

import { identifier, numberAt } from '../../staging/engine/sql.ts';
import type { PlannedColumn } from '../../staging/snapshot/table-plan.ts';
import { type Checksum, checksumAt } from '../catalog/cells.ts';
import { type Named, qualified } from './catalog/names.ts';
import type { Transaction } from './connection.ts';
import { DIFFERENCE } from './difference.ts';
import { PostgresError } from './errors.ts';
import { columnNames, IS_PRESENT, sameKey, stageOf, type Target } from './stage.ts';
import { CHECKSUM_VERSION, rowHash, sumOfHashes } from './types.ts';

/** Follows the difference, row by row. @throws PostgresError */
export async function writeInPlace(transaction: Transaction, target: Target): Promise<void> {
  for (const statement of [deleteRemoved(target), updateChanged(target), insertAdded(target)]) {
    if (statement !== null) await transaction.run(statement);
  }
}

/** Replaces all rows. Rows without a key in common cannot be compared: all of them go, and all come. */
export async function replaceRows(transaction: Transaction, target: Target): Promise<void> {
  const list = columnNames(target.columns).join(', ');
  await transaction.run(`DELETE FROM ${qualified(target)}`);
  await transaction.run(`INSERT INTO ${qualified(target)} (${list}) SELECT ${list} FROM ${stageOf(target)}`);
}

/** Returns whether two rows have one key. A table that has lost its index of the key may hold rows with one key. */
export async function hasRepeatedKey(transaction: Transaction, target: Target): Promise<boolean> {
  const keys = columnNames(target.columns.filter(({ role }) => role === 'key'));
  const repeated = `SELECT 1 FROM ${qualified(target)} GROUP BY ${keys.join(', ')} HAVING count(*) > 1 LIMIT 1`;
  return (await transaction.rows(repeated)).length > 0;
}

function deleteRemoved(target: Target): string {
  return `DELETE FROM ${qualified(target)} AS t USING ${DIFFERENCE} AS d
    WHERE ${isRowOf(target)} AND d.operation = 'removed'`;
}

/** Null for a table of keys alone. */
function updateChanged(target: Target): string | null {
  const values = target.columns.filter(({ role }) => role !== 'key');
  if (values.length === 0) return null;
  const set = values.map(({ columnName }) => `${identifier(columnName)} = s.${identifier(columnName)}`);
  const isStaged = target.isDistributed ? sameKey(target.columns) : 's.ctid = d.staged';
  return `UPDATE ${qualified(target)} AS t SET ${set.join(', ')}
    FROM ${DIFFERENCE} AS d, ${stageOf(target)} AS s
    WHERE ${isRowOf(target)} AND ${isStaged} AND d.operation = 'changed'`;
}

/** The condition that `d` is about the row `t`. The server sends no address of a row to the node that has it. */
function isRowOf({ isDistributed, columns }: Target): string {
  if (!isDistributed) return 't.ctid = d.place';
  const keys = columns.flatMap(({ role, columnName }, index) =>
    role === 'key' ? [`t.${identifier(columnName)} = d.v${index}`] : [],
  );
  return keys.join(' AND ');
}

function insertAdded(target: Target): string {
  const names = columnNames(target.columns);
  const values = names.map((name) => `s.${name}`);
  return `INSERT INTO ${qualified(target)} (${names.join(', ')}) SELECT ${values.join(', ')}
    FROM ${DIFFERENCE} AS d JOIN ${stageOf(target)} AS s ON s.ctid = d.staged WHERE d.operation = 'added'`;
}

type HashedColumn = Pick<PlannedColumn, 'columnName' | 'type'>;

export interface Content {
  readonly rowCount: number;
  readonly checksum: Checksum;
}

export function isSameContent(one: Content, other: Content): boolean {
  return one.rowCount === other.rowCount && one.checksum.sum === other.checksum.sum;
}

/** Reads every row. `table` is SQL. */
export async function readContent(
  transaction: Transaction,
  table: string,
  columns: readonly HashedColumn[],
): Promise<Content> {
  const [row = []] = await transaction.rows(
    `SELECT count(*), ${sumOfHashes(hashOf(columns))}, ${CHECKSUM_VERSION} FROM ${table} AS t`,
  );
  return { rowCount: numberAt(row, 0), checksum: checksumAt(row, 1) };
}

/** Reads the rows of the table whose keys are in the net change. */
export async function readTouched(transaction: Transaction, target: Target): Promise<Content> {
  const { columns } = target;
  return await readContent(
    transaction,
    `(SELECT t.* FROM ${qualified(target)} AS t JOIN ${stageOf(target)} AS s ON ${sameKey(columns)})`,
    columns,
  );
}

/** Reads the rows of a staged net change that are in the table afterwards. */
export async function readPresent(transaction: Transaction, target: Target): Promise<Content> {
  const present = `(SELECT s.* FROM ${stageOf(target)} AS s WHERE s.${IS_PRESENT})`;
  return await readContent(transaction, present, target.columns);
}

/** Returns the error where the rows of the table are not those that were written. */
export function rowsAltered({ schemaName, tableName }: Named): PostgresError {
  return new PostgresError(
    'depended-on',
    `a trigger, a rule or a policy alters the rows that are written into ${schemaName}.${tableName}`,
    null,
  );
}

/** Returns a query for the hashes of all rows, as `h`. `table` is SQL. */
export function selectHashes(table: string, columns: readonly HashedColumn[]): string {
  return `SELECT ${hashOf(columns)} AS h FROM ${table} AS t`;
}

export async function countRows(transaction: Transaction, named: Named): Promise<number> {
  return numberAt((await transaction.rows(`SELECT count(*) FROM ${qualified(named)}`))[0] ?? [], 0);
}

function hashOf(columns: readonly HashedColumn[]): string {
  return rowHash(columns.map(({ columnName, type }) => [`t.${identifier(columnName)}`, type] as const));
}
