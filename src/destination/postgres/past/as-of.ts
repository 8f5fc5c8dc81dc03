/**
 * Shows one statement the tables as they were at an earlier time: temporary views with the names of the tables hide these. A
 * view of the statement then shows which tables it reads, so that no present row passes for an earlier one.
 */

import { type FeedSyncError, UsageError } from '../../../model/errors.ts';
import { booleanAt, identifier, textAt } from '../../../staging/engine/sql.ts';
import { coversTime, unknownBefore } from '../../catalog/past-logs.ts';
import { macroNames } from '../../catalog/undo-logs.ts';
import { CATALOG_SCHEMA, HISTORY_SCHEMA, LIVE_SCHEMA, namedAs } from '../catalog/names.ts';
import { readLiveSchemas } from '../catalog/observed-state.ts';
import { selectTableNames, timeOf } from '../catalog/schema.ts';
import type { Connection } from '../connection.ts';
import { PostgresError } from '../errors.ts';
import { historic } from './history.ts';
import { findAltered, readPastLogs } from './past-logs.ts';

const UNDEFINED_TABLE = '42P01';
const ASKED = identifier('feed-sync: asked');

/**
 * Hides the tables for the statement, in a transaction that may make temporary views, and ends its right to change anything.
 * @throws UsageError when it names a table whose state at the time is not known, PostgresError when it is no statement that reads.
 */
export async function showAsOf(connection: Connection, sql: string, time: Date): Promise<void> {
  const logs = Map.groupBy(await readPastLogs(connection), ({ tableName }) => tableName);
  const schemas = new Set([LIVE_SCHEMA, ...(await readLiveSchemas(connection))]);
  const live = (await connection.rows(selectTableNames(...schemas))).map((row) => textAt(row, 0));
  const besideTables = new Set(
    [...logs.values()].flat().flatMap(({ logName }) => {
      const { schemaName, tableName } = namedAs(logName, HISTORY_SCHEMA);
      return schemaName === HISTORY_SCHEMA ? [] : tableName;
    }),
  );
  const lower = sql.toLowerCase();
  const unknown = new Map<string, FeedSyncError>();
  const hidden = new Set<string>();
  // The name of a table that is read stands in the statement.
  for (const tableName of new Set([...live, ...logs.keys()])) {
    if (besideTables.has(tableName) || !lower.includes(tableName)) continue;
    const ofTable = logs.get(tableName) ?? [];
    const log = ofTable.find((one) => coversTime(one, time));
    if (log === undefined) {
      unknown.set(tableName, unknownBefore(tableName, ofTable, time));
      continue;
    }
    const error = await findAltered(connection, log);
    if (error !== null) {
      unknown.set(tableName, error);
      continue;
    }
    await connection.run(`CREATE TEMPORARY VIEW ${identifier(tableName)} AS
      SELECT * FROM ${historic(macroNames(log.logName)[0])}(${timeOf(time)})`);
    hidden.add(tableName);
  }
  for (const read of await relationsOf(connection, sql, unknown))
    refuseAround(read, schemas, hidden, unknown);
  await connection.run(`DROP VIEW ${ASKED}`);
  // As a statement it would be sent to nodes, too, which take it no more.
  await connection.rows("SELECT set_config('transaction_read_only', 'on', true)");
}

interface Read {
  readonly schema: string;
  readonly name: string;
  readonly isTemporary: boolean;
}

/** Returns the relations and functions that the statement reads, without those of the server and of extensions. */
async function relationsOf(
  connection: Connection,
  sql: string,
  unknown: ReadonlyMap<string, FeedSyncError>,
): Promise<readonly Read[]> {
  try {
    await connection.query(`CREATE TEMPORARY VIEW ${ASKED} AS SELECT 1 AS one FROM (${sql}\n) AS asked`);
  } catch (error) {
    const isMissing = error instanceof PostgresError && error.sqlState === UNDEFINED_TABLE;
    const [reason] = unknown.values();
    throw isMissing && reason !== undefined ? reason : error;
  }
  const isOurs = (catalog: string, id: string): string =>
    `d.refclassid = '${catalog}'::regclass AND d.refobjid = ${id} AND NOT EXISTS (SELECT 1 FROM pg_depend e
      WHERE e.classid = d.refclassid AND e.objid = d.refobjid AND e.deptype = 'e')`;
  const rows = await connection.rows(`WITH d AS (
      SELECT DISTINCT d.refclassid, d.refobjid FROM pg_depend d JOIN pg_rewrite r ON r.oid = d.objid
      WHERE d.classid = 'pg_rewrite'::regclass AND r.ev_class = 'pg_temp.${ASKED}'::regclass AND d.refobjid <> r.ev_class)
    SELECT n.nspname::text, c.relname::text, c.relpersistence = 't' FROM d
      JOIN pg_class c ON ${isOurs('pg_class', 'c.oid')} JOIN pg_namespace n ON n.oid = c.relnamespace
    UNION ALL SELECT n.nspname::text, p.proname::text, false FROM d
      JOIN pg_proc p ON ${isOurs('pg_proc', 'p.oid')} JOIN pg_namespace n ON n.oid = p.pronamespace`);
  return rows.map((row) => ({
    schema: textAt(row, 0),
    name: textAt(row, 1),
    isTemporary: booleanAt(row, 2),
  }));
}

/** The catalog is read as it is now, as are the tables of the server. */
const AS_THEY_ARE: ReadonlySet<string> = new Set([CATALOG_SCHEMA, 'pg_catalog', 'information_schema']);

/** @throws UsageError */
function refuseAround(
  { schema, name, isTemporary }: Read,
  live: ReadonlySet<string>,
  hidden: ReadonlySet<string>,
  unknown: ReadonlyMap<string, FeedSyncError>,
): void {
  if (isTemporary || AS_THEY_ARE.has(schema)) return;
  const reason = live.has(schema) && !hidden.has(name) ? unknown.get(name) : undefined;
  if (reason !== undefined) throw reason;
  throw new UsageError(`The statement reads ${schema}.${name}, which --as-of does not change.`, {
    hint: 'Name the mirrored tables alone, as in feed_sync.datasets.table_name; or leave --as-of out.',
  });
}
