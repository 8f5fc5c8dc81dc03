/**
 * Compares undo logs, the tables that froze with them, and archived tables with their recorded checksums; stores those that are missing,
 * and closes the logs that were altered by hand.
 *
 * An archived table without an undo log is not compared: nobody knows the order of its columns, by which its rows were hashed.
 */

import { BY_HAND } from '../../../model/lost-past.ts';
import type { ColumnType } from '../../../model/records.ts';
import { dateAt, integer, numberAt, text } from '../../../staging/engine/sql.ts';
import type { Checksum } from '../../catalog/cells.ts';
import { freeName, logColumns, shownLog } from '../../catalog/undo-logs.ts';
import {
  type ComparedPast,
  type ComparedPastTable,
  ofDatasets,
  type PastTable,
  type PastTables,
  pastTableAt,
  stateOfPast,
} from '../../past-tables.ts';
import type { PastLog } from '../../reader.ts';
import {
  ARCHIVE_SCHEMA,
  catalogTable,
  HISTORY_SCHEMA,
  LIVE_SCHEMA,
  type Named,
  namedAs,
  qualified,
  recordedName,
} from '../catalog/names.ts';
import { milliseconds } from '../catalog/schema.ts';
import type { Transaction } from '../connection.ts';
import { readContent } from '../content.ts';
import type { InTurn } from '../count-tables.ts';
import { isSameType, readFound } from '../tables.ts';
import type { Postgis } from '../types.ts';
import { closeLog, createLog, dropLog, namesInHistory, recordEntries, replaceRemains } from './history.ts';
import { logAsOf, pastCatalog, readPastLogs } from './past-logs.ts';

export async function comparePastTables(
  transaction: Transaction,
  postgis: Postgis | null,
  { datasetIds, skipped }: PastTables,
  { before, isEnough }: InTurn,
): Promise<ComparedPast> {
  const tables = (await readPastTables(transaction, datasetIds)).slice(skipped);
  const compared: ComparedPastTable[] = [];
  for (const table of tables) {
    await before(namedIn(table));
    compared.push(await comparePastTable(transaction, postgis, table));
    if (isEnough()) break;
  }
  return { compared, isEnd: compared.length === tables.length };
}

/** An archived table that is gone is left out: operators drop those that they no longer need. */
async function readPastTables(
  transaction: Transaction,
  datasetIds: readonly string[] | null,
): Promise<readonly PastTable[]> {
  const rows =
    await transaction.rows(`SELECT * FROM (${SELECT_LOGS} UNION ALL ${SELECT_FROZEN} UNION ALL ${SELECT_ARCHIVED})
    AS past (dataset_id, kind, schema_name, name, log_name, checksum, checksum_version)
    WHERE ${ofDatasets(datasetIds)} ORDER BY dataset_id COLLATE "C", kind COLLATE "C", schema_name COLLATE "C", name COLLATE "C"`);
  return rows.map(pastTableAt);
}

/** Returns schema and name of a recorded name as SQL, which is of an object of `usual` where it names no schema. */
function partsOf(name: string, usual: string): string {
  return `CASE WHEN strpos(${name}, '.') > 0 THEN split_part(${name}, '.', 1) ELSE ${text(usual)} END,
    CASE WHEN strpos(${name}, '.') > 0 THEN split_part(${name}, '.', 2) ELSE ${name} END`;
}

const SELECT_LOGS = `SELECT dataset_id, 'log', ${partsOf('log_name', HISTORY_SCHEMA)}, log_name, checksum, checksum_version
  FROM ${catalogTable('history_logs')}`;

/** A view stands for a retired table that was kept in its place. An archived table is none that froze alone. */
const SELECT_FROZEN = `SELECT dataset_id, 'frozen', ${partsOf('table_name', HISTORY_SCHEMA)}, log_name,
    table_checksum, table_checksum_version
  FROM ${catalogTable('history_logs')} AS logs WHERE frozen_commit IS NOT NULL
    AND (starts_with(table_name, ${text(`${HISTORY_SCHEMA}.`)}) OR strpos(log_name, '.') > 0)
    AND NOT EXISTS (SELECT 1 FROM ${catalogTable('archived')} AS kept
      WHERE kept.dataset_id = logs.dataset_id AND kept.table_name = logs.table_name)
    AND NOT EXISTS (SELECT 1 FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
      WHERE c.relkind = 'v' AND table_name = n.nspname || '.' || c.relname)`;

/** The name of an archived table has its schema where that is another; one that was kept in its place has its own name still. */
const SELECT_ARCHIVED = `SELECT kept.dataset_id, 'archived', n.nspname::text, c.relname::text, logs.log_name,
    kept.checksum, kept.checksum_version
  FROM ${catalogTable('archived')} AS kept JOIN ${catalogTable('names')} AS names USING (dataset_id)
    JOIN ${catalogTable('commits')} AS commits ON commits.dataset_id = kept.dataset_id AND applied_at = archived_at
    JOIN ${catalogTable('history_logs')} AS logs ON logs.dataset_id = kept.dataset_id AND frozen_commit = commit_number
    JOIN pg_class c ON c.relkind = 'r' JOIN pg_namespace n ON n.oid = c.relnamespace
      AND n.nspname || '.' || c.relname = CASE WHEN strpos(kept.table_name, '.') > 0 THEN ''
        WHEN kept.table_name = names.table_name THEN ${text(`${LIVE_SCHEMA}.`)} ELSE ${text(`${ARCHIVE_SCHEMA}.`)} END || kept.table_name`;

interface HashedColumn {
  readonly columnName: string;
  readonly type: ColumnType;
}

async function comparePastTable(
  transaction: Transaction,
  postgis: Postgis | null,
  table: PastTable,
): Promise<ComparedPastTable> {
  const { recorded } = table;
  const found = (await readFound(transaction, namedIn(table)))?.table ?? null;
  if (found === null) return { ...table, state: 'missing', checksum: null, damage: null };
  const columns = await columnsOf(transaction, postgis, table);
  const hasAll = columns.every((column) => isSameType(found.columns.get(column.columnName), column, postgis));
  if (!hasAll) return { ...table, state: 'altered', checksum: null, damage: null };
  const { checksum } = await readContent(transaction, qualified(namedIn(table)), columns);
  return { ...table, state: stateOfPast(checksum, recorded), checksum, damage: null };
}

function namedIn({ schema, name }: PastTable): Named {
  return { schemaName: schema, tableName: name };
}

/** In the order in which rows are hashed. */
async function columnsOf(
  transaction: Transaction,
  postgis: Postgis | null,
  { kind, logName }: PastTable,
): Promise<readonly HashedColumn[]> {
  const log = await logNamed(transaction, logName);
  if (log === undefined) return [];
  const columns = await pastCatalog(transaction, postgis).columnsOf(log);
  if (kind !== 'log') return columns;
  return logColumns(columns).map(([columnName, type]) => ({ columnName, type }));
}

async function logNamed(transaction: Transaction, logName: string | null): Promise<PastLog | undefined> {
  return (await readPastLogs(transaction)).find((log) => log.logName === logName);
}

export interface RenewedPast {
  readonly stored: readonly string[];
  readonly closed: readonly string[];
}

/** Stores the checksums of a dataset's past that are missing, or of another version of the hash; closes the logs that were altered. */
export async function renewPast(
  transaction: Transaction,
  postgis: Postgis | null,
  datasetId: string,
): Promise<RenewedPast> {
  const stored: string[] = [];
  const closed: string[] = [];
  for (const table of await readPastTables(transaction, [datasetId])) {
    const { state, checksum } = await comparePastTable(transaction, postgis, table);
    const { schema, name, logName } = table;
    if (state === 'unrecorded' && checksum !== null) {
      await transaction.run(await recordOf(transaction, postgis, table, checksum));
      stored.push(`${schema}.${name}`);
    } else if (state !== 'equal' && logName !== null) {
      await close(transaction, postgis, table, logName);
      closed.push(shownLog(logName));
    }
  }
  return { stored, closed: [...new Set(closed)] };
}

async function recordOf(
  transaction: Transaction,
  postgis: Postgis | null,
  table: PastTable,
  { sum, version }: Checksum,
): Promise<string> {
  const { kind, datasetId, logName } = table;
  const log = await logNamed(transaction, logName);
  if (kind === 'log' && log !== undefined) {
    return recordEntries(log.logName, await pastCatalog(transaction, postgis).columnsOf(log));
  }
  return kind === 'frozen'
    ? `UPDATE ${catalogTable('history_logs')} SET table_checksum = ${integer(sum)},
        table_checksum_version = ${text(version)} WHERE log_name = ${text(logName)}`
    : `UPDATE ${catalogTable('archived')} SET checksum = ${integer(sum)}, checksum_version = ${text(version)}
        WHERE dataset_id = ${text(datasetId)} AND table_name IN (${archivedNames(table).map(text).join(', ')})`;
}

/** The names by which the catalog may keep an archived table. */
function archivedNames({ schema, name }: PastTable): readonly string[] {
  return [name, recordedName({ schemaName: schema, tableName: name }, '')];
}

/** A log without its table leads nowhere, and ends. An altered one begins anew; what is left of it keeps its rows under another name. */
async function close(
  transaction: Transaction,
  postgis: Postgis | null,
  { kind, datasetId }: PastTable,
  logName: string,
): Promise<void> {
  const log = await logNamed(transaction, logName);
  if (log === undefined) return;
  if (kind !== 'log') return await transaction.runAll(dropLog(logName));
  const columns = await pastCatalog(transaction, postgis).columnsOf(log);
  const last = await lastCommit(transaction, datasetId, log);
  const { schemaName } = namedAs(logName, HISTORY_SCHEMA);
  const place = { schemaName, isDistributed: schemaName !== HISTORY_SCHEMA };
  const taken = await namesInHistory(transaction, place);
  const aside = taken.has(logName) ? freeName(`${logName}_unusable`, taken) : null;
  await transaction.runAll([
    ...replaceRemains(logName, aside),
    ...createLog(logAsOf(log, columns), postgis),
    ...closeLog(logName, columns, last, BY_HAND),
    recordEntries(logName, columns),
  ]);
}

/** The newest commit whose state the table of the log is. */
async function lastCommit(transaction: Transaction, datasetId: string, { frozenCommit }: PastLog) {
  const before = frozenCommit === null ? '' : ` AND commit_number < ${integer(frozenCommit)}`;
  const [row = []] = await transaction.rows(`SELECT max(commit_number), ${milliseconds('max(applied_at)')}
    FROM ${catalogTable('commits')} WHERE dataset_id = ${text(datasetId)}${before}`);
  return { commitNumber: numberAt(row, 0), appliedAt: dateAt(row, 1) };
}
