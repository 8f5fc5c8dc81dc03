/**
 * The past of a table: an undo log in schema `history` holds, for each commit, the rows that it changed or removed as they were, and
 * the keys that it added. The table itself stays as it is. Its state after an earlier commit is: the rows whose keys no later commit
 * touched, and of the other keys the row that their earliest later entry holds, none where that entry says `added`.
 *
 * Invariants: a commit writes its entries in its own transaction. A log never leaves out a commit in silence: a commit that could
 * not be logged closes the log for everything before it, with the reason. A table that gets other columns is frozen with its log,
 * and a new log begins.
 */

import type { Closing } from '../../../model/lost-past.ts';
import type { Engine } from '../../../staging/engine/engine.ts';
import {
  booleanAt,
  identifier,
  integer,
  type KeyPair,
  numberOrNullAt,
  sameKey,
  text,
  textAt,
  textOrNullAt,
  timestamp,
} from '../../../staging/engine/sql.ts';
import { DUCKDB_TYPES, TYPE_NAMES } from '../../../staging/snapshot/casts.ts';
import type { Checksum } from '../../catalog/cells.ts';
import {
  type Frozen,
  freeName,
  type LoggedColumn,
  type LoggedCommit,
  type LoggedTable,
  logColumns,
  macroNames,
  nameInLog,
  OWN_COLUMNS,
  reasonOfBeginning,
} from '../../catalog/undo-logs.ts';
import {
  catalogTable,
  createHistory,
  historic,
  MIRROR,
  mirrored,
  OUTSIDE_MIRROR,
  selectTableNames,
} from '../catalog/schema.ts';
import { CHECKSUM_VERSION, SUM_OF_ALL_HASHES } from '../checksum.ts';
import type { LoggedRows } from '../write-net-change.ts';

/** The log of a live table, as the catalog records it. */
export interface RecordedLog {
  readonly logName: string;
  /** Null where it was not recorded. */
  readonly rowCount: number | null;
  /** False: none was recorded, or one of another version of the hash. */
  readonly hasChecksum: boolean;
  readonly closing: Closing;
}

/** Returns the logs of these datasets' live tables, by dataset id. */
export async function readLogs(
  engine: Engine,
  datasetIds: readonly string[],
): Promise<ReadonlyMap<string, RecordedLog>> {
  if (datasetIds.length === 0) return new Map();
  const rows =
    await engine.rows(`SELECT dataset_id, log_name, row_count, checksum_version IS NOT DISTINCT FROM ${CHECKSUM_VERSION},
      closed_commit, closed_reason FROM ${catalogTable('history_logs')}
    WHERE frozen_commit IS NULL AND dataset_id IN (${datasetIds.map(text).join(', ')})`);
  return new Map(
    rows.map((row) => {
      const log = {
        logName: textAt(row, 1),
        rowCount: numberOrNullAt(row, 2),
        hasChecksum: booleanAt(row, 3),
        closing: { commitNumber: numberOrNullAt(row, 4), reason: textOrNullAt(row, 5) },
      };
      return [textAt(row, 0), log];
    }),
  );
}

/** Returns the statement that records how many entries a log has, and their checksum. */
export function recordEntries(logName: string): string {
  return updateLog(
    logName,
    'row_count = found.entries, checksum = found.hashes, checksum_version = found.hash_version',
  );
}

/** Returns the statement that records entries which were written, or are to be deleted. `which` is an SQL condition of them. */
function recordSome(logName: string, sign: '+' | '-', which: string): string {
  return updateLog(
    logName,
    `row_count = row_count ${sign} found.entries,
      checksum = CASE WHEN checksum_version = found.hash_version THEN checksum ${sign} found.hashes END`,
    ` WHERE ${which}`,
  );
}

function updateLog(logName: string, assignments: string, where = ''): string {
  return `UPDATE ${catalogTable('history_logs')} SET ${assignments}
    FROM (SELECT count(*) AS entries, ${SUM_OF_ALL_HASHES} AS hashes, ${CHECKSUM_VERSION} AS hash_version
      FROM ${historic(logName)}${where}) AS found WHERE log_name = ${text(logName)}`;
}

/** Returns the statements that begin the log of a table whose state after `first` is known. */
export function beginLog(
  table: LoggedTable,
  logName: string,
  first: { readonly commitNumber: number; readonly appliedAt: Date },
): readonly string[] {
  const row = [
    text(table.datasetId),
    text(logName),
    text(`main.${table.tableName}`),
    integer(first.commitNumber),
    timestamp(first.appliedAt),
  ];
  return [
    ...createLog(table, logName),
    `INSERT INTO ${catalogTable('history_logs')} (dataset_id, log_name, table_name, first_commit, first_time)
      VALUES (${row.join(', ')})`,
    recordEntries(logName),
  ];
}

/** Returns the statements that create an empty log with its functions, without its row in the catalog. */
export function createLog(
  table: LoggedTable,
  logName: string,
  source = `main.${identifier(table.tableName)}`,
): readonly string[] {
  const columns = typedLogColumns(table.columns).map(([name, type]) => `${identifier(name)} ${type}`);
  return [
    createHistory(),
    `CREATE TABLE ${historic(logName)} (${columns.join(', ')})`,
    ...asOfMacros({ ...table, logName, source }),
  ];
}

/** Returns the columns of the log of a table with these columns: names, and types as DuckDB names them. */
export function typedLogColumns(columns: readonly LoggedColumn[]): readonly (readonly [string, string])[] {
  return logColumns(columns).map(([name, type]) => [name, TYPE_NAMES[type]] as const);
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
  const target = [...OWN_COLUMNS.map(([name]) => identifier(name)), ...rows.columns.map(nameInLog)].join(
    ', ',
  );
  const inserts = [rows.selectOld, rows.selectAdded].map(
    (select) => `INSERT INTO ${historic(logName)} (${target})
      SELECT ${[...own, ...values].join(', ')} FROM (${select}) AS entries(${['operation', ...values].join(', ')})`,
  );
  return [...inserts, recordSome(logName, '+', `_commit = ${integer(commit.commitNumber)}`)];
}

/** Returns the statements that delete the entries up to a commit. */
export function deleteEntries(logName: string, commitNumber: number): readonly string[] {
  const which = `_commit <= ${integer(commitNumber)}`;
  return [recordSome(logName, '-', which), `DELETE FROM ${historic(logName)} WHERE ${which}`];
}

/** Returns the statements that add columns of the table to its log. */
export function addToLog(logName: string, added: readonly LoggedColumn[]): readonly string[] {
  if (added.length === 0) return [];
  const alterations = added.map(
    ({ columnName, type }) =>
      `ALTER TABLE ${historic(logName)} ADD COLUMN ${nameInLog(columnName)} ${DUCKDB_TYPES[type]}`,
  );
  return [...alterations, recordEntries(logName)];
}

/** Returns the statements that close a log before a commit that it lacks. Its earlier entries lead nowhere and are deleted. */
export function closeLog(
  logName: string,
  { commitNumber, appliedAt }: Pick<LoggedCommit, 'commitNumber' | 'appliedAt'>,
  reason: string,
): readonly string[] {
  return [
    ...deleteEntries(logName, commitNumber),
    `UPDATE ${catalogTable('history_logs')}
      SET closed_commit = ${integer(commitNumber)}, closed_time = ${timestamp(appliedAt)}, closed_reason = ${text(reason)}
      WHERE log_name = ${text(logName)}`,
  ];
}

/**
 * Returns the statements that freeze a log: the table gets other columns, or retires. `frozen` says where the rows of the old
 * columns and their log are from then on. `checksum` is that of the rows, as the catalog knows it.
 */
export function freezeLog(
  table: LoggedTable,
  logName: string,
  commitNumber: number,
  frozen: Frozen,
  checksum: Checksum | null,
): readonly string[] {
  const { schema, name, logName: frozenLog } = frozen;
  return [
    ...dropMacros(logName),
    `ALTER TABLE ${historic(logName)} RENAME TO ${identifier(frozenLog)}`,
    `UPDATE ${catalogTable('history_logs')} SET log_name = ${text(frozenLog)}, table_name = ${text(`${schema}.${name}`)},
      frozen_commit = ${integer(commitNumber)}, table_checksum = ${checksum === null ? 'NULL' : `${integer(checksum.sum)}::HUGEINT`},
      table_checksum_version = ${text(checksum?.version ?? null)} WHERE log_name = ${text(logName)}`,
    ...asOfMacros({ ...table, logName: frozenLog, source: `${identifier(schema)}.${identifier(name)}` }),
  ];
}

/** Returns the statements that end a log with everything that it holds. */
export function dropLog(logName: string): readonly string[] {
  return [
    ...dropMacros(logName),
    `DROP TABLE IF EXISTS ${historic(logName)}`,
    `DELETE FROM ${catalogTable('history_logs')} WHERE log_name = ${text(logName)}`,
  ];
}

/** Returns the names of all tables and views in schema `history`. */
export async function namesInHistory(engine: Engine): Promise<ReadonlySet<string>> {
  return new Set((await engine.rows(selectTableNames('history'))).map((row) => textAt(row, 0)));
}

/** Copies the table with the old columns, before it is replaced. A column that somebody added is none of them. */
export function copyFrozen({ tableName, columns }: LoggedTable, { name }: Frozen): string {
  const names = columns.map(({ columnName }) => identifier(columnName));
  return `CREATE TABLE ${historic(name)} AS SELECT ${names.join(', ')} FROM ${mirrored(tableName)}`;
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
export function insideMirror(statements: readonly string[]): readonly string[] {
  return [`USE ${identifier(MIRROR)}`, ...statements, OUTSIDE_MIRROR];
}

function dropMacros(logName: string): readonly string[] {
  return macroNames(logName).map((name) => `DROP MACRO TABLE IF EXISTS ${historic(name)}`);
}

/** Returns a query for the table at the time. It names the database, so that a view may have the name of the table. */
export function asOfTime(table: LoggedTable, logName: string, time: Date): string {
  const asOf = { ...table, logName, source: mirrored(table.tableName) };
  return asOfQuery(asOf, historic(logName), 'time', `epoch_us(${timestamp(time)})`);
}

/** How an earlier state is named: by a time in microseconds, or by the number of a commit. */
type By = 'time' | 'commit';

/** The columns of a log that order the states. */
const ORDERED: Readonly<Record<By, string>> = { time: 'epoch_us(_applied_at)', commit: '_commit' };

/** The earliest state that a log can restore. */
const FIRST: Readonly<Record<By, string>> = {
  time: 'epoch_us(greatest(first_time, closed_time))',
  commit: 'greatest(first_commit, closed_commit)',
};

/** `log` and `state` are SQL: the log, and the state in the form of `by`. */
function asOfQuery(table: AsOf, log: string, by: By, state: string): string {
  return stateQuery(table, log, `${ORDERED[by]} > ${state}`, guard(table.logName, log, by, state));
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

/** One row, or an error: a state from before the log begins is not known, and none where entries are missing. `log` is SQL. */
function guard(logName: string, log: string, by: By, state: string): string {
  return `(SELECT CASE WHEN log_name IS NULL THEN error(
      ${text(`feed_sync.history_logs does not list the undo log history.${logName}: its states are not known.`)})
      WHEN ${state} < ${FIRST[by]} THEN error(
      'The history of ' || dataset_id || ' begins with commit ' || greatest(first_commit, closed_commit) || ' at ' ||
      greatest(first_time, closed_time) || coalesce(': ' || ${reasonOfBeginning('')}, '') || '. Earlier states are not known.')
      WHEN row_count <> (SELECT count(*) FROM ${log}) THEN error(
      'The undo log history.' || log_name || ' of ' || dataset_id ||
      ' was dropped or altered outside feed-sync: its earlier states are not known.')
      ELSE TRUE END AS is_known
    FROM (SELECT 1) LEFT JOIN feed_sync.history_logs ON log_name = ${text(logName)})`;
}
