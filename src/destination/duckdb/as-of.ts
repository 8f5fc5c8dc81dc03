/**
 * Shows one statement the tables as they were at an earlier time: temporary views with the names of the tables hide these. A table
 * without a known past is hidden by a view that fails, so that no present row passes for an earlier one.
 */

import { UsageError } from '../../model/errors.ts';
import { type Engine, runTogether } from '../../staging/engine/engine.ts';
import { identifier, text, textAt, timestamp } from '../../staging/engine/sql.ts';
import { historic, MIRROR, mirrored } from './catalog/schema.ts';
import { asOfTime, type LoggedColumn, macroNames } from './history.ts';
import { beginsLater, type PastLog, readLoggedColumns, readPastLogs } from './past-logs.ts';

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
  const statements: string[] = [];
  for (const tableName of new Set([...present, ...logs.keys()])) {
    const ofTable = logs.get(tableName) ?? [];
    const log = ofTable.find((one) => covers(one, time));
    const isNamed = named.has(tableName.toLowerCase());
    if (log !== undefined) {
      statements.push(hidden(log, columns.get(log.datasetId) ?? [], time, isNamed));
      continue;
    }
    const unknown = unknownBefore(tableName, ofTable, time);
    if (isNamed) throw unknown;
    if (present.has(tableName)) statements.push(failingView(tableName, unknown.message));
  }
  await runTogether(engine, statements);
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

function covers({ firstTime, frozenTime }: PastLog, time: Date): boolean {
  return firstTime <= time && (frozenTime === null || time < frozenTime);
}

function unknownBefore(tableName: string, logs: readonly PastLog[], time: Date): UsageError {
  const [newest] = logs;
  if (newest === undefined) {
    return new UsageError(`The table ${tableName} has no history: its earlier states are not known.`, {
      hint: 'Without --as-of it is read as it is now. The setting history.datasets keeps its history from then on.',
    });
  }
  const { frozenCommit, frozenTime } = newest;
  if (frozenTime !== null && frozenTime <= time) {
    return new UsageError(
      `The table ${tableName} was retired by commit ${frozenCommit} at ${frozenTime.toISOString()}; its history ends there.`,
      { hint: 'Give --as-of an earlier time.' },
    );
  }
  return beginsLater(tableName, logs.findLast(({ firstTime }) => firstTime > time) ?? newest);
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
