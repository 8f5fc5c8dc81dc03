/**
 * Forgets the past of tables that is older than it is to be kept: entries of undo logs, and frozen tables with their logs.
 *
 * Invariant: a log says which state is its earliest before anything of an earlier one is gone, in the same transaction.
 */

import type { Engine } from '../../staging/engine/engine.ts';
import { runTogether } from '../../staging/engine/engine.ts';
import {
  dateAt,
  integer,
  numberAt,
  numberOrNullAt,
  text,
  textAt,
  timestamp,
} from '../../staging/engine/sql.ts';
import { MAX_PRUNED_AT_ONCE } from '../catalog/undo-logs.ts';
import { catalogTable, historic, MIRROR } from './catalog/schema.ts';
import { deleteEntries, dropLog } from './history.ts';
import type { WriteSession } from './write-session.ts';

interface KeptLog {
  readonly logName: string;
  readonly tableName: string;
  readonly datasetId: string;
  readonly isFrozen: boolean;
}

/** Forgets what came to an end before `before`, in small transactions. Returns the number of transactions. */
export async function pruneHistory(session: WriteSession, before: Date): Promise<number> {
  const logs = await session.transaction((engine) => readPrunable(engine, before));
  let transactions = 0;
  for (const log of logs) {
    for (let isMore = true; isMore; ) {
      isMore = await session.transaction((engine) =>
        log.isFrozen ? forgetFrozen(engine, log) : forgetEntries(engine, log, before),
      );
      transactions += 1;
    }
  }
  return transactions;
}

/** A log begins before `before`, or was frozen before it. */
async function readPrunable(engine: Engine, before: Date): Promise<readonly KeptLog[]> {
  const rows = await engine.rows(`SELECT log_name, table_name, dataset_id, frozen_commit
    FROM ${catalogTable('history_logs')} logs WHERE CASE WHEN frozen_commit IS NULL
      THEN first_time < ${timestamp(before)}
      ELSE (SELECT applied_at FROM ${catalogTable('commits')} WHERE commit_number = logs.frozen_commit) < ${timestamp(before)} END
    ORDER BY log_name`);
  return rows.map((row) => ({
    logName: textAt(row, 0),
    tableName: textAt(row, 1),
    datasetId: textAt(row, 2),
    isFrozen: numberOrNullAt(row, 3) !== null,
  }));
}

async function forgetFrozen(engine: Engine, { logName, tableName }: KeptLog): Promise<boolean> {
  const [schema, name] = tableName.split('.');
  const isOurs = schema === 'history' && name !== undefined;
  const [view] = isOurs
    ? await engine.rows(`SELECT 1 FROM duckdb_views()
        WHERE database_name = ${text(MIRROR)} AND schema_name = 'history' AND view_name = ${text(name)}`)
    : [];
  // An archived table stays: it is kept for other reasons than the past before it.
  const drop = isOurs ? [`DROP ${view === undefined ? 'TABLE' : 'VIEW'} ${historic(name)}`] : [];
  await runTogether(engine, [...dropLog(logName), ...drop]);
  return false;
}

/** Returns whether further entries are to be forgotten. */
async function forgetEntries(engine: Engine, log: KeptLog, before: Date): Promise<boolean> {
  const [newest] =
    await engine.rows(`SELECT commit_number, epoch_ms(applied_at) FROM ${catalogTable('commits')}
    WHERE dataset_id = ${text(log.datasetId)} AND applied_at < ${timestamp(before)}
      AND commit_number > (SELECT first_commit FROM ${catalogTable('history_logs')} WHERE log_name = ${text(log.logName)})
    ORDER BY commit_number DESC LIMIT 1`);
  if (newest === undefined) return false;
  const target = numberAt(newest, 0);
  const [cut] = await engine.rows(`SELECT _commit, epoch_ms(any_value(_applied_at)) FROM (
      SELECT _commit, _applied_at, sum(count(*)) OVER (ORDER BY _commit) AS rows_so_far
      FROM ${historic(log.logName)} WHERE _commit <= ${integer(target)} GROUP BY _commit, _applied_at)
    WHERE rows_so_far >= ${MAX_PRUNED_AT_ONCE} GROUP BY _commit ORDER BY _commit LIMIT 1`);
  const [commit, time] = cut === undefined ? [target, dateAt(newest, 1)] : [numberAt(cut, 0), dateAt(cut, 1)];
  await runTogether(engine, [
    `UPDATE ${catalogTable('history_logs')} SET first_commit = ${integer(commit)}, first_time = ${timestamp(time)}
      WHERE log_name = ${text(log.logName)}`,
    ...deleteEntries(log.logName, commit),
  ]);
  return commit < target;
}
