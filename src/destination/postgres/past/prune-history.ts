/**
 * Forgets the past of tables that is older than it is to be kept: entries of undo logs, and frozen tables with their logs.
 *
 * Invariants: a log says which state is its earliest before anything of an earlier one is gone, in the same transaction. A reader
 * of a past that is to be forgotten delays no commit, and no log delays the others.
 */

import { dateAt, dateOrNullAt, integer, numberAt, text } from '../../../staging/engine/sql.ts';
import {
  endsOfStates,
  type OldLog,
  oldLogAt,
  type PastLimit,
  selectOldLogs,
} from '../../catalog/past-limit.ts';
import { type LoggedColumn, MAX_PRUNED_AT_ONCE, shownLog } from '../../catalog/undo-logs.ts';
import type { Forgotten } from '../../destination.ts';
import { catalogTable, HISTORY_SCHEMA, namedAs, qualified } from '../catalog/names.ts';
import { hasCatalog, readTables } from '../catalog/observed-state.ts';
import { milliseconds, timeOf } from '../catalog/schema.ts';
import type { Transaction } from '../connection.ts';
import { type Fault, PostgresError, sentence } from '../errors.ts';
import { deleteEntries, dropLog, historic } from './history.ts';

/** With the schema whose tables are written, where it is one. */
type InTransaction = <T>(work: (transaction: Transaction) => Promise<T>, schemaName?: string) => Promise<T>;

/** A reader who waits behind a statement that waits for another reader waits no longer; the log goes another time. */
const PATIENCE = "SET LOCAL lock_timeout = '200ms'";

/** The faults of one log alone: a reader holds it, a reader's object depends on it, it was altered by hand, or its node is missing. */
const FAULTS_OF_A_LOG: ReadonlySet<Fault> = new Set([
  'locked',
  'depended-on',
  'statement',
  'node-unavailable',
]);

/** A log that stays longer than it is to be kept. */
interface StayingLog {
  /** With its schema. */
  readonly table: string;
  readonly why: string;
}

interface Pruned {
  readonly forgotten: Forgotten;
  readonly isAnyForgotten: boolean;
  /** The first error of a log that a reader reads, or that was altered by hand. */
  readonly error: PostgresError | null;
  /** Logs that something of a reader hangs on, which is never dropped for it. */
  readonly staying: readonly StayingLog[];
}

/** Forgets what ended before `before`, in small transactions. @throws PostgresError */
export async function pruneHistory(
  inTransaction: InTransaction,
  limit: PastLimit,
  before: Date,
  isAwaited: () => boolean,
): Promise<Pruned> {
  const logs = await inTransaction((transaction) => readOldLogs(transaction, before));
  const staying: StayingLog[] = [];
  const errors: PostgresError[] = [];
  let isAnyForgotten = false;
  const forget = async (log: OldLog): Promise<boolean> => {
    try {
      const { schemaName } = namedAs(log.logName, HISTORY_SCHEMA);
      const isMore = await inTransaction((transaction) => forgetSome(transaction, log, before), schemaName);
      isAnyForgotten = true;
      return isMore;
    } catch (error) {
      if (!(error instanceof PostgresError) || !FAULTS_OF_A_LOG.has(error.fault)) throw error;
      limit.noteUnusable(log);
      if (error.fault !== 'depended-on') errors.push(error);
      else staying.push({ table: shownLog(log.logName), why: sentence(error) });
      return false;
    }
  };
  const isMore = await limit.prune(logs, forget, isAwaited);
  const [error = null] = errors;
  if (!isMore && error === null) limit.done(await inTransaction(readOldestEnd), logs.length > 0);
  const forgotten = logs.length === staying.length ? 'nothing' : isMore ? 'part' : 'all';
  return { forgotten, isAnyForgotten, error, staying };
}

async function forgetSome(transaction: Transaction, log: OldLog, before: Date): Promise<boolean> {
  await transaction.run(PATIENCE);
  return log.isFrozen ? await forgetFrozen(transaction, log) : await forgetEntries(transaction, log, before);
}

/** Returns when the oldest state that a log can restore ended; null: none can restore an earlier one than that of now. */
export async function readOldestEnd(transaction: Transaction): Promise<Date | null> {
  if (!(await hasCatalog(transaction))) return null;
  const [row = []] = await transaction.rows(
    `SELECT ${milliseconds('min(applied_at)')} ${endsOfStates(catalogTable('history_logs'), catalogTable('commits'))}`,
  );
  return dateOrNullAt(row, 0);
}

/** Returns the logs that can restore states which ended before `before`. */
async function readOldLogs(transaction: Transaction, before: Date): Promise<readonly OldLog[]> {
  const select = selectOldLogs(catalogTable('history_logs'), catalogTable('commits'), timeOf(before));
  return (await transaction.rows(select)).map(oldLogAt);
}

async function forgetFrozen(
  transaction: Transaction,
  { logName, tableName, datasetId }: OldLog,
): Promise<boolean> {
  const frozen = namedAs(tableName, HISTORY_SCHEMA);
  const { schemaName } = namedAs(logName, HISTORY_SCHEMA);
  const [found] = await transaction.rows(`SELECT c.relkind = 'v' FROM pg_class c
    JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = ${text(schemaName)} AND c.relname = ${text(frozen.tableName)} AND NOT EXISTS (
      SELECT 1 FROM ${catalogTable('archived')} WHERE dataset_id = ${text(datasetId)} AND table_name = ${text(tableName)})`);
  // An archived table stays: it is kept for other reasons than the past before it. An operator may have dropped ours already.
  const isOurs = frozen.schemaName === schemaName && found !== undefined;
  const drop = isOurs ? [`DROP ${found[0] === true ? 'VIEW' : 'TABLE'} IF EXISTS ${qualified(frozen)}`] : [];
  for (const statement of [...dropLog(logName), ...drop]) await transaction.run(statement);
  return false;
}

/** Returns whether further entries are to be forgotten. */
async function forgetEntries(transaction: Transaction, log: OldLog, before: Date): Promise<boolean> {
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
