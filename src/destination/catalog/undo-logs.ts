/** The names and the shape of undo logs, which are the same in every destination. Pure. */

import { createHash } from 'node:crypto';
import { MAX_TABLE_NAME_BYTES } from '../../model/naming.ts';
import type { ColumnType } from '../../model/records.ts';
import { identifier, integer } from '../../staging/engine/sql.ts';

/** Which datasets keep their history, and for how long. */
export interface HistoryOptions {
  /** Returns whether the dataset is one whose commits can be undone, and whose earlier states can be read. */
  keeps(datasetId: string): boolean;
  /** States that ended longer ago are forgotten. */
  readonly keepMs: number;
}

export const NO_HISTORY: HistoryOptions = { keeps: () => false, keepMs: Number.POSITIVE_INFINITY };

/** A transaction deletes the entries of further commits until it has deleted so many: a reader waits for no more. */
export const MAX_PRUNED_AT_ONCE = 100_000;

/** The version that a commit brings. */
export interface CommittedVersion {
  readonly version: number;
  readonly publishedAt: Date | null;
}

/** The commit whose entries are written. */
export interface LoggedCommit {
  readonly commitNumber: number;
  readonly version: number;
  readonly publishedAt: Date | null;
  readonly appliedAt: Date;
}

/** A column of a table with history. */
export interface LoggedColumn {
  readonly columnName: string;
  readonly type: ColumnType;
  readonly role: 'key' | 'data' | 'envelope';
}

/** A table with history. */
export interface LoggedTable {
  readonly datasetId: string;
  readonly tableName: string;
  readonly columns: readonly LoggedColumn[];
}

/** The columns of a log before those of its table, with their types. */
export const OWN_COLUMNS = [
  ['_commit', 'integer'],
  ['_operation', 'string'],
  ['_version', 'integer'],
  ['_published_at', 'timestamp'],
  ['_applied_at', 'timestamp'],
] as const satisfies readonly (readonly [name: string, type: ColumnType])[];

const OWN_NAME = new RegExp(`^(?:${OWN_COLUMNS.map(([name]) => name).join('|')})(?:_2)*$`, 'i');

/** No two columns of a table get the same name in its log. */
function columnInLog(columnName: string): string {
  return OWN_NAME.test(columnName) ? `${columnName}_2` : columnName;
}

/** Returns the columns of the log of a table with these columns. */
export function logColumns(
  columns: readonly LoggedColumn[],
): readonly (readonly [name: string, type: ColumnType])[] {
  return [...OWN_COLUMNS, ...columns.map(({ columnName, type }) => [columnInLog(columnName), type] as const)];
}

/** Returns the quoted name that a column of the table has in the log. */
export function nameInLog(columnName: string): string {
  return identifier(columnInLog(columnName));
}

/** Where a frozen table and its log are. */
export interface Frozen {
  readonly schema: string;
  readonly name: string;
  /** As the catalog keeps names of logs. */
  readonly logName: string;
}

/** Returns the name of a log with its schema, for people. A log is in schema `history` unless the catalog says otherwise. */
export function shownLog(logName: string): string {
  return logName.includes('.') ? logName : `history.${logName}`;
}

/** Returns names in schema `history` for a table and its log that a commit freezes. */
export function frozenNames(tableName: string, commitNumber: number, taken: ReadonlySet<string>): Frozen {
  const name = freeName(derivedName(tableName, `__${integer(commitNumber)}`), taken);
  const logName = freeName(
    derivedName(tableName, `__${integer(commitNumber)}_log`),
    new Set([...taken, name]),
  );
  return { schema: 'history', name, logName };
}

/** Returns the name with `_2`, `_3`, … where it is taken. */
export function freeName(name: string, taken: ReadonlySet<string>): string {
  for (let number = 2, free = name; ; number += 1) {
    if (!taken.has(free)) return free;
    free = derivedName(name, `_${number}`);
  }
}

/** Returns the name with the ending, cut as names of tables are: a name that is cut gets a digest of the whole. */
export function derivedName(name: string, ending: string): string {
  if (name.length + ending.length <= MAX_TABLE_NAME_BYTES) return `${name}${ending}`;
  const digest = `_${createHash('sha256').update(name).digest('hex').slice(0, 8)}`;
  return `${name.slice(0, MAX_TABLE_NAME_BYTES - digest.length - ending.length)}${digest}${ending}`;
}

/** Returns the names of the functions of a log: for a time, and for a commit. */
export function macroNames(logName: string): readonly [string, string] {
  return [derivedName(logName, '_as_of'), derivedName(logName, '_as_of_commit')];
}

/** Returns SQL for why a log begins where it does: null unless it was closed there. `log` stands before the names of the columns. */
export function reasonOfBeginning(log: '' | 'log.' | 'logs.'): string {
  return `CASE WHEN ${log}closed_commit >= ${log}first_commit THEN ${log}closed_reason END`;
}
