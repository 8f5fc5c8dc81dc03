/**
 * Undo logs that somebody dropped, emptied or altered by hand. The next commit of such a table finds out that the log is gone, or has
 * other columns or another number of entries; `verify` also finds other values. The rest of the log keeps another name, and a
 * new log begins: it restores only states that it knows.
 */

import { assert } from '../../../lib/assert.ts';
import { BY_HAND } from '../../../model/lost-past.ts';
import type { ObservedTable } from '../../../model/write-jobs.ts';
import { type Engine, runTogether } from '../../../staging/engine/engine.ts';
import { identifier, integer, numberAt, text, textAt, timestamp } from '../../../staging/engine/sql.ts';
import { nameOfSource } from '../../catalog/past-logs.ts';
import { freeName, type LoggedTable } from '../../catalog/undo-logs.ts';
import { catalogTable, historic, MIRROR } from '../catalog/schema.ts';
import {
  createLog,
  dropLog,
  namesInHistory,
  type RecordedLog,
  recordEntries,
  typedLogColumns,
} from './history.ts';

/**
 * Replaces those of the logs that cannot be written any more by empty ones, and returns the names of all by dataset id. A log whose
 * table is gone, or has no columns in the catalog, ends: the load that follows begins another one. `tables` has the table of each log.
 */
export async function withoutUnusable(
  engine: Engine,
  logs: ReadonlyMap<string, RecordedLog>,
  tables: ReadonlyMap<string, ObservedTable>,
): Promise<ReadonlyMap<string, string>> {
  const usable = new Map([...logs].map(([datasetId, { logName }]) => [datasetId, logName]));
  if (logs.size === 0) return usable;
  const found = await readColumns(engine, [...usable.values()]);
  const counts = await readCounts(engine, [...found.keys()]);
  for (const [datasetId, { logName, rowCount, hasChecksum }] of logs) {
    const table = tables.get(datasetId);
    assert(table !== undefined, 'the log is of a live table');
    const columns = found.get(logName) ?? null;
    const isWhole = rowCount === null || rowCount === counts.get(logName);
    if (columns !== null && isWhole && hasColumns(columns, table)) {
      if (!hasChecksum) await engine.run(recordEntries(logName));
      continue;
    }
    const goesOn = await closeUnusable(engine, logName, {
      ...table,
      lastCommit: table.commitNumber ?? 0,
      at: table.appliedAt,
    });
    if (!goesOn) usable.delete(datasetId);
  }
  return usable;
}

type Columns = ReadonlyMap<string, string>;

/** Returns the columns of the logs that are there: names and types as DuckDB writes them. */
async function readColumns(
  engine: Engine,
  logNames: readonly string[],
): Promise<ReadonlyMap<string, Columns>> {
  const rows = await engine.rows(`SELECT table_name, column_name, data_type
    FROM duckdb_tables() AS tables JOIN duckdb_columns() AS columns USING (database_oid, table_oid, table_name)
    WHERE tables.database_name = ${text(MIRROR)} AND tables.schema_name = 'history'
      AND table_name IN (${logNames.map(text).join(', ')})`);
  const found = new Map<string, Map<string, string>>();
  for (const row of rows) {
    const columns = found.get(textAt(row, 0)) ?? new Map<string, string>();
    found.set(textAt(row, 0), columns.set(textAt(row, 1), textAt(row, 2)));
  }
  return found;
}

/** DuckDB knows the number of rows without reading them. */
async function readCounts(engine: Engine, logNames: readonly string[]): Promise<ReadonlyMap<string, number>> {
  if (logNames.length === 0) return new Map();
  const counts = logNames.map((name) => `SELECT ${text(name)}, count(*) FROM ${historic(name)}`);
  const rows = await engine.rows(counts.join(' UNION ALL '));
  return new Map(rows.map((row) => [textAt(row, 0), numberAt(row, 1)]));
}

function hasColumns(found: Columns, { columns }: ObservedTable): boolean {
  const expected = typedLogColumns(columns);
  return (
    columns.length > 0 &&
    found.size === expected.length &&
    expected.every(([name, type]) => found.get(name) === type)
  );
}

/** The table that a log leads back from. */
interface TableOfLog extends LoggedTable {
  /** The newest commit whose state the table is, and its time. */
  readonly lastCommit: number;
  readonly at: Date;
  /** The table with its schema, not quoted; the live one by default. */
  readonly source?: string;
}

/**
 * Begins a log anew at the state of its table; returns false where it ends, because no table is there whose past it could hold. The
 * rest of the old log keeps its rows under another name, unless these cannot be read.
 */
export async function closeUnusable(
  engine: Engine,
  logName: string,
  table: TableOfLog,
  isUnreadable = false,
): Promise<boolean> {
  const { lastCommit, at, columns, source = `main.${table.tableName}` } = table;
  const isThere = (await readColumns(engine, [logName])).has(logName);
  const remove = isUnreadable ? `DROP TABLE ${historic(logName)}` : await renameRemains(engine, logName);
  const aside = isThere ? [remove] : [];
  const goesOn = columns.length > 0 && (await isInMirror(engine, source));
  if (!goesOn) {
    await runTogether(engine, [...aside, ...dropLog(logName)]);
    return false;
  }
  await runTogether(engine, [
    ...aside,
    ...createLog(table, logName, nameOfSource({ source })),
    `UPDATE ${catalogTable('history_logs')} SET closed_commit = ${integer(lastCommit)},
        closed_time = ${timestamp(at)}, closed_reason = ${text(BY_HAND)}
      WHERE log_name = ${text(logName)}`,
    recordEntries(logName),
  ]);
  return true;
}

/** A view stands for the table of a dataset that was kept in its place. */
async function isInMirror(engine: Engine, name: string): Promise<boolean> {
  const [found] = await engine.rows(`SELECT 1 FROM
      (SELECT database_name, schema_name, table_name FROM duckdb_tables()
        UNION ALL SELECT database_name, schema_name, view_name FROM duckdb_views())
    WHERE database_name = ${text(MIRROR)} AND schema_name || '.' || table_name = ${text(name)}`);
  return found !== undefined;
}

async function renameRemains(engine: Engine, logName: string): Promise<string> {
  const name = freeName(`${logName}_unusable`, await namesInHistory(engine));
  return `ALTER TABLE ${historic(logName)} RENAME TO ${identifier(name)}`;
}
