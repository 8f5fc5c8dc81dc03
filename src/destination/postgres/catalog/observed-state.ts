/** Reads the observed state from the catalog, and the state of one dataset at the beginning of its transaction. */

import { ConfigurationError, StorageError } from '../../../model/errors.ts';
import type { Closing } from '../../../model/lost-past.ts';
import { MAX_TABLE_NAME_BYTES } from '../../../model/naming.ts';
import type { ObservedColumn, ObservedTable } from '../../../model/write-jobs.ts';
import {
  booleanAt,
  dateAt,
  identifier,
  integer,
  numberAt,
  numberOrNullAt,
  storedJson,
  text,
  textAt,
  textOrNullAt,
} from '../../../staging/engine/sql.ts';
import { columnsFrom, type RecordedColumn } from '../../catalog/columns.ts';
import { newNames } from '../../catalog/enrolment.ts';
import type { DatasetBefore } from '../../catalog/entries.ts';
import {
  type CatalogedTable,
  catalogedTableAt,
  EMPTY,
  type Meta,
  metaOf,
  RETIRED_DAYS,
  reloadsOf,
  retiredTableAt,
  withMissing,
} from '../../catalog/observed-state.ts';
import { owedReloadAt, progressOf, storedMembersAt, storedSubscriptionAt } from '../../catalog/progress.ts';
import { logColumns } from '../../catalog/undo-logs.ts';
import { recordedUnions } from '../../catalog/unions.ts';
import { insertRows } from '../../catalog/writes.ts';
import type { ObservedState, StoredProgress, TableChecksum } from '../../destination.ts';
import type { Transaction } from '../connection.ts';
import { type FoundTable, isSameType, readFound } from '../tables.ts';
import type { Postgis } from '../types.ts';
import { catalogTable, HISTORY_SCHEMA, LIVE_SCHEMA, type Named, namedAs, type Place } from './names.ts';
import { statementsOf } from './rows.ts';
import {
  FORMAT_VERSION,
  milliseconds,
  SELECT_SCHEMAS,
  selectCatalog,
  selectMeta,
  selectTableNames,
  selectTables,
} from './schema.ts';

export async function hasCatalog(transaction: Transaction): Promise<boolean> {
  return (await transaction.rows(selectCatalog())).length > 0;
}

/** Reads the row of `meta`. @throws ConfigurationError when a newer program wrote the catalog. */
export async function readMeta(transaction: Transaction, place: string): Promise<Meta> {
  const meta = metaOf(await transaction.rows(selectMeta()));
  if (meta.format === FORMAT_VERSION) return meta;
  throw new ConfigurationError(
    `The catalog in ${place} has the format ${meta.format}; this program knows the format ${FORMAT_VERSION}.`,
    { hint: 'Use the version of feed-sync that wrote it, or set destination.url to another database.' },
  );
}

/** Reads everything in one transaction. @throws ConfigurationError when a newer program wrote the catalog. */
export async function readObservedState(transaction: Transaction, place: string): Promise<ObservedState> {
  if (!(await hasCatalog(transaction))) return EMPTY;
  const { service } = await readMeta(transaction, place);
  const tables = await readTables(transaction, null);
  return {
    service,
    datasets: new Map([...tables].map(([datasetId, { observed }]) => [datasetId, observed])),
    progress: await readProgress(transaction),
    retired: await readRetired(transaction),
  };
}

/** The same, with the tables that somebody has dropped. */
export async function readWithMissing(transaction: Transaction, place: string): Promise<ObservedState> {
  const state = await readObservedState(transaction, place);
  if (state.datasets.size === 0) return state;
  const schemas = new Set([...state.datasets.values()].map(({ schemaName }) => schemaName));
  const rows = await transaction.rows(selectTables(...schemas));
  const found = new Set(rows.map((row) => JSON.stringify([textAt(row, 0), textAt(row, 1)])));
  return withMissing(state, ({ schemaName, tableName }) =>
    found.has(JSON.stringify([schemaName, tableName])),
  );
}

/** Returns the live tables by dataset id, sorted by id; null means all datasets. */
export async function readTables(
  transaction: Transaction,
  datasetIds: readonly string[] | null,
): Promise<ReadonlyMap<string, CatalogedTable>> {
  const where =
    datasetIds === null ? '' : ` WHERE dataset_id IN (${['NULL', ...datasetIds.map(text)].join(', ')})`;
  const columns = await readColumns(transaction, where);
  const reloads = reloadsOf(
    await transaction.rows(`SELECT dataset_id, subscription_id, log_number, event_number, ${milliseconds('created_at')}
      FROM ${catalogTable('reloads')}${where}`),
  );
  const rows =
    await transaction.rows(`SELECT dataset_id, table_name, version, schema_version, row_count, key_columns,
      snapshot_version, snapshot_digest, digest_kind, loaded_through, ${milliseconds('loaded_at')},
      ${milliseconds('published_at')}, ${milliseconds('applied_at')}, checksum, checksum_version, commit_number,
      ${milliseconds('pinned_since')}, schema_name FROM ${catalogTable('datasets')}${where} ORDER BY dataset_id COLLATE "C"`);
  const tables = rows.map((row) => catalogedTableAt(row, columns, reloads));
  return new Map(tables.map((table) => [table.observed.datasetId, table]));
}

/** The columns of a table come as one JSON text: a row for each column of thousands of tables would take several times as long. */
async function readColumns(
  transaction: Transaction,
  where: string,
): Promise<ReadonlyMap<string, readonly ObservedColumn[]>> {
  const rows = await transaction.rows(`SELECT dataset_id,
      json_agg(json_build_array("position"::text, name, column_name, type, role, crs))::text
    FROM ${catalogTable('columns')}${where} GROUP BY dataset_id`);
  return new Map(rows.map((row) => [textAt(row, 0), columnsFrom(textAt(row, 1))]));
}

export async function readProgress(transaction: Transaction): Promise<StoredProgress | null> {
  const subscriptions = await transaction.rows(`SELECT subscription_id, name, log_number, event_number,
      ${milliseconds('event_created_at')}, ${milliseconds('position_at')}, states_last_event
    FROM ${catalogTable('subscriptions')} ORDER BY subscription_id COLLATE "C"`);
  const members = await transaction.rows(`SELECT subscription_id,
      json_agg(json_build_array(dataset_id, added_event::text, dropped_event::text)
        ORDER BY dataset_id COLLATE "C")::text
    FROM ${catalogTable('members')} GROUP BY subscription_id ORDER BY subscription_id COLLATE "C"`);
  const owed = await transaction.rows(`SELECT dataset_id, subscription_id, log_number, event_number,
      ${milliseconds('created_at')} FROM ${catalogTable('owed')}
    ORDER BY dataset_id COLLATE "C", subscription_id COLLATE "C", log_number, event_number`);
  return progressOf({
    subscriptions: subscriptions.map(storedSubscriptionAt),
    members: members.flatMap(storedMembersAt),
    owed: owed.map(owedReloadAt),
  });
}

/** Newest first. */
async function readRetired(transaction: Transaction): Promise<ObservedState['retired']> {
  const retired = "kind = 'retire' AND service_time IS NOT NULL";
  const rows =
    await transaction.rows(`SELECT dataset_id, ${milliseconds('service_time')}, coalesce(approved, false)
    FROM ${catalogTable('commits')} WHERE ${retired} AND service_time >= (
      SELECT max(service_time) - INTERVAL '${RETIRED_DAYS} days' FROM ${catalogTable('commits')} WHERE ${retired})
    ORDER BY service_time DESC, dataset_id COLLATE "C"`);
  return rows.map(retiredTableAt);
}

/** Returns the schema of a dataset that has no table yet. */
export type SchemaOf = (datasetId: string) => string;

/** Selects whether the server has Citus. */
const HAS_CITUS = `to_regclass('pg_catalog.pg_dist_schema') IS NOT NULL`;

export async function hasCitus(transaction: Transaction): Promise<boolean> {
  const [row = []] = await transaction.rows(`SELECT ${HAS_CITUS}`);
  return booleanAt(row, 0);
}

/** Returns whether Citus is there, and keeps the schema on one node. */
export async function isDistributed(transaction: Transaction, schemaName: string): Promise<boolean> {
  return (await hasCitus(transaction)) && (await isOnNode(transaction, schemaName));
}

/** Returns whether Citus, which is there, keeps the schema on one node. */
async function isOnNode(transaction: Transaction, schemaName: string): Promise<boolean> {
  const found = `SELECT 1 FROM pg_catalog.pg_dist_schema WHERE schemaid = to_regnamespace(${text(identifier(schemaName))})`;
  return (await transaction.rows(found)).length > 0;
}

/** The state of a dataset at the beginning of its transaction. */
export interface Current extends DatasetBefore, Place {
  /** The columns of the live table as recorded in the catalog. */
  readonly recordedColumns: readonly RecordedColumn[];
  /** The table as it is in the database; null where it is missing. */
  readonly found: FoundTable | null;
  /** The undo log of the live table; null where it has none. */
  readonly log: CurrentLog | null;
  /** The number and the time of the newest commit of all. */
  readonly newestNumber: number;
  readonly newestTime: Date;
}

/**
 * Reads the current state of a dataset. A dataset keeps its name while it has no table, and an operator may meanwhile have made an object
 * of that name. It is never touched. @throws StorageError
 */
export async function readCurrent(
  transaction: Transaction,
  datasetId: string,
  postgis: Postgis | null,
  schemaOf: SchemaOf = () => LIVE_SCHEMA,
): Promise<Current> {
  const table = (await readTables(transaction, [datasetId])).get(datasetId) ?? null;
  const tableName = table?.observed.tableName ?? (await nameOf(transaction, datasetId));
  const [facts = []] = await transaction.rows(`SELECT
      (SELECT max(table_name) FROM ${catalogTable('archived')} WHERE dataset_id = ${text(datasetId)}
        AND (table_name = ${text(tableName)} OR split_part(table_name, '.', 2) = ${text(tableName)})),
      EXISTS (SELECT 1 FROM ${catalogTable('commits')} WHERE dataset_id = ${text(datasetId)}),
      (SELECT coalesce(max(commit_number), 0) FROM ${catalogTable('commits')}),
      (SELECT coalesce(${milliseconds('max(applied_at)')}, 0) FROM ${catalogTable('commits')}),
      (SELECT json_agg(json_build_object('name', name, 'columnName', column_name, 'type', type, 'isNullable', nullable,
        'description', description, 'sourceName', source_name, 'role', role, 'crs', crs) ORDER BY "position")::text
        FROM ${catalogTable('columns')} WHERE dataset_id = ${text(datasetId)}),
      ${HAS_CITUS}`);
  const kept = textOrNullAt(facts, 0);
  const isKept = kept !== null;
  const { schemaName } =
    table?.observed ?? (isKept ? namedAs(kept, LIVE_SCHEMA) : { schemaName: schemaOf(datasetId) });
  const isPlaced = booleanAt(facts, 5) && (await isOnNode(transaction, schemaName));
  const named = { schemaName, tableName };
  const found = await readFound(transaction, named);
  if (found !== null && (found.table === null || (table === null && !isKept))) {
    throw taken(datasetId, named, found.kind);
  }
  const columns = facts[4] ?? null;
  return {
    ...named,
    isDistributed: isPlaced,
    live: table?.observed ?? null,
    checksum: table?.checksum ?? null,
    isKept,
    hasCommits: booleanAt(facts, 1),
    recordedColumns: columns === null ? [] : (storedJson(textAt(facts, 4)) as readonly RecordedColumn[]),
    found: found?.table ?? null,
    log: await readLog(transaction, datasetId, table?.observed.columns ?? [], postgis),
    newestNumber: numberAt(facts, 2),
    newestTime: dateAt(facts, 3),
  };
}

interface CurrentLog {
  readonly logName: string;
  /** `altered`: it has other columns than it was left with. */
  readonly state: 'usable' | 'altered' | 'missing';
  readonly closing: Closing;
}

type LiveLog = Pick<CurrentLog, 'logName' | 'closing'>;

/** Returns what the catalog records of the undo log of the live table; null where it has none. */
export async function readLiveLog(transaction: Transaction, datasetId: string): Promise<LiveLog | null> {
  const [row] =
    await transaction.rows(`SELECT log_name, closed_commit, closed_reason FROM ${catalogTable('history_logs')}
    WHERE dataset_id = ${text(datasetId)} AND frozen_commit IS NULL`);
  if (row === undefined) return null;
  const closing = { commitNumber: numberOrNullAt(row, 1), reason: textOrNullAt(row, 2) };
  return { logName: textAt(row, 0), closing };
}

async function readLog(
  transaction: Transaction,
  datasetId: string,
  columns: readonly ObservedColumn[],
  postgis: Postgis | null,
): Promise<CurrentLog | null> {
  const log = await readLiveLog(transaction, datasetId);
  if (log === null) return null;
  const found = await readFound(transaction, namedAs(log.logName, HISTORY_SCHEMA));
  if (found === null) return { ...log, state: 'missing' };
  const expected = logColumns(columns);
  const isUsable =
    found.table?.columns.size === expected.length &&
    expected.every(([name, type]) => isSameType(found.table?.columns.get(name), { type }, postgis));
  return { ...log, state: isUsable ? 'usable' : 'altered' };
}

/** The error of a name that an object of somebody else has. */
export function taken(datasetId: string, { schemaName, tableName }: Named, kind: string): StorageError {
  return new StorageError(
    `The database has a ${kind} ${schemaName}.${tableName} that feed-sync did not make, under the name of the table of ${datasetId}.`,
    {
      code: 'dataset_storage_failed',
      hint: 'Rename or drop it; the next catch-up then loads the dataset. Until then it is left as it is.',
    },
  );
}

/** A dataset without a name gets one. */
async function nameOf(transaction: Transaction, datasetId: string): Promise<string> {
  const known = (await readNames(transaction)).get(datasetId);
  return known ?? (await giveNames(transaction, [datasetId])).get(datasetId) ?? '';
}

export async function readNames(transaction: Transaction): Promise<ReadonlyMap<string, string>> {
  const rows = await transaction.rows(`SELECT dataset_id, table_name FROM ${catalogTable('names')}`);
  return new Map(rows.map((row) => [textAt(row, 0), textAt(row, 1)]));
}

/** The server makes a type for lists of rows of each table, and finds no name for that of a table which is called so. */
const IMPOSSIBLE_NAME = '_'.repeat(MAX_TABLE_NAME_BYTES);

/** Returns the schemas that have, or had, tables of datasets. */
export async function readSchemas(transaction: Transaction): Promise<readonly string[]> {
  return (await transaction.rows(SELECT_SCHEMAS)).map((row) => textAt(row, 0));
}

/** Returns the schemas that have live tables. */
export async function readLiveSchemas(transaction: Transaction): Promise<readonly string[]> {
  const rows = await transaction.rows(
    `SELECT DISTINCT schema_name FROM ${catalogTable('datasets')} ORDER BY 1`,
  );
  return rows.map((row) => textAt(row, 0));
}

/** On its node a table has a number behind its name, as have those beside it. */
const MAX_NAME_BYTES_ON_NODES = 50;

/** Gives the datasets without a name one, in the order of the list: none that an object in `schemas` has. */
export async function giveNames(
  transaction: Transaction,
  datasetIds: readonly string[],
  schemas: readonly string[] = [],
): Promise<ReadonlyMap<string, string>> {
  const names = await readNames(transaction);
  const searched = [LIVE_SCHEMA, ...schemas, ...(await readSchemas(transaction))];
  const existing = (await transaction.rows(selectTableNames(...searched))).map((row) => textAt(row, 0));
  // The name of a union without members is taken, too.
  const unions = recordedUnions(await transaction.rows(selectMeta()));
  const taken = [...existing, ...unions.keys(), IMPOSSIBLE_NAME];
  const maxBytes = (await hasCitus(transaction)) ? MAX_NAME_BYTES_ON_NODES : MAX_TABLE_NAME_BYTES;
  const given = newNames(names, datasetIds, taken, maxBytes);
  for (const statement of statementsOf([insertRows('names', [...given])])) await transaction.run(statement);
  return given;
}

/** Resolves to false when the newest commit of the table is another one. */
export async function writeChecksum(
  transaction: Transaction,
  { datasetId, commitNumber, sum, version }: TableChecksum,
): Promise<boolean> {
  const observed: ObservedTable | undefined = (await readTables(transaction, [datasetId])).get(
    datasetId,
  )?.observed;
  if (observed === undefined || observed.commitNumber !== commitNumber) return false;
  await transaction.run(`UPDATE ${catalogTable('datasets')}
    SET checksum = ${integer(sum)}, checksum_version = ${text(version)} WHERE dataset_id = ${text(datasetId)}`);
  // A rollback to this commit proves the rows by it.
  await transaction.run(`UPDATE ${catalogTable('commits')}
    SET checksum = ${integer(sum)}, checksum_version = ${text(version)}
    WHERE commit_number = ${integer(commitNumber)} AND checksum IS NOT NULL`);
  return true;
}
