/** Reads from the catalog which states each undo log can restore, and with which columns. */

import type { StorageError } from '../../../model/errors.ts';
import type { PastCommit } from '../../../model/past-states.ts';
import { numberAt, text } from '../../../staging/engine/sql.ts';
import { pastCommitAt } from '../../catalog/commits.ts';
import type { PastCatalog } from '../../catalog/compare-states.ts';
import {
  altered,
  knownColumns,
  lacksEntries,
  loggedColumnsOf,
  nameOfSource,
  pastLogAt,
  refuseOtherColumns,
  selectLoggedColumns,
} from '../../catalog/past-logs.ts';
import { type LoggedColumn, reasonOfBeginning } from '../../catalog/undo-logs.ts';
import type { PastLog } from '../../reader.ts';
import { catalogTable, LIVE_SCHEMA, namedAs } from '../catalog/names.ts';
import { readTables } from '../catalog/observed-state.ts';
import { milliseconds } from '../catalog/schema.ts';
import type { Transaction } from '../connection.ts';
import { strayOf } from '../count-tables.ts';
import { readFound } from '../tables.ts';
import type { Postgis } from '../types.ts';
import { historic, type Log } from './history.ts';

/** Returns the log with the table of its newest state. */
export function logAsOf(log: PastLog, columns: readonly LoggedColumn[]): Log {
  return { logName: log.logName, columns, source: nameOfSource(log) };
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
        WHERE c.relkind = 'v' AND logs.table_name = n.nspname || '.' || c.relname)
    FROM ${catalogTable('history_logs')} AS logs JOIN ${catalogTable('names')} AS names USING (dataset_id)
      LEFT JOIN ${catalogTable('commits')} AS commits ON commits.commit_number = logs.frozen_commit
    ORDER BY logs.frozen_commit DESC NULLS FIRST, logs.log_name COLLATE "C"`);
  return rows.map(pastLogAt);
}

/** Returns the commits of a dataset, oldest first. */
async function readPastCommits(transaction: Transaction, datasetId: string): Promise<readonly PastCommit[]> {
  const rows = await transaction.rows(`SELECT commit_number, kind, from_version, to_version,
      ${milliseconds('applied_at')}, restored_commit
    FROM ${catalogTable('commits')} WHERE dataset_id = ${text(datasetId)} ORDER BY commit_number`);
  return rows.map(pastCommitAt);
}

async function readColumnsOfLog(transaction: Transaction, log: PastLog): Promise<readonly LoggedColumn[]> {
  return knownColumns(log, await findColumnsOfLog(transaction, log));
}

/** Returns the columns of the table that a log leads back from; null where the catalog has lost them. */
export async function findColumnsOfLog(
  transaction: Transaction,
  { datasetId, frozenCommit }: PastLog,
): Promise<readonly LoggedColumn[] | null> {
  if (frozenCommit === null) {
    const columns = (await readTables(transaction, [datasetId])).get(datasetId)?.observed.columns ?? [];
    return columns.length > 0 ? columns : null;
  }
  const select = selectLoggedColumns(catalogTable('commits'), datasetId, frozenCommit);
  return loggedColumnsOf(await transaction.rows(select));
}

/** Returns an error where the log is not there, or lacks entries: it would answer with rows of another state. */
export async function findAltered(transaction: Transaction, log: PastLog): Promise<StorageError | null> {
  const [[isThere] = []] = await transaction.rows(
    `SELECT to_regclass(${text(historic(log.logName))}) IS NOT NULL`,
  );
  const [row] =
    isThere === true ? await transaction.rows(`SELECT count(*) FROM ${historic(log.logName)}`) : [];
  return row === undefined || lacksEntries(log, numberAt(row, 0)) ? altered(log) : null;
}

/** @throws DataError */
async function refuseAlteredColumns(
  transaction: Transaction,
  postgis: Postgis | null,
  log: PastLog,
): Promise<void> {
  const columns = await readColumnsOfLog(transaction, log);
  const table = (await readFound(transaction, namedAs(log.source, LIVE_SCHEMA)))?.table;
  const found = table?.columns ?? new Map<string, string>();
  refuseOtherColumns(log, strayOf({ columns }, found, postgis));
}
