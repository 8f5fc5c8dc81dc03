/**
 * Forgets the past of tables that is older than it is to be kept: entries of undo logs, and frozen tables with their logs.
 *
 * Invariants: a log says which state is its earliest before anything of an earlier one is gone, in the same transaction. No log, and
 * nothing that somebody did to one by hand, keeps the others from being forgotten.
 */

import type { Clock } from '../../../lib/clock.ts';
import type { Log } from '../../../lib/log.ts';
import type { StorageError } from '../../../model/errors.ts';
import type { Engine } from '../../../staging/engine/engine.ts';
import { runTogether } from '../../../staging/engine/engine.ts';
import { DuckDbError } from '../../../staging/engine/errors.ts';
import { dateAt, dateOrNullAt, integer, numberAt, text, timestamp } from '../../../staging/engine/sql.ts';
import { endsOfStates, type OldLog, oldLogAt, PastLimit, selectOldLogs } from '../../catalog/past-limit.ts';
import { altered } from '../../catalog/past-logs.ts';
import { type HistoryOptions, MAX_PRUNED_AT_ONCE, NO_HISTORY } from '../../catalog/undo-logs.ts';
import type { Forgotten } from '../../destination.ts';
import { ensureSchema } from '../catalog/format.ts';
import { catalogTable, historic, MIRROR } from '../catalog/schema.ts';
import { mirrorFileState } from '../mirror-file.ts';
import type { WaitForReaders, WriteSession, WriteSessions } from '../write-session.ts';
import { deleteEntries, dropLog, namesInHistory } from './history.ts';

interface PruningOptions {
  readonly path: string;
  readonly history?: HistoryOptions;
  readonly clock: Clock;
  readonly log: Log;
}

/** Whether other work on the mirror waits. */
type IsAwaited = () => boolean;

export class HistoryPruning {
  readonly #options: PruningOptions;
  readonly limit: PastLimit;

  constructor(options: PruningOptions) {
    const { history = NO_HISTORY, clock } = options;
    this.#options = options;
    this.limit = new PastLimit(history.keepMs, clock);
  }

  /** Reads how old the past of the attached mirror is. In doubt it is old: pruning then reports the error. */
  async measure(engine: Engine): Promise<void> {
    try {
      await this.limit.measure(() => readOldestEnd(engine));
    } catch (error) {
      if (!(error instanceof DuckDbError) || error.fault === 'interrupted') throw error;
      // The catalog of an earlier format, which has no logs, or a list of them that was dropped.
      this.limit.note(error.fault === 'statement' ? null : LONG_AGO);
    }
  }

  /** A failure is only logged, because the jobs are committed. */
  async pruneBesideCommits(session: WriteSession, isAwaited: IsAwaited): Promise<void> {
    const { log, path } = this.#options;
    try {
      await this.#prune(session, isAwaited);
    } catch (error) {
      this.limit.waitAgain();
      log.warn({ path, why: String(error) }, 'The past of tables could not be pruned; tables are committed.');
    }
  }

  /** In a write session of its own. */
  async pruneAlone(sessions: WriteSessions, isAwaited: IsAwaited, wait: WaitForReaders): Promise<Forgotten> {
    const { path } = this.#options;
    // A mirror that somebody removed is not made again for this.
    if ((await mirrorFileState(path)) === 'absent') return 'nothing';
    return await sessions.write(async (session) => {
      await session.transaction((engine) => ensureSchema(engine, path));
      return await this.#prune(session, isAwaited);
    }, wait);
  }

  async #prune(session: WriteSession, isAwaited: IsAwaited): Promise<Forgotten> {
    const before = this.limit.before();
    if (before === null) return 'nothing';
    const logs = await session.transaction((engine) => readOldLogs(engine, before));
    const unusable: StorageError[] = [];
    let isAnyForgotten = false;
    const forget = async (old: OldLog): Promise<boolean> => {
      try {
        const isMore = await session.transaction((engine) => forgetSome(engine, old, before), 'past');
        isAnyForgotten = true;
        return isMore;
      } catch (error) {
        if (!(error instanceof DuckDbError) || error.fault !== 'statement') throw error;
        unusable.push(altered(old));
        this.limit.noteUnusable(old);
        return false;
      }
    };
    const isMore = await this.limit.prune(logs, forget, isAwaited);
    const { log, path } = this.#options;
    if (isAnyForgotten)
      log.info({ path, before }, 'Forgot the past of tables that is older than history.keep.');
    const [first] = unusable;
    // After the answer `part` the caller asks for the rest at once.
    if (first !== undefined && !(isMore && isAnyForgotten)) throw first;
    if (!isMore) this.limit.done(await session.transaction(readOldestEnd), logs.length > 0);
    if (logs.length === 0) return 'nothing';
    return isMore ? 'part' : 'all';
  }
}

const LONG_AGO = new Date(0);

/** Null: no log can restore an earlier state than that of now. */
async function readOldestEnd(engine: Engine): Promise<Date | null> {
  const [row = []] = await engine.rows(
    `SELECT epoch_ms(min(applied_at)) ${endsOfStates(catalogTable('history_logs'), catalogTable('commits'))}`,
  );
  return dateOrNullAt(row, 0);
}

/** Returns the logs that can restore states which ended before `before`. */
async function readOldLogs(engine: Engine, before: Date): Promise<readonly OldLog[]> {
  const select = selectOldLogs(catalogTable('history_logs'), catalogTable('commits'), timestamp(before));
  return (await engine.rows(select)).map(oldLogAt);
}

/** Returns whether more of it is to be forgotten. */
async function forgetSome(engine: Engine, log: OldLog, before: Date): Promise<boolean> {
  return log.isFrozen ? await forgetFrozen(engine, log) : await forgetEntries(engine, log, before);
}

async function forgetFrozen(engine: Engine, { logName, tableName }: OldLog): Promise<boolean> {
  const [schema, name] = tableName.split('.');
  const isOurs = schema === 'history' && name !== undefined;
  const [view] = isOurs
    ? await engine.rows(`SELECT 1 FROM duckdb_views()
        WHERE database_name = ${text(MIRROR)} AND schema_name = 'history' AND view_name = ${text(name)}`)
    : [];
  // An archived table stays: it is kept for other reasons than the past before it. An operator may have dropped ours already.
  const drop = isOurs ? [`DROP ${view === undefined ? 'TABLE' : 'VIEW'} IF EXISTS ${historic(name)}`] : [];
  await runTogether(engine, [...dropLog(logName), ...drop]);
  return false;
}

async function forgetEntries(engine: Engine, log: OldLog, before: Date): Promise<boolean> {
  const [newest] =
    await engine.rows(`SELECT commit_number, epoch_ms(applied_at) FROM ${catalogTable('commits')}
    WHERE dataset_id = ${text(log.datasetId)} AND applied_at < ${timestamp(before)}
      AND commit_number > (SELECT first_commit FROM ${catalogTable('history_logs')} WHERE log_name = ${text(log.logName)})
    ORDER BY commit_number DESC LIMIT 1`);
  if (newest === undefined) return false;
  const target = numberAt(newest, 0);
  // One that was dropped by hand has no entries, and is closed by the next commit or `verify`.
  const isThere = (await namesInHistory(engine)).has(log.logName);
  const [cut] = isThere ? await engine.rows(selectCut(log.logName, target)) : [];
  const [commit, time] = cut === undefined ? [target, dateAt(newest, 1)] : [numberAt(cut, 0), dateAt(cut, 1)];
  await runTogether(engine, [
    `UPDATE ${catalogTable('history_logs')} SET first_commit = ${integer(commit)}, first_time = ${timestamp(time)}
      WHERE log_name = ${text(log.logName)}`,
    ...(isThere ? deleteEntries(log.logName, commit) : []),
  ]);
  return commit < target;
}

/** Selects the commit at which a transaction has deleted enough entries, and its time; no row where those up to `target` are fewer. */
function selectCut(logName: string, target: number): string {
  return `SELECT _commit, epoch_ms(any_value(_applied_at)) FROM (
      SELECT _commit, _applied_at, sum(count(*)) OVER (ORDER BY _commit) AS rows_so_far
      FROM ${historic(logName)} WHERE _commit <= ${integer(target)} GROUP BY _commit, _applied_at)
    WHERE rows_so_far >= ${MAX_PRUNED_AT_ONCE} GROUP BY _commit ORDER BY _commit LIMIT 1`;
}
