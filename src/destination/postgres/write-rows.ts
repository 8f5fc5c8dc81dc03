/**
 * Writes rows into a table that is there, in place: DELETE what was removed, UPDATE what changed, INSERT what was added. A row that
 * changed is never deleted, because a reader's foreign key may hang on it. Then proves what was written.
 */

import type { Counts } from '../../model/records.ts';
import { identifier, numberAt } from '../../staging/engine/sql.ts';
import { type Named, qualified } from './catalog/names.ts';
import type { Transaction } from './connection.ts';
import { type Content, readContent } from './content.ts';
import { DIFFERENCE } from './difference.ts';
import { PostgresError } from './errors.ts';
import { changeable, columnNames, sameKey, stageOf, type Target } from './stage.ts';

/** Rows are no longer where the difference found them. */
class MovedRowsError extends PostgresError {
  constructor({ schemaName, tableName }: Named) {
    super('conflict', `another session has written rows of ${schemaName}.${tableName} meanwhile`, null);
  }
}

/**
 * Follows the difference, row by row. With `isProven` a row that is missed is left to the proof, which names what else may keep it as
 * it was: a trigger, a rule. @throws PostgresError; a conflict where a row is missed
 */
export async function writeInPlace(
  transaction: Transaction,
  target: Target,
  { removed, changed }: Counts,
  isProven: boolean,
): Promise<void> {
  const deleted = await transaction.run(deleteRemoved(target));
  const update = updateChanged(target);
  const updated = update === null ? changed : await transaction.run(update);
  if (!isProven && (deleted < removed || updated < changed)) throw new MovedRowsError(target);
  await transaction.run(insertAdded(target));
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
  const names = columnNames(changeable(target.columns));
  if (names.length === 0) return null;
  const update = (values: readonly string[]): string =>
    `UPDATE ${qualified(target)} AS t SET ${names.map((name, index) => `${name} = s.${values[index]}`).join(', ')}`;
  if (target.isDistributed) {
    return `${update(names)} FROM ${DIFFERENCE} AS d, ${stageOf(target)} AS s
      WHERE ${isRowOf(target)} AND ${sameKey(target.columns)} AND d.operation = 'changed'`;
  }
  // In the order of the table each of its pages is read and written once. A column may be called as the address is.
  const values = names.map((_, index) => `v${index}`);
  const staged = names.map((name, index) => `staged.${name} AS ${values[index]}`);
  return `${update(values)} FROM (SELECT d.place, ${staged.join(', ')}
      FROM ${DIFFERENCE} AS d JOIN ${stageOf(target)} AS staged ON staged.ctid = d.staged
      WHERE d.operation = 'changed' ORDER BY d.place) AS s
    WHERE t.ctid = s.place`;
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

/** Reads the rows of the table whose keys are in the net change. */
export async function readTouched(transaction: Transaction, target: Target): Promise<Content> {
  const { columns } = target;
  return await readContent(
    transaction,
    `(SELECT t.* FROM ${qualified(target)} AS t JOIN ${stageOf(target)} AS s ON ${sameKey(columns)})`,
    columns,
  );
}

/** Returns the error where the rows of the table are not those that were written. */
export function rowsAltered({ schemaName, tableName }: Named): PostgresError {
  return new PostgresError(
    'depended-on',
    `a trigger, a rule or a policy alters the rows that are written into ${schemaName}.${tableName}, or another session writes there`,
    null,
  );
}

export async function countRows(transaction: Transaction, named: Named): Promise<number> {
  return numberAt((await transaction.rows(`SELECT count(*) FROM ${qualified(named)}`))[0] ?? [], 0);
}
