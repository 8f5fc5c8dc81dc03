/**
 * The past of a table: an undo log in schema `history` holds, for each commit, the rows that it changed or removed as they were, and
 * the keys that it added. The table itself stays as it is. Its state after an earlier commit is: the rows whose keys no later commit
 * touched, and of the other keys the row that their earliest later entry holds, none where that entry says `added`.
 *
 * Invariants: a commit writes its entries in its own transaction. A log never leaves out a commit in silence: a commit that could
 * not be logged closes the log for everything before it, with the reason. A table that gets other columns is frozen with its log,
 * and a new log begins.
 */

import { createHash } from 'node:crypto';
import { MAX_TABLE_NAME_BYTES } from '../../model/naming.ts';
import type { ColumnType } from '../../model/records.ts';
import type { Engine } from '../../staging/engine/engine.ts';
import {
  identifier,
  integer,
  type KeyPair,
  sameKey,
  text,
  textAt,
  timestamp,
} from '../../staging/engine/sql.ts';
import { DUCKDB_TYPES } from '../../staging/snapshot/casts.ts';
import {
  catalogTable,
  createHistory,
  historic,
  MIRROR,
  mirrored,
  selectTableNames,
} from './catalog/schema.ts';
import type { LoggedRows } from './write-net-change.ts';

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

/** The columns of a log before those of its table. */
const OWN_COLUMNS = ['_commit', '_operation', '_version', '_published_at', '_applied_at'] as const;
const OWN_TYPES = ['BIGINT', 'VARCHAR', 'BIGINT', 'TIMESTAMPTZ', 'TIMESTAMPTZ'];
const OWN_NAME = new RegExp(`^(?:${OWN_COLUMNS.join('|')})(?:_2)*$`, 'i');

/** No two columns of a table get the same name in its log. */
function columnInLog(columnName: string): string {
  return OWN_NAME.test(columnName) ? `${columnName}_2` : columnName;
}

/** Returns the names of the logs of these datasets' live tables, by dataset id. */
export async function readLogNames(
  engine: Engine,
  datasetIds: readonly string[],
): Promise<ReadonlyMap<string, string>> {
  if (datasetIds.length === 0) return new Map();
  const rows = await engine.rows(`SELECT dataset_id, log_name FROM ${catalogTable('history_logs')}
    WHERE frozen_commit IS NULL AND dataset_id IN (${datasetIds.map(text).join(', ')})`);
  return new Map(rows.map((row) => [textAt(row, 0), textAt(row, 1)]));
}

/** Returns the statements that begin the log of a table whose state after `first` is known. */
export function beginLog(
  table: LoggedTable,
  logName: string,
  first: { readonly commitNumber: number; readonly appliedAt: Date },
): readonly string[] {
  const own = OWN_COLUMNS.map((name, index) => `${identifier(name)} ${OWN_TYPES[index]}`);
  const columns = table.columns.map(
    ({ columnName, type }) => `${nameInLog(columnName)} ${DUCKDB_TYPES[type]}`,
  );
  const row = [
    text(table.datasetId),
    text(logName),
    text(`main.${table.tableName}`),
    integer(first.commitNumber),
    timestamp(first.appliedAt),
  ];
  return [
    createHistory(),
    `CREATE TABLE ${historic(logName)} (${[...own, ...columns].join(', ')})`,
    `INSERT INTO ${catalogTable('history_logs')} (dataset_id, log_name, table_name, first_commit, first_time)
      VALUES (${row.join(', ')})`,
    ...asOfMacros({ ...table, logName, source: `main.${identifier(table.tableName)}` }),
  ];
}

/** Returns the statements that write the entries of a commit. */
export function logCommit(logName: string, commit: LoggedCommit, rows: LoggedRows): readonly string[] {
  const own = [
    integer(commit.commitNumber),
    'operation',
    integer(commit.version),
    timestamp(commit.publishedAt),
    timestamp(commit.appliedAt),
  ];
  const values = rows.columns.map((_, index) => `v${index}`);
  const target = [...OWN_COLUMNS.map(identifier), ...rows.columns.map(nameInLog)].join(', ');
  return [rows.selectOld, rows.selectAdded].map(
    (select) => `INSERT INTO ${historic(logName)} (${target})
      SELECT ${[...own, ...values].join(', ')} FROM (${select}) AS entries(${['operation', ...values].join(', ')})`,
  );
}

/** Returns the quoted name that a column of the table has in the log. */
export function nameInLog(columnName: string): string {
  return identifier(columnInLog(columnName));
}

/** Returns the statements that add columns of the table to its log. */
export function addToLog(logName: string, added: readonly LoggedColumn[]): readonly string[] {
  return added.map(
    ({ columnName, type }) =>
      `ALTER TABLE ${historic(logName)} ADD COLUMN ${nameInLog(columnName)} ${DUCKDB_TYPES[type]}`,
  );
}

/** Returns the statements that close a log before a commit that it lacks. Its earlier entries lead nowhere and are deleted. */
export function closeLog(
  logName: string,
  { commitNumber, appliedAt }: Pick<LoggedCommit, 'commitNumber' | 'appliedAt'>,
  reason: string,
): readonly string[] {
  return [
    `DELETE FROM ${historic(logName)} WHERE _commit <= ${integer(commitNumber)}`,
    `UPDATE ${catalogTable('history_logs')}
      SET closed_commit = ${integer(commitNumber)}, closed_time = ${timestamp(appliedAt)}, closed_reason = ${text(reason)}
      WHERE log_name = ${text(logName)}`,
  ];
}

/**
 * Returns the statements that freeze a log: the table gets other columns, or retires. `frozen` says where the rows of the old
 * columns and their log are from then on; null keeps neither.
 */
export function freezeLog(
  table: LoggedTable,
  logName: string,
  commitNumber: number,
  frozen: Frozen | null,
): readonly string[] {
  if (frozen === null) return dropLog(logName);
  const { schema, name, logName: frozenLog } = frozen;
  return [
    ...dropMacros(logName),
    `ALTER TABLE ${historic(logName)} RENAME TO ${identifier(frozenLog)}`,
    `UPDATE ${catalogTable('history_logs')} SET log_name = ${text(frozenLog)}, table_name = ${text(`${schema}.${name}`)},
      frozen_commit = ${integer(commitNumber)} WHERE log_name = ${text(logName)}`,
    ...asOfMacros({ ...table, logName: frozenLog, source: `${identifier(schema)}.${identifier(name)}` }),
  ];
}

/** Returns the statements that end a log with everything that it holds. */
export function dropLog(logName: string): readonly string[] {
  return [
    ...dropMacros(logName),
    `DROP TABLE ${historic(logName)}`,
    `DELETE FROM ${catalogTable('history_logs')} WHERE log_name = ${text(logName)}`,
  ];
}

/** Where a frozen table and its log are. */
export interface Frozen {
  readonly schema: 'history' | 'archived';
  readonly name: string;
  /** In schema `history`. */
  readonly logName: string;
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

/** Returns the names of all tables and views in schema `history`. */
export async function namesInHistory(engine: Engine): Promise<ReadonlySet<string>> {
  return new Set((await engine.rows(selectTableNames('history'))).map((row) => textAt(row, 0)));
}

/** Returns the name with `_2`, `_3`, … where it is taken. */
export function freeName(name: string, taken: ReadonlySet<string>): string {
  for (let number = 2, free = name; ; number += 1) {
    if (!taken.has(free)) return free;
    free = derivedName(name, `_${number}`);
  }
}

/** Returns the name with the ending, cut as names of tables are: a name that is cut gets a digest of the whole. */
function derivedName(name: string, ending: string): string {
  if (name.length + ending.length <= MAX_TABLE_NAME_BYTES) return `${name}${ending}`;
  const digest = `_${createHash('sha256').update(name).digest('hex').slice(0, 8)}`;
  return `${name.slice(0, MAX_TABLE_NAME_BYTES - digest.length - ending.length)}${digest}${ending}`;
}

/** Copies the table with the old columns, before it is replaced. */
export function copyFrozen(tableName: string, { name }: Frozen): string {
  return `CREATE TABLE ${historic(name)} AS SELECT * FROM ${mirrored(tableName)}`;
}

/** Stands for a retired table that is kept in its place, under the name of a copy. */
export function viewFrozen(tableName: string, { name }: Frozen): readonly string[] {
  return insideMirror([`CREATE VIEW ${historic(name)} AS SELECT * FROM main.${identifier(tableName)}`]);
}

/** Returns the statements that put copies in the place of such views, because a load replaces the kept table. */
export async function freezeKept(engine: Engine, tableName: string): Promise<readonly string[]> {
  const rows =
    await engine.rows(`SELECT view_name FROM duckdb_views() JOIN ${catalogTable('history_logs')} logs
      ON logs.table_name = 'history.' || view_name
    WHERE database_name = ${text(MIRROR)} AND schema_name = 'history' AND logs.dataset_id IN (
      SELECT dataset_id FROM ${catalogTable('names')} WHERE table_name = ${text(tableName)})`);
  return rows.flatMap((row) => {
    const view = historic(textAt(row, 0));
    return [`DROP VIEW ${view}`, `CREATE TABLE ${view} AS SELECT * FROM ${mirrored(tableName)}`];
  });
}

/** A table with its log. */
interface AsOf extends LoggedTable {
  readonly logName: string;
  /** The table with the newest rows, as SQL without the name of the database: readers attach the file under names of their own. */
  readonly source: string;
}

/** Returns the statements that replace the functions which answer for an earlier time and for an earlier commit. */
export function asOfMacros(table: AsOf): readonly string[] {
  // A parameter stands for every column of its name.
  const asOf = freeName('as_of', new Set(table.columns.map(({ columnName }) => columnName.toLowerCase())));
  const log = `history.${identifier(table.logName)}`;
  const byTime = asOfQuery(table, log, 'time', `epoch_us(${asOf})`);
  const byCommit = asOfQuery(table, log, 'commit', asOf);
  const [timeMacro, commitMacro] = macroNames(table.logName);
  return insideMirror([
    `CREATE OR REPLACE MACRO ${historic(timeMacro)}(${asOf}) AS TABLE ${byTime}`,
    `CREATE OR REPLACE MACRO ${historic(commitMacro)}(${asOf}) AS TABLE ${byCommit}`,
  ]);
}

/**
 * Statements whose names have no database in them: readers attach the file under names of their own. DuckDB looks such names up
 * where the object is created, too.
 */
function insideMirror(statements: readonly string[]): readonly string[] {
  return [`USE ${identifier(MIRROR)}`, ...statements, 'USE memory'];
}

function dropMacros(logName: string): readonly string[] {
  return macroNames(logName).map((name) => `DROP MACRO TABLE ${historic(name)}`);
}

/** Returns the names of the functions of a log: for a time, and for a commit. */
export function macroNames(logName: string): readonly [string, string] {
  return [derivedName(logName, '_as_of'), derivedName(logName, '_as_of_commit')];
}

/** Returns a query for the table at the time. It names the database, so that a view may have the name of the table. */
export function asOfTime(table: LoggedTable, logName: string, time: Date): string {
  const asOf = { ...table, logName, source: mirrored(table.tableName) };
  return asOfQuery(asOf, historic(logName), 'time', `epoch_us(${timestamp(time)})`);
}

/** How an earlier state is named: by a time in microseconds, or by the number of a commit. */
type By = 'time' | 'commit';

/** What the log records of each entry that orders the states. */
const ORDERED: Readonly<Record<By, string>> = { time: 'epoch_us(_applied_at)', commit: '_commit' };

/** The earliest state that a log can restore. */
const FIRST: Readonly<Record<By, string>> = {
  time: 'epoch_us(greatest(first_time, closed_time))',
  commit: 'greatest(first_commit, closed_commit)',
};

/** `log` and `state` are SQL: the log, and the state in the form of `by`. */
function asOfQuery(table: AsOf, log: string, by: By, state: string): string {
  return stateQuery(table, log, `${ORDERED[by]} > ${state}`, guard(table.logName, by, state));
}

/** Returns a query for the state after a commit, which the log is known to cover. `source` is SQL. */
export function selectStateAfter(
  columns: readonly LoggedColumn[],
  { logName, source }: { readonly logName: string; readonly source: string },
  commitNumber: number,
): string {
  const table = { columns, source };
  return stateQuery(
    table,
    historic(logName),
    `_commit > ${integer(commitNumber)}`,
    '(SELECT TRUE AS is_known)',
  );
}

/** `isLater` is true of the entries after the state; `known` is a row that says that the log covers it. */
function stateQuery(
  { columns, source }: Pick<AsOf, 'columns' | 'source'>,
  log: string,
  isLater: string,
  known: string,
): string {
  const names = columns.map(({ columnName }) => `newest.${identifier(columnName)}`);
  const logged = columns.map(({ columnName }) => `${nameInLog(columnName)} AS ${identifier(columnName)}`);
  const keys = columns.filter(({ role }) => role === 'key');
  const pairs = keys.map(({ columnName, type }): KeyPair => {
    return [`newest.${identifier(columnName)}`, `later.${nameInLog(columnName)}`, type];
  });
  const later = `(SELECT * FROM ${log} WHERE ${isLater})`;
  return `SELECT ${names.join(', ')} FROM ${known} AS log,
      ${source} AS newest WHERE log.is_known AND NOT EXISTS (SELECT 1 FROM ${later} AS later WHERE ${sameKey(pairs)})
    UNION ALL SELECT ${logged.join(', ')} FROM (${earliestOf(columns, later)}) WHERE _operation <> 'added'`;
}

/** Returns a query for the earliest entry of each key. `entries` is SQL. */
export function earliestOf(columns: readonly LoggedColumn[], entries: string): string {
  const keys = columns.filter(({ role }) => role === 'key').map(({ columnName }) => nameInLog(columnName));
  return `SELECT * FROM ${entries} QUALIFY row_number() OVER (PARTITION BY ${keys.join(', ')} ORDER BY _commit) = 1`;
}

/** One row, or an error: a state from before the log begins is not known. */
function guard(logName: string, by: By, state: string): string {
  return `(SELECT CASE WHEN ${state} >= ${FIRST[by]} THEN TRUE ELSE error(
      'The history of ' || dataset_id || ' begins with commit ' || greatest(first_commit, closed_commit) || ' at ' ||
      greatest(first_time, closed_time) || coalesce(': ' || closed_reason, '') || '. Earlier states are not known.')
    END AS is_known FROM feed_sync.history_logs WHERE log_name = ${text(logName)})`;
}
