/** Validates a snapshot before the mirror is opened: the footers must fit the schema and the manifest. Then loads it in a transaction. */

import { isDeepStrictEqual } from 'node:util';
import { present } from '../../lib/assert.ts';
import type { RowDifference } from '../../model/commits.ts';
import { NO_KEYS, rowCountsOf } from '../../model/gate.ts';
import { TABLE_MISSING } from '../../model/lost-past.ts';
import type { ObservedTable, SnapshotJob } from '../../model/write-jobs.ts';
import { type Engine, runTogether } from '../../staging/engine/engine.ts';
import { mirrorError } from '../../staging/engine/errors.ts';
import { giveBackHeap } from '../../staging/engine/heap.ts';
import { text } from '../../staging/engine/sql.ts';
import { examineSnapshot } from '../../staging/snapshot/examine-snapshot.ts';
import { explainFailure } from '../../staging/snapshot/explain-failure.ts';
import type { PlannedColumn, TablePlan } from '../../staging/snapshot/table-plan.ts';
import { type CatalogEntry, entryOfSnapshot } from '../catalog/entries.ts';
import { isPlannedFrom } from '../catalog/guard.ts';
import { type Awaiting, type Judgement, judgeCommit, mayWait, readShownKeys } from '../judge-commit.ts';
import { strayColumnsOf } from './count-tables.ts';
import {
  countChanged,
  differenceByKeys,
  differenceFromStaged,
  dropDifference,
  incomparable,
  lowestKeysOfLoaded,
} from './difference.ts';
import { judgeNet } from './judge-net.ts';
import { createLoading, dropLoading, LOADING, swap } from './load-sql.ts';
import { logOfCommit, logOfSwap } from './past/commit-log.ts';
import { freezeKept, namesInHistory } from './past/history.ts';
import { keyColumnsOf, type Proven, prove, proveUnlessLeftOut } from './prove-content.ts';
import { sizeOf } from './sessions-by-size.ts';
import { StagedContent } from './staged-content.ts';
import { rewrittenIfMuch, tableAfter } from './table-after.ts';
import { type Current, comments, refuseTakenName } from './tables.ts';
import type { Turn, ValidatedWrite } from './validate.ts';
import { UnprovenError, type Written, wholeBefore, writeNet } from './write-net-change.ts';

/** Loading so much needs all the memory that DuckDB may use, and takes far longer than `giveBackHeap`. */
const MUCH_TO_LOAD_BYTES = 100_000_000;

/** To read so many rows twice takes about as long as to prepare the conversion of every value of JSON. */
const FEW_ROWS = 4_096;

/** Validates a snapshot. @throws DataError, StorageError */
export async function validateSnapshot(engine: Engine, job: SnapshotJob): Promise<ValidatedWrite> {
  const { plan, rowCount } = await examineSnapshot(engine, job);
  refuseUnspeakable(job, plan);
  const bytes = job.files.reduce((sum, file) => sum + file.bytes, 0);
  if (bytes >= MUCH_TO_LOAD_BYTES) await giveBackHeap();
  const staged = new StagedContent(job, plan);
  return {
    job,
    rowCount,
    tableRows: rowCount,
    bytes,
    ahead(keepsHistory) {
      const pays = sizeOf(rowCount) === 'large' && job.plannedFrom !== null && isCompared(job, keepsHistory);
      return pays ? staged : null;
    },
    execute: (session, current, turn) => loadSnapshot(session, { job, plan, current, turn, staged }),
    explain: (examiner, error, place) =>
      explainFailure(examiner, { job, plan }, error, (other) => mirrorError(other, place)),
  };
}

/** Renders the statements once before the lock is taken, so that a name which SQL cannot hold fails early. */
function refuseUnspeakable(job: SnapshotJob, plan: TablePlan): void {
  const texts = [job.datasetId, job.digest, job.schema.schemaVersion, ...job.reloads.keys()];
  for (const value of texts) text(value);
  for (const { column } of plan.columns) text(column.sourceName);
  comments('table', job.datasetId, plan.columns);
  createLoading(plan);
}

interface Loading {
  readonly job: SnapshotJob;
  readonly plan: TablePlan;
  readonly current: Current;
  readonly turn: Turn;
  readonly staged: StagedContent;
}

/** Returns the catalog entry; null when the mirror differs from the plan's observed state. @throws IncomparableError */
async function loadSnapshot(engine: Engine, loading: Loading): Promise<CatalogEntry | Awaiting | null> {
  const { job, current, turn } = loading;
  if (!isPlannedFrom(current.live, job.plannedFrom)) return null;
  refuseTakenName(job.datasetId, current);
  const loaded = isEdited(loading) ? await edit(engine, loading) : await replace(engine, loading);
  if ('kind' in loaded) return loaded;
  const { appliedAt } = turn;
  const isLogged = turn.keepsHistory && job.schema.keyColumns.length > 0;
  return entryOfSnapshot(job, { current, ...loaded, appliedAt, isLogged });
}

/** The table after the load. */
interface Loaded extends Proven {
  readonly columns: readonly PlannedColumn[];
  readonly net: RowDifference | null;
  /** An operator has approved that the content exceeds its gate. */
  readonly isApproved: boolean;
}

function isEdited({ job, plan, current, turn }: Loading): boolean {
  const { live, existingObject } = current;
  if (!isCompared(job, turn.keepsHistory) || turn.incomparable !== null) return false;
  if (live === null || existingObject !== 'table') return false;
  return live.keyColumns.length > 0 && isSameTable(live, job, plan);
}

/** History needs to know every row that a reload changes, and a limit of changed rows their number. */
function isCompared(job: SnapshotJob, keepsHistory: boolean): boolean {
  return job.schema.keyColumns.length > 0 && (keepsHistory || limitsChanges(job));
}

/** True when the columns of the snapshot are those of the table, and perhaps more, with the same key. */
function isSameTable(live: ObservedTable, job: SnapshotJob, { columns }: TablePlan): boolean {
  const types = new Map(columns.map(({ column, type }) => [column.name, type]));
  return (
    isDeepStrictEqual(live.keyColumns, job.schema.keyColumns) &&
    live.columns.every(({ name, type }) => types.get(name) === type)
  );
}

function limitsChanges({ gate }: SnapshotJob): boolean {
  return gate !== undefined && gate.limits.changedRows !== null;
}

/** Loads the content into a new table, which then takes the place of the old one. */
async function replace(engine: Engine, loading: Loading): Promise<Loaded | Awaiting> {
  const { job, plan, current, turn, staged } = loading;
  const { tableName, live, isKept } = current;
  await staged.discard(engine);
  const keyColumns = keyColumnsOf(job, plan.columns);
  const proven = await loadProven(engine, job, plan);
  const net = turn.comparesKeys ? await differenceByKeys(engine, current, keyColumns, proven.rowCount) : null;
  const table = { datasetId: job.datasetId, tableName, columns: plan.columns };
  const comparesRows = limitsChanges(job) && turn.incomparable === null;
  const judged = { live, keyColumns, columns: plan.columns, rowCount: proven.rowCount, net, comparesRows };
  const judgement = await judgeLoaded(engine, job, judged);
  if (judgement?.kind === 'awaiting') return judgement;
  const missing = live === null ? null : await whyNotFrozen(engine, live, current);
  const log = logOfSwap(current.logName, turn, {
    live,
    checksum: current.checksum,
    loaded: table,
    isSameTable: live !== null && isSameTable(live, job, plan),
    unreadable: turn.incomparable ?? missing,
    taken: turn.keepsHistory || current.logName !== null ? await namesInHistory(engine) : new Set(),
  });
  await engine.runWithinReserve([...(isKept ? await freezeKept(engine, tableName) : []), ...log.before]);
  await runTogether(engine, [
    ...swap(tableName, live !== null || isKept),
    ...comments(tableName, job.datasetId, plan.columns),
    ...log.after,
  ]);
  return { ...proven, columns: plan.columns, net, isApproved: judgement !== null };
}

/** Few tables of few rows hold a value that is not usual, so that it costs less to load those twice. */
async function loadProven(engine: Engine, job: SnapshotJob, plan: TablePlan): Promise<Proven> {
  const leftOut = rowsOf(plan) > FEW_ROWS ? [] : plan.columns.filter(({ type }) => type === 'json');
  if (leftOut.length > 0) {
    await engine.runWhileSpaceIsFree(createLoading(plan, 'usual'));
    const proven = await proveUnlessLeftOut(engine, job, LOADING, plan.columns, leftOut);
    if (proven !== null) return proven;
    await engine.run(dropLoading());
  }
  await engine.runWhileSpaceIsFree(createLoading(plan));
  return await prove(engine, job, LOADING, plan.columns);
}

function rowsOf({ groups }: TablePlan): number {
  const files = groups.flatMap((group) => group.files);
  return files.reduce((sum, { rowCount }) => sum + rowCount, 0);
}

interface Judged {
  /** The table before; null where there is none. */
  readonly live: ObservedTable | null;
  readonly keyColumns: readonly PlannedColumn[];
  readonly columns: readonly PlannedColumn[];
  readonly rowCount: number;
  /** Null where the rows have no common key, or cannot be compared. */
  readonly net: RowDifference | null;
  /** Whether the changed rows are counted. */
  readonly comparesRows: boolean;
}

/** A table that cannot be compared counts with its recorded number of rows. A first load is not judged. */
async function judgeLoaded(
  engine: Engine,
  job: SnapshotJob,
  { live, keyColumns, columns, rowCount, net, comparesRows }: Judged,
): Promise<Judgement> {
  if (live === null || job.gate === undefined) return null;
  const { gate, digest } = job;
  if (net === null) {
    const counts = rowCountsOf(live.rowCount, rowCount, null);
    return judgeCommit({ gate, counts, digest: () => digest, keys: async () => NO_KEYS });
  }
  try {
    const loaded = { live, keyColumns, columns };
    const changed = comparesRows ? await countChanged(engine, loaded) : null;
    const counts = rowCountsOf(rowCount - net.added + net.removed, rowCount, { ...net, changed });
    const statements = lowestKeysOfLoaded(loaded, comparesRows);
    const keys = () => readShownKeys((statement) => engine.rows(statement), statements);
    return await judgeCommit({ gate, counts, digest: () => digest, keys });
  } catch (error) {
    throw incomparable(job.datasetId, error);
  }
}

/** Writes the rows of the table that differ from the content, and no others. @throws IncomparableError */
async function edit(engine: Engine, loading: Loading): Promise<Loaded | Awaiting> {
  const { job, plan, current, turn, staged } = loading;
  const live = present(current.live, 'a table that is edited is live');
  const { columns, alteration } = tableAfter(live.columns, plan.columns);
  const proven = await staged.prepare(engine);
  const taken = turn.keepsHistory ? await namesInHistory(engine) : new Set<string>();
  const log = logOfCommit(current, live, turn, job, taken);
  try {
    const before = await wholeBefore(engine, live, current, {
      isLogged: log !== null,
      checksumAfter: proven.checksum,
    });
    await refuseStrayColumns(engine, live);
    const net = await differenceFromStaged(engine, staged, live, columns);
    const after = rewrittenIfMuch({ columns, alteration }, net, before.found);
    await runTogether(engine, log?.before(after) ?? []);
    const target = { tableName: live.tableName, net, columns };
    let judgement = null as Judgement;
    const judging = {
      gate: job.gate,
      live,
      rowsBefore: before.found.rowCount,
      columns,
      digest: () => job.digest,
    };
    const written = await writeNet(engine, target, after.alteration, before, {
      readsRows: log !== null || mayWait(job.gate),
      logEntries: (rows) => log?.entries(rows) ?? [],
      async onCounted(counts, rows) {
        judgement = await judgeNet(engine, judging, counts, rows);
      },
    });
    proveEqual(written, proven);
    if (judgement?.kind === 'awaiting') return judgement;
    await runTogether(engine, [
      ...comments(live.tableName, job.datasetId, columns),
      ...(log?.after(after, written.wereAltered) ?? []),
      dropDifference(),
    ]);
    await staged.discard(engine);
    return { ...proven, columns, net: written.net, isApproved: judgement !== null };
  } catch (error) {
    throw incomparable(job.datasetId, error);
  }
}

/** Why the rows of the table before cannot be kept with its log; null where they can. */
async function whyNotFrozen(
  engine: Engine,
  live: ObservedTable,
  { existingObject, logName }: Current,
): Promise<string | null> {
  if (existingObject !== 'table') return TABLE_MISSING;
  if (logName === null) return null;
  const lost = (await strayColumnsOf(engine, live)).filter(({ expected }) => expected !== null);
  if (lost.length === 0) return null;
  const names = lost.map(({ columnName }) => JSON.stringify(columnName));
  return `columns were missing, or of another type: ${names.join(', ')}`;
}

/** A column that somebody added would survive the edit. @throws UnprovenError */
async function refuseStrayColumns(engine: Engine, live: ObservedTable): Promise<void> {
  const stray = (await strayColumnsOf(engine, live)).map(({ columnName }) => JSON.stringify(columnName));
  if (stray.length === 0) return;
  throw new UnprovenError(`its columns are not those that the catalog lists: ${stray.join(', ')}`);
}

/**
 * The keys of the content are unique. Each has an equal row in the table, or its rows were replaced by the one of the content; every
 * other key was removed. So the table has all rows of the content, and as many rows only if it has no others, whatever was in it
 * before. @throws UnprovenError
 */
function proveEqual(written: Written, content: Proven): void {
  if (written.rowCount === content.rowCount) return;
  throw new UnprovenError('its rows are not those of the snapshot');
}
