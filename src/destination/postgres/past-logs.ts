/** Reads from the catalog which states each undo log can restore, and with which columns. */

import { assert } from '../../lib/assert.ts';
import type { StorageError } from '../../model/errors.ts';
import type { PastCommit } from '../../model/past-states.ts';
import {
  booleanAt,
  dateAt,
  dateOrNullAt,
  identifier,
  integer,
  numberAt,
  numberOrNullAt,
  text,
  textAt,
  textOrNullAt,
} from '../../staging/engine/sql.ts';
import { pastCommitAt } from '../catalog/commits.ts';
import type { PastCatalog } from '../catalog/compare-states.ts';
import { altered, loggedColumnsFrom, refuseOtherColumns, unlistedColumns } from '../catalog/past-logs.ts';
import { type LoggedColumn, reasonOfBeginning } from '../catalog/undo-logs.ts';
import type { PastLog } from '../reader.ts';
import { readTables } from './catalog/observed-state.ts';
import { catalogTable, HISTORY_SCHEMA, milliseconds } from './catalog/schema.ts';
import type { Transaction } from './connection.ts';
import { strayOf } from './count-tables.ts';
import { historic, type Log, namesInHistory } from './history.ts';
import { readFound } from './tables.ts';
import type { Postgis } from './types.ts';

/** Returns the log with the table of its newest state. */
export function logAsOf({ logName, source }: PastLog, columns: readonly LoggedColumn[]): Log {
  const [schema = '', ...name] = source.split('.');
  return { logName, columns, source: [schema, name.join('.')].map(identifier).join('.') };
}

export function pastCatalog(transaction: Transaction, postgis: Postgis | null): PastCatalog {
  return {
    commits: (datasetId) => readPastCommits(transaction, datasetId),
    logs: () => readPastLogs(transaction),
    columnsOf: (log) => readColumnsOfLog(transaction, log),
    async refuseAltered(log) {
      const error = await findAltered(transaction, log);
      if (error !== null) throw error;
      if (log.frozenCommit === null) await refuseAlteredColumns(transaction, postgis, log);
    },
  };
}

/** Returns all logs, the newest of each dataset first. */
export async function readPastLogs(transaction: Transaction): Promise<readonly PastLog[]> {
  const rows = await transaction.rows(`SELECT logs.dataset_id, names.table_name, logs.log_name,
      greatest(logs.first_commit, logs.closed_commit),
      ${milliseconds('greatest(logs.first_time, logs.closed_time)')},
      ${reasonOfBeginning('logs.')}, logs.frozen_commit,
      ${milliseconds('commits.applied_at')}, logs.table_name, logs.row_count,
      EXISTS (SELECT 1 FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE n.nspname = ${text(HISTORY_SCHEMA)} AND c.relkind = 'v'
          AND logs.table_name = ${text(`${HISTORY_SCHEMA}.`)} || c.relname)
    FROM ${catalogTable('history_logs')} AS logs JOIN ${catalogTable('names')} AS names USING (dataset_id)
      LEFT JOIN ${catalogTable('commits')} AS commits ON commits.commit_number = logs.frozen_commit
    ORDER BY logs.frozen_commit DESC NULLS FIRST, logs.log_name COLLATE "C"`);
  return rows.map((row) => ({
    datasetId: textAt(row, 0),
    tableName: textAt(row, 1),
    logName: textAt(row, 2),
    firstCommit: numberAt(row, 3),
    firstTime: dateAt(row, 4),
    closedReason: textOrNullAt(row, 5),
    frozenCommit: numberOrNullAt(row, 6),
    frozenTime: dateOrNullAt(row, 7),
    source: textAt(row, 8),
    rowCount: numberOrNullAt(row, 9),
    isKept: booleanAt(row, 10),
  }));
}

/** Returns the commits of a dataset, oldest first. */
async function readPastCommits(transaction: Transaction, datasetId: string): Promise<readonly PastCommit[]> {
  const rows = await transaction.rows(`SELECT commit_number, kind, from_version, to_version,
      ${milliseconds('applied_at')}, restored_commit
    FROM ${catalogTable('commits')} WHERE dataset_id = ${text(datasetId)} ORDER BY commit_number`);
  return rows.map(pastCommitAt);
}

async function readColumnsOfLog(
  transaction: Transaction,
  { datasetId, frozenCommit }: PastLog,
): Promise<readonly LoggedColumn[]> {
  if (frozenCommit === null) {
    const columns = (await readTables(transaction, [datasetId])).get(datasetId)?.observed.columns ?? [];
    if (columns.length > 0) return columns;
    throw unlistedColumns(datasetId);
  }
  const [row] = await transaction.rows(`SELECT columns FROM ${catalogTable('commits')}
    WHERE dataset_id = ${text(datasetId)} AND commit_number < ${integer(frozenCommit)} AND columns IS NOT NULL
    ORDER BY commit_number DESC LIMIT 1`);
  assert(row !== undefined, 'a commit that was logged has recorded its columns');
  return loggedColumnsFrom(textAt(row, 0));
}

/** Returns an error where the log is not there, or lacks entries: it would answer with rows of another state. */
export async function findAltered(transaction: Transaction, log: PastLog): Promise<StorageError | null> {
  const isThere = (await namesInHistory(transaction)).has(log.logName);
  const [row] = isThere ? await transaction.rows(`SELECT count(*) FROM ${historic(log.logName)}`) : [];
  const isWhole = row !== undefined && (log.rowCount === null || numberAt(row, 0) === log.rowCount);
  return isWhole ? null : altered(log);
}

/** @throws DataError */
async function refuseAlteredColumns(
  transaction: Transaction,
  postgis: Postgis | null,
  log: PastLog,
): Promise<void> {
  const columns = await readColumnsOfLog(transaction, log);
  const found = (await readFound(transaction, log.tableName))?.table?.columns ?? new Map<string, string>();
  refuseOtherColumns(log, strayOf({ columns }, found, postgis));
}
