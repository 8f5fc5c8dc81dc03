/**
 * The statements of the undo logs, whose names and shape `../catalog/undo-logs.ts` gives, and of the functions that
 * return a table as of an earlier time or commit. The functions name every column and are made anew where a table gets further ones.
 *
 * Invariants: a commit writes its entries in its own transaction. A log never leaves out a commit in silence. The functions are text
 * that is planned when they are called, so that they hold no table fast.
 */

import type { ColumnType } from '../../../model/records.ts';
import { identifier, integer, text, textAt } from '../../../staging/engine/sql.ts';
import type { Checksum } from '../../catalog/cells.ts';
import {
  type CommittedVersion,
  derivedName,
  type Frozen,
  freeName,
  frozenNames,
  type LoggedColumn,
  type LoggedCommit,
  type LoggedTable,
  logColumns,
  macroNames,
  nameInLog,
  OWN_COLUMNS,
  reasonOfBeginning,
  shownLog,
} from '../../catalog/undo-logs.ts';
import {
  catalogTable,
  HISTORY_SCHEMA,
  historySchema,
  type Named,
  namedAs,
  type Place,
  qualified,
  recordedName,
} from '../catalog/names.ts';
import { selectTableNames, timeOf } from '../catalog/schema.ts';
import type { Transaction } from '../connection.ts';
import { DIFFERENCE, DIFFERS } from '../difference.ts';
import { CHECKSUM_VERSION, type Postgis, rowHash, searchPath, sumOfHashes, typeName } from '../types.ts';

/** Returns the SQL name of an undo log, or of a function or a frozen table of it, from its recorded name. */
export function historic(name: string): string {
  return qualified(namedAs(name, HISTORY_SCHEMA));
}

/** Returns the name without its schema, for a statement that names anew. */
function renamedTo(name: string): string {
  return identifier(namedAs(name, HISTORY_SCHEMA).tableName);
}

/** A log and the table that it leads back from. */
export interface Log {
  readonly logName: string;
  /** The table with the newest rows as SQL. */
  readonly source: string;
  readonly columns: readonly LoggedColumn[];
}

/** A table with history, in its place. */
export type PlacedTable = LoggedTable & Named;

export function liveLog(table: Named & Pick<LoggedTable, 'columns'>, logName: string): Log {
  return { logName, columns: table.columns, source: qualified(table) };
}

/** A commit, and the time at which it was made. */
interface At {
  readonly commitNumber: number;
  readonly appliedAt: Date;
}

/** Returns the statements that begin the log of a table whose state after `first` is known. */
export function beginLog(
  table: PlacedTable,
  logName: string,
  first: At,
  postgis: Postgis | null,
): readonly string[] {
  const { datasetId, schemaName, tableName, columns } = table;
  const source = text(`${schemaName}.${tableName}`);
  const row = [text(datasetId), text(logName), source, integer(first.commitNumber)];
  return [
    ...createLog(liveLog(table, logName), postgis),
    `INSERT INTO ${catalogTable('history_logs')} (dataset_id, log_name, table_name, first_commit, first_time)
      VALUES (${row.join(', ')}, ${timeOf(first.appliedAt)})`,
    recordEntries(logName, columns),
  ];
}

/** Returns the statements that create an empty log with its functions, without its row in the catalog. */
export function createLog(log: Log, postgis: Postgis | null): readonly string[] {
  const defined = logColumns(log.columns).map(
    ([name, type]) => `${identifier(name)} ${typeName(type, postgis)}`,
  );
  const table = historic(log.logName);
  return [
    `CREATE TABLE ${table} (${defined.join(', ')})`,
    // A publication of all tables needs to know the rows that are pruned.
    `ALTER TABLE ${table} REPLICA IDENTITY FULL`,
    `CREATE INDEX ON ${table} (_commit)`,
    ...createFunctions(log, postgis),
  ];
}

/** Returns the statements that write the entries of a commit from its difference. */
export function logCommit(
  logName: string,
  { commitNumber, appliedAt }: At,
  { version, publishedAt }: CommittedVersion,
  columns: readonly LoggedColumn[],
): readonly string[] {
  const own = [integer(commitNumber), 'operation', integer(version), timeOf(publishedAt), timeOf(appliedAt)];
  const values = columns.map((_, index) => `v${index}`);
  const target = [
    ...OWN_COLUMNS.map(([name]) => name),
    ...columns.map(({ columnName }) => nameInLog(columnName)),
  ];
  return [
    `INSERT INTO ${historic(logName)} (${target.join(', ')})
      SELECT ${[...own, ...values].join(', ')} FROM ${DIFFERENCE} WHERE ${DIFFERS}`,
    recordSome(logName, columns, '+', `_commit = ${integer(commitNumber)}`),
  ];
}

/** Returns the statement that records how many entries a log has, and their checksum. */
export function recordEntries(logName: string, columns: readonly LoggedColumn[]): string {
  return updateLog(
    logName,
    columns,
    'row_count = found.entries, checksum = found.hashes, checksum_version = found.hash_version',
  );
}

/** Returns the statement that records entries which were written, or are to be deleted. `which` is an SQL condition of them. */
function recordSome(
  logName: string,
  columns: readonly LoggedColumn[],
  sign: '+' | '-',
  which: string,
): string {
  const assignments = `row_count = row_count ${sign} found.entries,
    checksum = CASE WHEN checksum_version = found.hash_version THEN checksum ${sign} found.hashes END`;
  return updateLog(logName, columns, assignments, ` WHERE ${which}`);
}

function updateLog(
  logName: string,
  columns: readonly LoggedColumn[],
  assignments: string,
  where = '',
): string {
  return `UPDATE ${catalogTable('history_logs')} SET ${assignments}
    FROM (SELECT count(*) AS entries, ${sumOfHashes(hashOfEntry(columns))} AS hashes, ${CHECKSUM_VERSION} AS hash_version
      FROM ${historic(logName)} AS t${where}) AS found WHERE log_name = ${text(logName)}`;
}

function hashOfEntry(columns: readonly LoggedColumn[]): string {
  return rowHash(
    logColumns(columns).map(([name, type]): [string, ColumnType] => [`t.${identifier(name)}`, type]),
  );
}

/** Returns the statements that delete the entries up to a commit. */
export function deleteEntries(
  logName: string,
  columns: readonly LoggedColumn[],
  commitNumber: number,
): readonly string[] {
  const which = `_commit <= ${integer(commitNumber)}`;
  return [recordSome(logName, columns, '-', which), `DELETE FROM ${historic(logName)} WHERE ${which}`];
}

/** Returns the statements that give a log further columns of its table. `columns` are those of the table afterwards. */
export function addToLog(log: Log, known: ReadonlySet<string>, postgis: Postgis | null): readonly string[] {
  const added = log.columns.filter(({ columnName }) => !known.has(columnName));
  if (added.length === 0) return [];
  const defined = added.map(
    ({ columnName, type }) => `ADD COLUMN ${nameInLog(columnName)} ${typeName(type, postgis)}`,
  );
  return [
    `ALTER TABLE ${historic(log.logName)} ${defined.join(', ')}`,
    ...dropFunctions(log.logName),
    ...createFunctions(log, postgis),
    recordEntries(log.logName, log.columns),
  ];
}

/** Returns the statements that close a log before a commit that it lacks. Its earlier entries lead nowhere and are deleted. */
export function closeLog(
  logName: string,
  columns: readonly LoggedColumn[],
  { commitNumber, appliedAt }: Pick<LoggedCommit, 'commitNumber' | 'appliedAt'>,
  reason: string,
): readonly string[] {
  return [
    ...deleteEntries(logName, columns, commitNumber),
    `UPDATE ${catalogTable('history_logs')} SET closed_commit = ${integer(commitNumber)},
      closed_time = ${timeOf(appliedAt)}, closed_reason = ${text(reason)} WHERE log_name = ${text(logName)}`,
  ];
}

/** Copies the table with the old columns, before it is altered. A column that somebody added is none of them. */
export function copyFrozen(table: PlacedTable, frozen: Frozen): readonly string[] {
  const names = table.columns.map(({ columnName }) => identifier(columnName));
  return [
    `CREATE TABLE ${frozenTable(frozen)} AS SELECT ${names.join(', ')} FROM ${qualified(table)}`,
    `ALTER TABLE ${frozenTable(frozen)} REPLICA IDENTITY FULL`,
  ];
}

/**
 * Returns the statements that freeze a log: the table gets other columns, or retires. `frozen` says where the rows of the old
 * columns and their log are from then on. `checksum` is that of the rows, as the catalog knows it.
 */
export function freezeLog(
  { columns }: LoggedTable,
  logName: string,
  commitNumber: number,
  frozen: Frozen,
  checksum: Checksum | null,
  postgis: Postgis | null,
): readonly string[] {
  const { schema, name, logName: frozenLog } = frozen;
  const functions = macroNames(frozenLog);
  const renamed = macroNames(logName).map((from, index) => {
    const types = FUNCTIONS[index]?.type ?? '';
    return `ALTER FUNCTION ${historic(from)}(${types}) RENAME TO ${renamedTo(functions[index] ?? '')}`;
  });
  const source = frozenTable(frozen);
  return [
    ...renamed,
    `ALTER TABLE ${historic(logName)} RENAME TO ${renamedTo(frozenLog)}`,
    `UPDATE ${catalogTable('history_logs')} SET log_name = ${text(frozenLog)}, table_name = ${text(`${schema}.${name}`)},
      frozen_commit = ${integer(commitNumber)}, table_checksum = ${checksum === null ? 'NULL' : integer(checksum.sum)},
      table_checksum_version = ${text(checksum?.version ?? null)} WHERE log_name = ${text(logName)}`,
    ...replaceFunctions({ logName: frozenLog, source, columns }, postgis),
  ];
}

/** Returns the statements that end a log with everything that it holds. */
export function dropLog(logName: string): readonly string[] {
  return [
    ...dropFunctions(logName),
    `DROP TABLE IF EXISTS ${historic(logName)}`,
    `DELETE FROM ${catalogTable('history_logs')} WHERE log_name = ${text(logName)}`,
  ];
}

/** Returns the statements that make room for a log of this name; `aside`: what is left of it gets this name. */
export function replaceRemains(logName: string, aside: string | null): readonly string[] {
  const rename = aside === null ? [] : [`ALTER TABLE ${historic(logName)} RENAME TO ${renamedTo(aside)}`];
  return [...rename, ...dropFunctions(logName)];
}

/** Stands for a retired table that is kept in its place, under the name of a copy. */
export function viewFrozen(table: PlacedTable, frozen: Frozen): readonly string[] {
  const names = table.columns.map(({ columnName }) => identifier(columnName));
  return [`CREATE VIEW ${frozenTable(frozen)} AS SELECT ${names.join(', ')} FROM ${qualified(table)}`];
}

/** As SQL. */
function frozenTable({ schema, name }: Frozen): string {
  return qualified({ schemaName: schema, tableName: name });
}

/** Returns the statements that put copies in the place of such views, because a load writes the kept table. */
export async function freezeKept(
  transaction: Transaction,
  current: Place & { readonly tableName: string; readonly isKept: boolean },
): Promise<readonly string[]> {
  if (!current.isKept) return [];
  const schemaName = historySchema(current);
  const rows = await transaction.rows(`SELECT c.relname::text FROM pg_class c
    JOIN pg_namespace n ON n.oid = c.relnamespace
    JOIN ${catalogTable('history_logs')} logs ON logs.table_name = ${text(`${schemaName}.`)} || c.relname
    WHERE n.nspname = ${text(schemaName)} AND c.relkind = 'v' AND logs.dataset_id IN (
      SELECT dataset_id FROM ${catalogTable('names')} WHERE table_name = ${text(current.tableName)})`);
  return rows.flatMap((row) => {
    const tableName = textAt(row, 0);
    const view = qualified({ schemaName, tableName });
    const aside = qualified({ schemaName, tableName: freeName(tableName, new Set([tableName])) });
    return [
      `CREATE TABLE ${aside} AS SELECT * FROM ${view}`,
      `DROP VIEW ${view}`,
      `ALTER TABLE ${aside} RENAME TO ${identifier(tableName)}`,
      `ALTER TABLE ${view} REPLICA IDENTITY FULL`,
    ];
  });
}

/** Returns the names that logs and frozen tables of a dataset cannot have, as the catalog keeps names. */
export async function namesInHistory(transaction: Transaction, place: Place): Promise<ReadonlySet<string>> {
  const schemaName = historySchema(place);
  const rows = await transaction.rows(selectTableNames(schemaName));
  return new Set(rows.map((row) => recordedName({ schemaName, tableName: textAt(row, 0) }, HISTORY_SCHEMA)));
}

/** Returns the name of a new log. Where it is beside its table it needs another name. */
export function newLogName(current: Place & Named, taken: ReadonlySet<string>): string {
  const { schemaName, tableName, isDistributed } = current;
  return freeName(isDistributed ? `${schemaName}.${derivedName(tableName, '_history')}` : tableName, taken);
}

/** Returns names for a table and its log that a commit freezes. */
export function placedFrozenNames(
  current: Place & Named,
  commitNumber: number,
  taken: ReadonlySet<string>,
): Frozen {
  const { tableName } = current;
  const base = recordedName({ schemaName: historySchema(current), tableName }, HISTORY_SCHEMA);
  const names = frozenNames(base, commitNumber, taken);
  const { schemaName: schema, tableName: name } = namedAs(names.name, HISTORY_SCHEMA);
  return { schema, name, logName: names.logName };
}

/** The functions of a log, in the order of `macroNames`. */
const FUNCTIONS = [
  { type: 'timestamptz', ordered: '_applied_at', first: 'greatest(log.first_time, log.closed_time)' },
  { type: 'bigint', ordered: '_commit', first: 'greatest(log.first_commit, log.closed_commit)' },
] as const;

function dropFunctions(logName: string): readonly string[] {
  return macroNames(logName).map(
    (name, index) => `DROP FUNCTION IF EXISTS ${historic(name)}(${FUNCTIONS[index]?.type ?? ''})`,
  );
}

export function createFunctions(log: Log, postgis: Postgis | null): readonly string[] {
  // A parameter must have another name than a column of the result.
  const asOf = freeName('as_of', new Set(log.columns.map(({ columnName }) => columnName.toLowerCase())));
  const columns = log.columns.map(
    ({ columnName, type }) => `${identifier(columnName)} ${typeName(type, postgis)}`,
  );
  return macroNames(log.logName).map((name, index) => {
    const { type, ordered, first } = FUNCTIONS[index] ?? FUNCTIONS[0];
    const body = functionBody(log, `${ordered} > $1`, first);
    return `CREATE OR REPLACE FUNCTION ${historic(name)}(${identifier(asOf)} ${type})
      RETURNS TABLE (${columns.join(', ')}) LANGUAGE plpgsql STABLE SET search_path = ${searchPath(postgis)} AS ${text(body)}`;
  });
}

/** Views of readers on the functions stay, unless the columns came in another order meanwhile: the server replaces none then. */
export function replaceFunctions(log: Log, postgis: Postgis | null): readonly string[] {
  const drops = dropFunctions(log.logName);
  return createFunctions(log, postgis).map((create, index) => {
    const anew = [drops[index] ?? '', create].map((statement) => `EXECUTE ${text(statement)};`);
    return `DO ${text(`BEGIN EXECUTE ${text(create)};
      EXCEPTION WHEN invalid_function_definition THEN ${anew.join(' ')} END`)}`;
  });
}

/**
 * A state from before the log begins is not known, and none where entries are missing. The columns are variables of the body, by any
 * name: its queries are texts, which see none of them.
 */
function functionBody(log: Log, isLater: string, first: string): string {
  const { logName } = log;
  const unlisted = `feed_sync.history_logs does not list the undo log ${shownLog(logName)}: its states are not known.`;
  const selectLog = `SELECT * FROM ${catalogTable('history_logs')} WHERE log_name = ${text(logName)}`;
  return `DECLARE log record; entries bigint;
BEGIN
  EXECUTE ${text(selectLog)} INTO log;
  IF log.log_name IS NULL THEN
    RAISE EXCEPTION USING MESSAGE = ${text(unlisted)};
  END IF;
  IF $1 < ${first} THEN
    RAISE EXCEPTION USING MESSAGE = 'The history of ' || log.dataset_id || ' begins with commit '
      || greatest(log.first_commit, log.closed_commit) || ' at ' || greatest(log.first_time, log.closed_time)
      || coalesce(': ' || ${reasonOfBeginning('log.')}, '') || '. Earlier states are not known.';
  END IF;
  EXECUTE ${text(`SELECT count(*) FROM ${historic(logName)}`)} INTO entries;
  IF log.row_count <> entries THEN
    RAISE EXCEPTION USING MESSAGE = ${text(`The undo log ${shownLog(logName)} of `)} || log.dataset_id
      || ' was dropped or altered outside feed-sync: its earlier states are not known.';
  END IF;
  RETURN QUERY EXECUTE ${text(stateQuery(log, isLater))} USING $1;
END`;
}

/** Returns a query for the state after a commit, which the log is known to cover. */
export function selectStateAfter(log: Log, commitNumber: number): string {
  return stateQuery(log, `_commit > ${integer(commitNumber)}`);
}

/** `isLater` is true of the entries after the state. */
function stateQuery({ logName, source, columns }: Log, isLater: string): string {
  const names = columns.map(({ columnName }) => `newest.${identifier(columnName)}`);
  const logged = columns.map(({ columnName }) => `${nameInLog(columnName)} AS ${identifier(columnName)}`);
  const keys = columns.filter(({ role }) => role === 'key').map(({ columnName }) => columnName);
  const same = keys.map((key) => `newest.${identifier(key)} = later.${nameInLog(key)}`);
  const later = `(SELECT * FROM ${historic(logName)} WHERE ${isLater})`;
  return `SELECT ${names.join(', ')} FROM ${source} AS newest
      WHERE NOT EXISTS (SELECT 1 FROM ${later} AS later WHERE ${same.join(' AND ')})
    UNION ALL SELECT ${logged.join(', ')} FROM (${earliestOf(columns, later)}) AS earliest WHERE _operation <> 'added'`;
}

/** Returns a query for the earliest entry of each key. `entries` is SQL. */
export function earliestOf(columns: readonly LoggedColumn[], entries: string): string {
  const keys = columns.filter(({ role }) => role === 'key').map(({ columnName }) => nameInLog(columnName));
  return `SELECT DISTINCT ON (${keys.join(', ')}) * FROM ${entries} AS entries ORDER BY ${[...keys, '_commit'].join(', ')}`;
}
