/**
 * Repairs a table: brings its rows to the content that the service has for its version, by writing only the rows that differ. Version,
 * columns, snapshot and reloads stay as they are.
 *
 * Invariant: the undo log never claims to know a state that nobody committed. Rows that were altered by hand were no commit's, so a
 * repair that finds some writes no entries; unless it leads back to what was committed, it closes the log.
 */

import { StorageError } from '../../model/errors.ts';
import { REPAIRED } from '../../model/lost-past.ts';
import type { ObservedTable, RepairJob } from '../../model/write-jobs.ts';
import { type Engine, runTogether } from '../../staging/engine/engine.ts';
import { mirrorError } from '../../staging/engine/errors.ts';
import { identifier } from '../../staging/engine/sql.ts';
import { type ContentRows, examineRepair, proveExpected } from '../../staging/version-content.ts';
import { isSameChecksum } from '../catalog/cells.ts';
import { hasOtherColumns } from '../catalog/columns.ts';
import { type CatalogEntry, entryOfRepair } from '../catalog/entries.ts';
import { isPlannedFrom } from '../catalog/guard.ts';
import { mirrored } from './catalog/schema.ts';
import { computeChecksum } from './checksum.ts';
import {
  type ComparedRows,
  countActual,
  countExpected,
  createActual,
  createExpected,
  dropCompared,
  expectedChecksum,
  findDifference,
  insertActual,
  selectMissing,
  touchedBy,
  WRONG,
} from './compare-rows.ts';
import { strayColumnsOf } from './count-tables.ts';
import { LOADING, swap } from './load-sql.ts';
import { type CommitLog, logOfCommit } from './past/commit-log.ts';
import { closeLog, namesInHistory } from './past/history.ts';
import { type Current, commentOnColumn, commentOnTable, hasAddresses } from './tables.ts';
import type { Turn, ValidatedWrite } from './validate.ts';

/** Validates a repair. @throws DataError, UnknownColumnsError, InapplicableChangesError, StorageError */
export async function validateRepair(engine: Engine, job: RepairJob): Promise<ValidatedWrite> {
  const content = await examineRepair(engine, job);
  return {
    job,
    rowCount: content.mostRows,
    tableRows: Math.max(job.plannedFrom.rowCount, content.mostRows),
    bytes: content.bytes,
    execute: (session, current, turn) => repair(session, { job, content, current, turn }),
    explain: (_examiner, error, place) => mirrorError(error, place),
  };
}

interface Repairing {
  readonly job: RepairJob;
  readonly content: ContentRows;
  readonly current: Current;
  readonly turn: Turn;
}

/** Returns the catalog entry; null when the mirror differs from the plan's observed state. @throws DataError, StorageError */
async function repair(engine: Engine, repairing: Repairing): Promise<CatalogEntry | null> {
  const { job, content, current, turn } = repairing;
  const { live } = current;
  if (live === null || !isPlannedFrom(live, job.plannedFrom)) return null;
  await refuseUnrepairable(engine, live);
  await engine.runWhileSpaceIsFree(createExpected(live, content));
  proveExpected(job.content, await countExpected(engine, live));
  await engine.run(createActual(live));
  await engine.runWhileSpaceIsFree(insertActual(live, mirrored(live.tableName), null));
  const before = await countActual(engine);
  const after = await expectedChecksum(engine);
  const net = await findDifference(engine, live);
  if (net === null) {
    const message = `The table ${live.tableName} is equal to the content of the service: nothing is to be repaired.`;
    throw new StorageError(message, { code: 'dataset_storage_failed' });
  }
  const { checksum: recorded } = current;
  const isAsCommitted = isSameChecksum(recorded, before.checksum);
  const leadsBack = isSameChecksum(recorded, after.checksum);
  const log = await logOfRepair(engine, repairing, live, isAsCommitted, leadsBack);
  const unchanged = { columns: [], alteration: { kind: 'none' } } as const;
  await runTogether(engine, log.before(unchanged));
  await engine.runWithinReserve(log.entries(touchedBy(live)));
  await write(engine, live, current, content);
  await runTogether(engine, [...log.after(unchanged, false), ...dropCompared()]);
  await proveRepaired(engine, live, after);
  const { rowCount, checksum } = after;
  const isLogged = turn.keepsHistory && live.keyColumns.length > 0;
  const { appliedAt } = turn;
  return entryOfRepair(live, {
    columns: current.recordedColumns,
    rowCount,
    checksum,
    net,
    appliedAt,
    isLogged,
  });
}

/** @throws StorageError */
async function refuseUnrepairable(engine: Engine, live: ObservedTable): Promise<void> {
  const [stray] = await strayColumnsOf(engine, live);
  if (stray === undefined) return;
  throw new StorageError(hasOtherColumns(live.tableName, stray.columnName), {
    code: 'dataset_storage_failed',
    hint: 'Load it again: feed-sync resync',
  });
}

const NO_LOG: CommitLog = { before: () => [], entries: () => [], after: () => [] };

async function logOfRepair(
  engine: Engine,
  { current, turn }: Repairing,
  live: ObservedTable,
  isAsCommitted: boolean,
  leadsBack: boolean,
): Promise<CommitLog> {
  const { logName } = current;
  if (isAsCommitted || !turn.keepsHistory) {
    const { version, publishedAt } = live;
    const taken = await namesInHistory(engine);
    return logOfCommit(current, live, turn, { version, publishedAt }, taken) ?? NO_LOG;
  }
  if (logName === null || leadsBack) return NO_LOG;
  return { ...NO_LOG, after: () => closeLog(logName, turn, REPAIRED) };
}

async function write(
  engine: Engine,
  live: ObservedTable,
  { recordedColumns }: Current,
  content: ContentRows,
): Promise<void> {
  const table = mirrored(live.tableName);
  const columns = live.columns.map(({ columnName }) => identifier(columnName)).join(', ');
  if (hasAddresses(live)) {
    await engine.run(`DELETE FROM ${table} WHERE rowid IN (SELECT row_id FROM ${WRONG})`);
    await engine.runWhileSpaceIsFree(`INSERT INTO ${table} (${columns}) ${selectMissing(live, content)}`);
    return;
  }
  // The rows of this table cannot be addressed, so it is written again.
  await engine.run(`CREATE TABLE ${LOADING} AS SELECT * FROM ${table} LIMIT 0`);
  await engine.runWhileSpaceIsFree(`INSERT INTO ${LOADING} (${columns}) ${content.select}`);
  await runTogether(engine, [
    ...swap(live.tableName, true),
    commentOnTable(table, live.datasetId),
    ...recordedColumns.flatMap(({ columnName, description }) =>
      description === null ? [] : [commentOnColumn(table, columnName, description)],
    ),
  ]);
}

/** @throws StorageError */
async function proveRepaired(
  engine: Engine,
  { tableName, columns }: ObservedTable,
  after: ComparedRows,
): Promise<void> {
  const names = columns.map(({ columnName }) => columnName);
  const { sum } = await computeChecksum(engine, mirrored(tableName), names);
  if (sum === after.checksum.sum) return;
  throw new StorageError(
    `The table ${tableName} could not be repaired: its rows are not those of the service.`,
    {
      code: 'dataset_storage_failed',
    },
  );
}
