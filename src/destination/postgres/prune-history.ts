/**
 * Forgets the past of tables that is older than it is to be kept: entries of undo logs, and frozen tables with their logs.
 *
 * Invariants: a log says which state is its earliest before anything of an earlier one is gone, in the same transaction. Commits wait
 * neither for a reader of a past that goes, nor does one log hold up the others.
 */

import { dateAt, integer, numberAt, numberOrNullAt, text, textAt } from '../../staging/engine/sql.ts';
import { type LoggedColumn, MAX_PRUNED_AT_ONCE } from '../catalog/undo-logs.ts';
import { readTables } from './catalog/observed-state.ts';
import { catalogTable, HISTORY_SCHEMA, milliseconds, timeOf } from './catalog/schema.ts';
import type { Transaction } from './connection.ts';
import { type Fault, PostgresError } from './errors.ts';
import { deleteEntries, dropLog, historic } from './history.ts';

interface KeptLog {
  readonly logName: string;
  readonly tableName: string;
  readonly datasetId: string;
  readonly isFrozen: boolean;
}

type InTransaction = <T>(work: (transaction: Transaction) => Promise<T>) => Promise<T>;

/** A reader who waits behind a statement that waits for another reader waits no longer; the log goes another time. */
const PATIENCE = "SET LOCAL lock_timeout = '200ms'";

/** What concerns one log alone: a reader has it, something of a reader hangs on it, or it was altered by hand. */
const FAULTS_OF_A_LOG: ReadonlySet<Fault> = new Set(['locked', 'depended-on', 'statement']);

/** Forgets what came to an end before `before`, in small transactions. @throws PostgresError after the other logs, where one stays */
export async function pruneHistory(inTransaction: InTransaction, before: Date): Promise<void> {
  const errors: PostgresError[] = [];
  for (const log of await inTransaction((transaction) => readPrunable(transaction, before))) {
    try {
      await pruneLog(inTransaction, log, before);
    } catch (error) {
      if (!(error instanceof PostgresError) || !FAULTS_OF_A_LOG.has(error.fault)) throw error;
      errors.push(error);
    }
  }
  const [first] = errors;
  if (first !== undefined) throw first;
}

async function pruneLog(inTransaction: InTransaction, log: KeptLog, before: Date): Promise<void> {
  for (let isMore = true; isMore; ) {
    isMore = await inTransaction(async (transaction) => {
      await transaction.run(PATIENCE);
      return log.isFrozen
        ? await forgetFrozen(transaction, log)
        : await forgetEntries(transaction, log, before);
    });
  }
}

/** A log begins before `before`, or was frozen before it. */
async function readPrunable(transaction: Transaction, before: Date): Promise<readonly KeptLog[]> {
  const rows = await transaction.rows(`SELECT log_name, table_name, dataset_id, frozen_commit
    FROM ${catalogTable('history_logs')} logs WHERE CASE WHEN frozen_commit IS NULL
      THEN first_time < ${timeOf(before)}
      ELSE (SELECT applied_at FROM ${catalogTable('commits')} WHERE commit_number = logs.frozen_commit) < ${timeOf(before)} END
    ORDER BY log_name`);
  return rows.map((row) => ({
    logName: textAt(row, 0),
    tableName: textAt(row, 1),
    datasetId: textAt(row, 2),
    isFrozen: numberOrNullAt(row, 3) !== null,
  }));
}

async function forgetFrozen(transaction: Transaction, { logName, tableName }: KeptLog): Promise<boolean> {
  const [schema, name] = tableName.split('.');
  const isOurs = schema === HISTORY_SCHEMA && name !== undefined;
  const [view] = isOurs
    ? await transaction.rows(`SELECT 1 FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE n.nspname = ${text(HISTORY_SCHEMA)} AND c.relname = ${text(name)} AND c.relkind = 'v'`)
    : [];
  // An archived table stays: it is kept for other reasons than the past before it.
  const drop = isOurs ? [`DROP ${view === undefined ? 'TABLE' : 'VIEW'} ${historic(name)}`] : [];
  for (const statement of [...dropLog(logName), ...drop]) await transaction.run(statement);
  return false;
}

/** Returns whether further entries are to be forgotten. */
async function forgetEntries(transaction: Transaction, log: KeptLog, before: Date): Promise<boolean> {
  const [newest] = await transaction.rows(`SELECT commit_number, ${milliseconds('applied_at')}
    FROM ${catalogTable('commits')}
    WHERE dataset_id = ${text(log.datasetId)} AND applied_at < ${timeOf(before)}
      AND commit_number > (SELECT first_commit FROM ${catalogTable('history_logs')} WHERE log_name = ${text(log.logName)})
    ORDER BY commit_number DESC LIMIT 1`);
  if (newest === undefined) return false;
  const target = numberAt(newest, 0);
  const [cut] = await transaction.rows(`SELECT _commit, ${milliseconds('min(_applied_at)')} FROM (
      SELECT _commit, min(_applied_at) AS _applied_at, sum(count(*)) OVER (ORDER BY _commit) AS rows_so_far
      FROM ${historic(log.logName)} WHERE _commit <= ${integer(target)} GROUP BY _commit) AS counted
    WHERE rows_so_far >= ${MAX_PRUNED_AT_ONCE} GROUP BY _commit ORDER BY _commit LIMIT 1`);
  const [commit, time] = cut === undefined ? [target, dateAt(newest, 1)] : [numberAt(cut, 0), dateAt(cut, 1)];
  const columns = await columnsOf(transaction, log.datasetId);
  const noted = `UPDATE ${catalogTable('history_logs')} SET first_commit = ${integer(commit)},
    first_time = ${timeOf(time)} WHERE log_name = ${text(log.logName)}`;
  for (const statement of [noted, ...deleteEntries(log.logName, columns, commit)])
    await transaction.run(statement);
  return commit < target;
}

async function columnsOf(transaction: Transaction, datasetId: string): Promise<readonly LoggedColumn[]> {
  return (await readTables(transaction, [datasetId])).get(datasetId)?.observed.columns ?? [];
}
