/**
 * Rolls a table back: its rows, columns and catalog are again those that an earlier commit left, and the table is pinned there. The undo
 * log keeps the state before, as it does of every commit.
 *
 * Invariant: the table ends with the row count and the checksum that the commit recorded, or nothing is changed.
 */

import { isDeepStrictEqual } from 'node:util';
import type { RowDifference } from '../../../model/commits.ts';
import type { ObservedTable, RollbackJob } from '../../../model/write-jobs.ts';
import type { Engine } from '../../../staging/engine/engine.ts';
import { identifier, integer } from '../../../staging/engine/sql.ts';
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
import type { Awaiting } from '../../judge-commit.ts';
import { qualified } from '../catalog/names.ts';
import type { Current } from '../catalog/observed-state.ts';
import { readRecordedState } from '../catalog/recorded-state.ts';
import { readContent } from '../content.ts';
import { datasetError, PostgresError, sentence } from '../errors.ts';
import type { Turn, ValidatedWrite } from '../job.ts';
import { finishTable } from '../load-snapshot.ts';
import { analyzeStage, columnNames, makeStage, stageOf, stageWithColumns, type Target } from '../stage.ts';
import { addKey, alterationTo, comments, createTable, type FoundTable, isSameType } from '../tables.ts';
import { writeStaged } from '../write-staged.ts';
import { earliestOf, historic, selectStateAfter } from './history.ts';
import { logAsOf, pastCatalog } from './past-logs.ts';

export async function validateRollback(
  _engine: Engine,
  job: RollbackJob,
  place: string,
): Promise<ValidatedWrite> {
  return {
    job,
    execute: (turn, current) => rollBack(turn, job, current),
    explain: async (_examiner, error) =>
      error instanceof PostgresError && (error.fault === 'statement' || error.fault === 'value')
        ? notRestored(job, sentence(error))
        : datasetError(error, place),
  };
}

/** Returns the catalog entry; null when the mirror differs from the plan's observed state. @throws DataError, UsageError */
async function rollBack(
  turn: Turn,
  job: RollbackJob,
  current: Current,
): Promise<CatalogEntry | Awaiting | null> {
  const { live, recordedColumns, found } = current;
  if (!isSameTable(live, job.plannedFrom)) return null;
  const { transaction, appliedAt, postgis, keepsHistory } = turn;
  const state = await restoredState(job, pastCatalog(transaction, postgis), (commit) =>
    readRecordedState(transaction, commit),
  );
  const columns = state.columns.map(plannedColumn);
  const isEdited =
    state.log.frozenCommit === null &&
    found !== null &&
    live.columns.every((column) => isSameType(found.columns.get(column.columnName), column, postgis)) &&
    isDeepStrictEqual(shapeOf(state.columns), shapeOf(recordedColumns));
  const { schemaName, tableName, isDistributed } = current;
  const target = { schemaName, tableName, isDistributed, columns, isNet: isEdited };
  await stage(turn, job, target, state);
  const rolledBack = { job, current, live, target, state };
  const net = found === null ? await make(turn, rolledBack) : await edit(turn, rolledBack, found);
  if (net !== null && 'kind' in net) return net;
  await transaction.runAll(comments(qualified(live), job.datasetId, columns));
  const isLogged = keepsHistory && state.table.keyColumns.length > 0;
  return entryOfRollback(job, state, { live, recordedColumns, net, appliedAt, isLogged });
}

/** Stages what undoes the later commits, key by key; or the whole state, where the columns were others. */
async function stage(
  { transaction, postgis }: Turn,
  { toCommit }: RollbackJob,
  target: Target,
  { log }: RestoredState,
): Promise<void> {
  const { columns, isNet } = target;
  await makeStage(transaction, target, postgis);
  const logged = await pastCatalog(transaction, postgis).columnsOf(log);
  const later = `(SELECT * FROM ${historic(log.logName)} WHERE _commit > ${integer(toCommit)})`;
  const undone = columns.map(({ columnName }) => nameInLog(columnName)).join(', ');
  const rows = isNet
    ? `SELECT ${undone}, _operation <> 'added' FROM (${earliestOf(columns, later)}) AS undone`
    : `SELECT ${columnNames(columns).join(', ')} FROM (${selectStateAfter(logAsOf(log, logged), toCommit)}) AS state`;
  await transaction.run(`INSERT INTO ${stageWithColumns(target)} ${rows}`);
  await analyzeStage(transaction, target);
}

interface RollingBack {
  readonly job: RollbackJob;
  readonly current: Current;
  readonly live: ObservedTable;
  readonly target: Target;
  readonly state: RestoredState;
}

async function edit(
  turn: Turn,
  { job, current, target, state }: RollingBack,
  found: FoundTable,
): Promise<RowDifference | Awaiting | null> {
  const { transaction, postgis, indexes } = turn;
  const { columns } = target;
  const written = await writeStaged(turn, {
    target,
    current,
    found,
    version: versionOf(job, state),
    alteration: alterationTo(target, found, columns, postgis, indexes),
    gate: undefined,
    digest: () => '',
    rowCount: null,
    looksForAltered: true,
    prove: async () => proveRestored(job, state, await readContent(transaction, qualified(target), columns)),
  });
  return 'kind' in written ? written : written.net;
}

/** The table was dropped by hand. */
async function make(turn: Turn, { job, current, target, state }: RollingBack): Promise<null> {
  const { transaction, postgis } = turn;
  const { columns } = target;
  const table = qualified(target);
  const names = columns.map(({ columnName }) => identifier(columnName)).join(', ');
  await transaction.run(createTable(target, columns, postgis));
  await transaction.run(`INSERT INTO ${table} (${names}) SELECT ${names} FROM ${stageOf(target)}`);
  proveRestored(job, state, await readContent(transaction, table, columns));
  await addKey(transaction, current, columns, turn.indexes);
  await finishTable(turn, current, columns, versionOf(job, state));
  return null;
}

function versionOf({ datasetId }: RollbackJob, { table: { version, publishedAt } }: RestoredState) {
  return { datasetId, version, publishedAt };
}
