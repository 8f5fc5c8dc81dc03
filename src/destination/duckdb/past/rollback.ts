/**
 * Rolls a table back inside the given transaction: its rows, columns and catalog are again those that an earlier commit left, and
 * the table is pinned there. The undo log keeps the state before, as it does of every commit.
 *
 * Invariant: the table ends with the row count and the checksum that the commit recorded, or nothing is changed.
 */

import { isDeepStrictEqual } from 'node:util';
import type { CommitResult } from '../../../model/commits.ts';
import { TABLE_MISSING } from '../../../model/lost-past.ts';
import type { ObservedTable, RollbackJob } from '../../../model/write-jobs.ts';
import { netColumn, PRESENT } from '../../../staging/changes/columns.ts';
import { type Engine, runTogether } from '../../../staging/engine/engine.ts';
import { DuckDbError, mirrorError } from '../../../staging/engine/errors.ts';
import { identifier, integer, numberAt } from '../../../staging/engine/sql.ts';
import { observedColumn, type RecordedColumn } from '../../catalog/columns.ts';
import { type CatalogEntry, entryOfRollback } from '../../catalog/entries.ts';
import { isSameTable } from '../../catalog/guard.ts';
import {
  notRestored,
  plannedColumn,
  proveRestored,
  type RestoredState,
  restoredState,
  shapeOf,
} from '../../catalog/restored-state.ts';
import { nameInLog } from '../../catalog/undo-logs.ts';
import { readRecordedState } from '../catalog/recorded-state.ts';
import { FORMAT_VERSION, historic } from '../catalog/schema.ts';
import { computeChecksum } from '../checksum.ts';
import { strayColumnsOf } from '../count-tables.ts';
import { differenceByKeys, incomparable } from '../difference.ts';
import { LOADING, swap } from '../load-sql.ts';
import { rewrittenIfMuch, tableAfter } from '../table-after.ts';
import { type Current, comments } from '../tables.ts';
import type { Turn, ValidatedWrite } from '../validate.ts';
import { type NetRows, type TouchedRows, UnprovenError, wholeBefore, writeNet } from '../write-net-change.ts';
import { logOfCommit, logOfSwap } from './commit-log.ts';
import { earliestOf, namesInHistory, selectStateAfter } from './history.ts';
import { pastCatalog, readColumnsOfLog, sourceOf } from './past-logs.ts';

export async function validateRollback(_engine: Engine, job: RollbackJob): Promise<ValidatedWrite> {
  return {
    job,
    rowCount: job.plannedFrom.rowCount,
    tableRows: job.plannedFrom.rowCount,
    bytes: 0,
    execute: (engine, current, turn) => rollBack(engine, { job, current, turn }),
    explain: async (_examiner, error, place) =>
      error instanceof DuckDbError && error.fault === 'statement'
        ? notRestored(job, error.message)
        : mirrorError(error, place),
  };
}

interface RollingBack {
  readonly job: RollbackJob;
  readonly current: Current;
  readonly turn: Turn;
}

/** Returns the catalog entry; null when the mirror differs from the plan's observed state. @throws DataError, UsageError */
async function rollBack(engine: Engine, rollingBack: RollingBack): Promise<CatalogEntry | null> {
  const { job, current, turn } = rollingBack;
  const { live, recordedColumns } = current;
  if (!isSameTable(live, job.plannedFrom)) return null;
  const target = await restoredState(job, pastCatalog(engine, FORMAT_VERSION), (commit) =>
    readRecordedState(engine, commit),
  );
  const isSame =
    target.log.frozenCommit === null &&
    current.existingObject === 'table' &&
    turn.incomparable === null &&
    (await strayColumnsOf(engine, live)).length === 0 &&
    isDeepStrictEqual(shapeOf(target.columns), shapeOf(recordedColumns));
  const restore = isSame ? editBack : swapBack;
  const net = await restore(engine, rollingBack, live, target);
  const { appliedAt } = turn;
  const isLogged = turn.keepsHistory && target.table.keyColumns.length > 0;
  return entryOfRollback(job, target, { live, recordedColumns, net, appliedAt, isLogged });
}

const UNDONE = `temp.${identifier('feed-sync: undone')}`;

/** Undoes, key by key, what the later commits did. */
async function editBack(
  engine: Engine,
  { job, current, turn }: RollingBack,
  live: ObservedTable,
  target: RestoredState,
): Promise<CommitResult['net']> {
  const { tableName, datasetId } = live;
  const planned = target.columns.map(plannedColumn);
  const log = logOfCommit(current, live, turn, target.table, await namesInHistory(engine));
  const { columns, alteration } = tableAfter(live.columns, planned);
  try {
    const before = await wholeBefore(engine, live, current, {
      isLogged: log !== null,
      checksumAfter: 'computed',
    });
    const net = await createUndone(engine, target, job.toCommit);
    const after = rewrittenIfMuch({ columns, alteration }, net, before.found);
    await runTogether(engine, log?.before(after) ?? []);
    const observer = { readsRows: log !== null, logEntries: (rows: TouchedRows) => log?.entries(rows) ?? [] };
    const written = await writeNet(engine, { tableName, net, columns }, after.alteration, before, observer);
    proveRestored(job, target, written);
    await runTogether(engine, [
      ...comments(tableName, datasetId, columns),
      ...(log?.after(after, written.wereAltered) ?? []),
      `DROP TABLE ${UNDONE}`,
    ]);
    return written.net;
  } catch (error) {
    throw error instanceof UnprovenError ? notRestored(job, error.message) : error;
  }
}

async function createUndone(
  engine: Engine,
  { log, columns }: RestoredState,
  toCommit: number,
): Promise<NetRows> {
  const logged = columns.map(recordedShape);
  const values = logged.map(({ columnName }, index) => `${nameInLog(columnName)} AS ${netColumn(index)}`);
  const later = `(SELECT * FROM ${historic(log.logName)} WHERE _commit > ${integer(toCommit)})`;
  await engine.run(`CREATE TEMP TABLE ${UNDONE} AS SELECT ${values.join(', ')}, _operation <> 'added' AS ${PRESENT}
    FROM (${earliestOf(logged, later)})`);
  const [row = []] = await engine.rows(
    `SELECT count(*) FILTER (${PRESENT}), count(*) FILTER (NOT ${PRESENT}) FROM ${UNDONE}`,
  );
  return { from: UNDONE, rows: numberAt(row, 0), removals: numberAt(row, 1) };
}

/** Writes the state into a new table, which takes the place of the live one; that one and its log are frozen. */
async function swapBack(
  engine: Engine,
  { job, current, turn }: RollingBack,
  live: ObservedTable,
  target: RestoredState,
): Promise<CommitResult['net']> {
  const { tableName, datasetId } = live;
  const columns = target.columns.map(plannedColumn);
  const names = columns.map(({ columnName }) => identifier(columnName));
  const source = { logName: target.log.logName, source: sourceOf(target.log) };
  const state = selectStateAfter(await readColumnsOfLog(engine, target.log), source, job.toCommit);
  await engine.runWhileSpaceIsFree(`CREATE TABLE ${LOADING} AS SELECT ${names.join(', ')} FROM (${state})`);
  const [row = []] = await engine.rows(`SELECT count(*) FROM ${LOADING}`);
  const columnNames = columns.map(({ columnName }) => columnName);
  const rowCount = numberAt(row, 0);
  proveRestored(job, target, { rowCount, checksum: await computeChecksum(engine, LOADING, columnNames) });
  const keyColumns = columns.filter(({ role }) => role === 'key');
  const net =
    turn.incomparable === null ? await differenceByKeys(engine, current, keyColumns, rowCount) : null;
  const missing = current.existingObject === 'table' ? null : TABLE_MISSING;
  const log = logOfSwap(current.logName, turn, {
    live,
    checksum: current.checksum,
    loaded: { datasetId, tableName, columns },
    isSameTable: false,
    unreadable: turn.incomparable ?? missing,
    taken: await namesInHistory(engine),
  });
  try {
    await engine.runWithinReserve(log.before);
    await runTogether(engine, [
      ...swap(tableName, current.existingObject === 'table'),
      ...comments(tableName, datasetId, columns),
      ...log.after,
    ]);
  } catch (error) {
    // Only a table that cannot be read may cost its log; any other failure leaves both as they are.
    const isUnreadable = error instanceof DuckDbError && error.fault === 'unreadable';
    throw isUnreadable ? incomparable(datasetId, error) : error;
  }
  return net;
}

function recordedShape(recorded: RecordedColumn) {
  const { columnName, type, role } = observedColumn(recorded);
  return { columnName, type, role };
}
