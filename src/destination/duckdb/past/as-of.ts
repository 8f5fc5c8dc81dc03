/**
 * Shows one statement the tables as they were at an earlier time: temporary views with the names of the tables hide these. A table
 * without a known past is hidden by a view that fails, so that no present row passes for an earlier one.
 */

import { type FeedSyncError, UsageError } from '../../../model/errors.ts';
import { type Engine, runTogether } from '../../../staging/engine/engine.ts';
import { identifier, text, textAt, timestamp } from '../../../staging/engine/sql.ts';
import { altered, coversTime, unknownBefore, unlistedColumns } from '../../catalog/past-logs.ts';
import { type LoggedColumn, macroNames } from '../../catalog/undo-logs.ts';
import type { PastLog } from '../../reader.ts';
import { historic, MIRROR, mirrored } from '../catalog/schema.ts';
import { asOfTime, namesInHistory } from './history.ts';
import { findAltered, readLoggedColumns, readPastLogs } from './past-logs.ts';

/** Hides the tables for the statement. @throws UsageError when it names a table whose state at the time is not known. */
export async function showAsOf(
  engine: Engine,
  format: number | null,
  sql: string,
  time: Date,
): Promise<void> {
  const named = await namedTables(engine, sql);
  const logs = Map.groupBy(await readPastLogs(engine, format), ({ tableName }) => tableName);
  const columns = await readLoggedColumns(engine);
  const tables = await engine.rows(`SELECT table_name FROM duckdb_tables()
    WHERE database_name = ${text(MIRROR)} AND schema_name = 'main'`);
  const present = new Set(tables.map((row) => textAt(row, 0)));
  const past = { columns, inHistory: await namesInHistory(engine) };
  const statements: string[] = [];
  for (const tableName of new Set([...present, ...logs.keys()])) {
    const isNamed = named.has(tableName.toLowerCase());
    const shown = { tableName, logs: logs.get(tableName) ?? [], time, isNamed };
    const view = await viewAsOf(engine, shown, past);
    if (typeof view === 'string') statements.push(view);
    else if (isNamed) throw view;
    else if (present.has(tableName)) statements.push(failingView(tableName, view.message));
  }
  await runTogether(engine, statements);
}

interface Shown {
  readonly tableName: string;
  readonly logs: readonly PastLog[];
  readonly time: Date;
  readonly isNamed: boolean;
}

interface Past {
  /** The columns of the live tables, by dataset id. */
  readonly columns: ReadonlyMap<string, readonly LoggedColumn[]>;
  /** The names in schema `history`. */
  readonly inHistory: ReadonlySet<string>;
}

/** Returns the statement that hides the table, or why its state is not known. */
async function viewAsOf(
  engine: Engine,
  { tableName, logs, time, isNamed }: Shown,
  { columns, inHistory }: Past,
): Promise<string | FeedSyncError> {
  const log = logs.find((one) => coversTime(one, time));
  if (log === undefined) return unknownBefore(tableName, logs, time);
  const ofLog = columns.get(log.datasetId) ?? [];
  const unusable = await findUnusable(engine, log, ofLog, isNamed ? null : inHistory);
  return unusable ?? hidden(log, ofLog, time, isNamed);
}

/** Why a log cannot answer. Its entries are counted where the names in schema `history` are not given. */
async function findUnusable(
  engine: Engine,
  log: PastLog,
  columns: readonly LoggedColumn[],
  inHistory: ReadonlySet<string> | null,
): Promise<FeedSyncError | null> {
  if (log.frozenCommit === null && columns.length === 0) return unlistedColumns(log.datasetId);
  if (inHistory === null) return await findAltered(engine, log);
  return inHistory.has(log.logName) ? null : altered(log);
}

function hidden(log: PastLog, columns: readonly LoggedColumn[], time: Date, isNamed: boolean): string {
  const { datasetId, tableName, logName } = log;
  if (log.frozenCommit === null) {
    return createView(tableName, asOfTime({ datasetId, tableName, columns }, logName, time));
  }
  const query = `SELECT * FROM ${historic(macroNames(logName)[0])}(${timestamp(time)})`;
  if (!log.isKept) return createView(tableName, query);
  // The functions of this log read the kept table by its name, which a view would hide.
  if (isNamed) return `CREATE TEMPORARY TABLE ${identifier(tableName)} AS ${query}`;
  return failingView(tableName, `${tableName} was retired. Name it in the statement itself.`);
}

function createView(tableName: string, query: string): string {
  return `CREATE TEMPORARY VIEW ${identifier(tableName)} AS ${query}`;
}

function failingView(tableName: string, message: string): string {
  return createView(tableName, `SELECT * FROM ${mirrored(tableName)} WHERE error(${text(message)})`);
}

const PART = '"(?:[^"]|"")*"|[^".\\s]+';
/** As DuckDB lists a table: `schema.name AS alias`, in quotation marks where these are needed. */
const LISTED = new RegExp(`^((?:(?:${PART})\\.)*)(${PART})(?: AS .*)?$`, 's');
const CATALOG = /^(?:mirror\.)?feed_sync\.$/;
const AROUND_VIEWS = /^(?:mirror|history|archived)\./;
const AROUND_VIEWS_IN_TEXT = /\b(?:mirror|history|archived)"?\s*\./i;

/** Returns the names, in lower case, of the mirrored tables that the statement reads, as far as DuckDB lists them. */
async function namedTables(engine: Engine, sql: string): Promise<ReadonlySet<string>> {
  const listed = await engine.use(async (connection) => {
    // DuckDB lists tables of one statement; `query` says what is wrong with any other text.
    const { count } = await connection.extractStatements(sql);
    return count === 1 ? connection.getTableNames(sql, true) : [];
  });
  const names = listed.map((name) => LISTED.exec(name) ?? ['', '', name]);
  const around = names.find(([, schema = '']) => {
    return AROUND_VIEWS.test(schema.toLowerCase()) && !CATALOG.test(schema.toLowerCase());
  });
  // DuckDB lists nothing for some statements, such as UNPIVOT.
  if (around !== undefined || (listed.length === 0 && AROUND_VIEWS_IN_TEXT.test(sql))) {
    const [, schema = '', name = ''] = around ?? [];
    const what = around === undefined ? 'a table with its database or schema' : `${schema}${name}`;
    throw new UsageError(`The statement reads ${what}, which --as-of does not change.`, {
      hint: 'Name the tables alone, as in feed_sync.datasets.table_name; or leave --as-of out.',
    });
  }
  const mirroredOnes = names.filter(([, schema = '']) => !CATALOG.test(schema.toLowerCase()));
  return new Set(mirroredOnes.map(([, , name = '']) => unquoted(name).toLowerCase()));
}

function unquoted(name: string): string {
  return name.startsWith('"') ? name.slice(1, -1).replaceAll('""', '"') : name;
}
