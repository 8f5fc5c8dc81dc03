/** Reads from the catalog which states each undo log can restore, and with which columns. */

import type { StorageError } from '../../../model/errors.ts';
import type { PastCommit } from '../../../model/past-states.ts';
import type { Engine, Row } from '../../../staging/engine/engine.ts';
import { DuckDbError } from '../../../staging/engine/errors.ts';
import { identifier, numberAt, text, textAt } from '../../../staging/engine/sql.ts';
import { pastCommitAt } from '../../catalog/commits.ts';
import type { PastCatalog } from '../../catalog/compare-states.ts';
import {
  altered,
  knownColumns,
  lacksEntries,
  loggedColumn,
  loggedColumnsOf,
  nameOfSource,
  pastLogAt,
  refuseOtherColumns,
  selectLoggedColumns,
} from '../../catalog/past-logs.ts';
import { type LoggedColumn, reasonOfBeginning } from '../../catalog/undo-logs.ts';
import type { PastLog } from '../../reader.ts';
import { hasLogs } from '../catalog/observed-state.ts';
import { catalogOf, catalogTable, historic, MIRROR, storesHistory } from '../catalog/schema.ts';
import { strayColumnsOf } from '../count-tables.ts';
import { namesInHistory } from './history.ts';

/** Returns the table of the newest state as SQL. */
export function sourceOf(log: PastLog): string {
  return `${identifier(MIRROR)}.${nameOfSource(log)}`;
}

/** Returns whether the mirror knows undo logs; false in a mirror of an earlier format, and where the list of logs was dropped by hand. */
export async function knowsLogs(engine: Engine, format: number): Promise<boolean> {
  return storesHistory(format) && (await hasLogs(engine));
}

/** Returns all logs, the newest of each dataset first; none where the format of the mirror has no history. */
export async function readPastLogs(engine: Engine, format: number | null): Promise<readonly PastLog[]> {
  if (format === null || !(await knowsLogs(engine, format))) return [];
  const rows = await engine.rows(`SELECT logs.dataset_id, names.table_name, log_name,
      greatest(first_commit, closed_commit), epoch_ms(greatest(first_time, closed_time)),
      ${reasonOfBeginning('')}, frozen_commit,
      epoch_ms(commits.applied_at), logs.table_name, logs.row_count, view_name IS NOT NULL
    FROM (FROM ${catalogOf(format, 'history_logs')}) AS logs JOIN ${catalogTable('names')} AS names USING (dataset_id)
      LEFT JOIN ${catalogTable('commits')} AS commits ON commit_number = frozen_commit
      LEFT JOIN (SELECT view_name FROM duckdb_views() WHERE database_name = ${text(MIRROR)} AND schema_name = 'history')
        ON logs.table_name = 'history.' || view_name
    ORDER BY frozen_commit DESC NULLS FIRST`);
  return rows.map(pastLogAt);
}

/**
 * Returns of each log the name and the first commit that it can restore. None where the list of logs cannot be read, or the format of
 * the mirror has none: a copy can be made all the same.
 */
export async function readPastBegins(engine: Engine): Promise<readonly Row[]> {
  try {
    return await engine.rows(
      `SELECT log_name, first_commit FROM ${catalogTable('history_logs')} ORDER BY ALL`,
    );
  } catch (error) {
    if (!(error instanceof DuckDbError) || error.fault === 'interrupted') throw error;
    return [];
  }
}

/** Returns the recorded columns of the live tables, by dataset id. */
export async function readLoggedColumns(
  engine: Engine,
): Promise<ReadonlyMap<string, readonly LoggedColumn[]>> {
  const rows = await engine.rows(`SELECT dataset_id, column_name, type, role FROM ${catalogTable('columns')}
    ORDER BY dataset_id, position`);
  const columns = new Map<string, LoggedColumn[]>();
  for (const row of rows) {
    const ofDataset = columns.get(textAt(row, 0)) ?? [];
    columns.set(textAt(row, 0), ofDataset);
    ofDataset.push(loggedColumn({ columnName: textAt(row, 1), type: textAt(row, 2), role: textAt(row, 3) }));
  }
  return columns;
}

/** Returns an error where the log is not there, or lacks entries: it would answer with rows of another state. */
export async function findAltered(engine: Engine, log: PastLog): Promise<StorageError | null> {
  const isThere = (await namesInHistory(engine)).has(log.logName);
  const [row] = isThere ? await engine.rows(`SELECT count(*) FROM ${historic(log.logName)}`) : [];
  return row === undefined || lacksEntries(log, numberAt(row, 0)) ? altered(log) : null;
}

/** @throws StorageError, DataError */
async function refuseAltered(engine: Engine, log: PastLog): Promise<void> {
  const error = await findAltered(engine, log);
  if (error !== null) throw error;
  if (log.frozenCommit !== null) return;
  const columns = await readColumnsOfLog(engine, log);
  refuseOtherColumns(log, await strayColumnsOf(engine, { tableName: log.tableName, columns }));
}

/** Returns the commits of a dataset, oldest first. */
export async function readPastCommits(
  engine: Engine,
  format: number,
  datasetId: string,
): Promise<readonly PastCommit[]> {
  const rows =
    await engine.rows(`SELECT commit_number, kind, from_version, to_version, epoch_ms(applied_at), restored_commit
    FROM ${catalogOf(format, 'commits')} WHERE dataset_id = ${text(datasetId)} ORDER BY commit_number`);
  return rows.map(pastCommitAt);
}

/** Returns the columns of the table that a log leads back from. @throws StorageError */
export async function readColumnsOfLog(engine: Engine, log: PastLog): Promise<readonly LoggedColumn[]> {
  return knownColumns(log, await findColumnsOfLog(engine, log, () => readLoggedColumns(engine)));
}

/** Returns the columns of the table that a log leads back from; null where the catalog has lost them. `live` as `readLoggedColumns`. */
export async function findColumnsOfLog(
  engine: Engine,
  { datasetId, frozenCommit }: PastLog,
  live: () => ReturnType<typeof readLoggedColumns>,
): Promise<readonly LoggedColumn[] | null> {
  if (frozenCommit === null) return (await live()).get(datasetId) ?? null;
  const select = selectLoggedColumns(catalogTable('commits'), datasetId, frozenCommit);
  return loggedColumnsOf(await engine.rows(select));
}

/** Returns the catalog of the past; `format`: of the mirror. */
export function pastCatalog(engine: Engine, format: number): PastCatalog {
  return {
    commits: (datasetId) => readPastCommits(engine, format, datasetId),
    logs: () => readPastLogs(engine, format),
    columnsOf: (log) => readColumnsOfLog(engine, log),
    refuseAltered: (log) => refuseAltered(engine, log),
  };
}
