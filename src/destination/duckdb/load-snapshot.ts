/** Validates a snapshot before the mirror is opened: the footers must fit the schema and the manifest. Then loads it in a transaction. */

import { isDeepStrictEqual } from 'node:util';
import { present } from '../../lib/assert.ts';
import { formatCount, plural } from '../../lib/units.ts';
import type { RowDifference } from '../../model/commits.ts';
import { NO_KEYS, rowCountsOf } from '../../model/gate.ts';
import { TABLE_MISSING } from '../../model/lost-past.ts';
import type { ObservedTable, SnapshotJob } from '../../model/write-jobs.ts';
import { type Engine, runTogether } from '../../staging/engine/engine.ts';
import { mirrorError } from '../../staging/engine/errors.ts';
import { giveBackHeap } from '../../staging/engine/heap.ts';
import { bigintOrNullAt, numberAt, text, textAt } from '../../staging/engine/sql.ts';
import { examineSnapshot, refuseOtherCount } from '../../staging/snapshot/examine-snapshot.ts';
import { BadKeysError, explainFailure } from '../../staging/snapshot/explain-failure.ts';
import type { PlannedColumn, TablePlan } from '../../staging/snapshot/table-plan.ts';
import { type Checksum, checksumAt } from '../catalog/cells.ts';
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
import {
  countKeys,
  countRows,
  createLoading,
  createStaged,
  EVERY_ROW,
  findRepeatedKey,
  LOADING,
  partsByAddress,
  STAGED,
  selectAddresses,
  swap,
} from './load-sql.ts';
import { logOfCommit, logOfSwap } from './past/commit-log.ts';
import { freezeKept, namesInHistory } from './past/history.ts';
import { rewrittenIfMuch, tableAfter } from './table-after.ts';
import { type Current, comments, hasAddresses, refuseTakenName } from './tables.ts';
import type { Turn, ValidatedWrite } from './validate.ts';
import { UnprovenError, type Written, wholeBefore, writeNet } from './write-net-change.ts';

/** Loading so much needs all the memory that DuckDB may use, and takes far longer than `giveBackHeap`. */
const MUCH_TO_LOAD_BYTES = 100_000_000;

/** Validates a snapshot. @throws DataError, StorageError */
export async function validateSnapshot(engine: Engine, job: SnapshotJob): Promise<ValidatedWrite> {
  const { plan, rowCount } = await examineSnapshot(engine, job);
  refuseUnspeakable(job, plan);
  const bytes = job.files.reduce((sum, file) => sum + file.bytes, 0);
  if (bytes >= MUCH_TO_LOAD_BYTES) await giveBackHeap();
  return {
    job,
    rowCount,
    tableRows: rowCount,
    bytes,
    execute: (session, current, turn) => loadSnapshot(session, { job, plan, current, turn }),
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

/** History needs to know every row that a reload changes, and a limit of changed rows their number. */
function isEdited({ job, plan, current, turn }: Loading): boolean {
  const { live, existingObject } = current;
  const isCompared = turn.keepsHistory || limitsChanges(job);
  if (!isCompared || turn.incomparable !== null || live === null || existingObject !== 'table') return false;
  return live.keyColumns.length > 0 && isSameTable(live, job, plan);
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
async function replace(engine: Engine, { job, plan, current, turn }: Loading): Promise<Loaded | Awaiting> {
  const { tableName, live, isKept } = current;
  await engine.runWhileSpaceIsFree(createLoading(plan));
  const keyColumns = keyColumnsOf(job, plan.columns);
  const proven = await prove(engine, job, LOADING, plan.columns);
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
async function edit(engine: Engine, { job, plan, current, turn }: Loading): Promise<Loaded | Awaiting> {
  const live = present(current.live, 'a table that is edited is live');
  const { columns, alteration } = tableAfter(live.columns, plan.columns);
  const named = { ...plan, columns };
  await engine.runWhileSpaceIsFree(createStaged(named));
  const proven = await prove(engine, job, STAGED, columns);
  const taken = turn.keepsHistory ? await namesInHistory(engine) : new Set<string>();
  const log = logOfCommit(current, live, turn, job, taken);
  try {
    const before = await wholeBefore(engine, live, current, log !== null);
    await refuseStrayColumns(engine, live);
    const net = await differenceFromStaged(engine, live, columns);
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
      `DROP TABLE ${STAGED}`,
    ]);
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

/** The checksum of the edited table is that of the content, whatever was in the table before. @throws UnprovenError */
function proveEqual(written: Written, content: Proven): void {
  if (written.rowCount === content.rowCount && written.checksum.sum === content.checksum.sum) return;
  throw new UnprovenError('its rows are not those of the snapshot');
}

function keyColumnsOf(job: SnapshotJob, columns: readonly PlannedColumn[]): readonly PlannedColumn[] {
  return columns.filter(({ column }) => job.schema.keyColumns.includes(column.name));
}

interface Proven {
  readonly rowCount: number;
  readonly checksum: Checksum;
}

/** Proves the row count and the keys of the content; `table` is SQL. @throws DataError, BadKeysError */
async function prove(
  engine: Engine,
  job: SnapshotJob,
  table: string,
  columns: readonly PlannedColumn[],
): Promise<Proven> {
  const keyColumns = keyColumnsOf(job, columns);
  const parts = await partsOf(engine, table, columns);
  const [counts = []] = await engine.rows(countRows(table, columns, keyColumns, parts));
  const rowCount = numberAt(counts, 0);
  refuseOtherCount(job, rowCount);
  for (const [index, planned] of keyColumns.entries()) {
    const nulls = rowCount - numberAt(counts, index + 4);
    if (nulls === 0) continue;
    throw new BadKeysError(
      `The key column ${JSON.stringify(planned.column.name)} of ${job.datasetId} is null in ` +
        `${formatCount(nulls)} of ${plural(rowCount, 'row')}`,
      [{ column: planned, value: null }],
    );
  }
  if (numberAt(counts, 3) !== rowCount) await proveKeys(engine, job, table, keyColumns, rowCount);
  return { rowCount, checksum: checksumAt(counts, 1) };
}

/** Each scan has one thread, so every thread of the engine gets a scan. */
async function partsOf(
  engine: Engine,
  table: string,
  columns: readonly PlannedColumn[],
): Promise<readonly string[]> {
  if (engine.threads === 1 || !hasAddresses({ columns })) return [EVERY_ROW];
  const [addresses = []] = await engine.rows(selectAddresses(table));
  const [lowest, highest] = [bigintOrNullAt(addresses, 0), bigintOrNullAt(addresses, 1)];
  if (lowest === null || highest === null) return [EVERY_ROW];
  return partsByAddress(lowest, highest, engine.threads);
}

async function proveKeys(
  engine: Engine,
  job: SnapshotJob,
  table: string,
  keyColumns: readonly PlannedColumn[],
  rowCount: number,
): Promise<void> {
  const keys = numberAt((await engine.rows(countKeys(table, keyColumns)))[0] ?? [], 0);
  if (keys === rowCount) return;
  const [repeated = []] = await engine.rows(findRepeatedKey(table, keyColumns));
  const key = keyColumns.map(
    ({ column }, index) => `${column.name} = ${JSON.stringify(repeated[index + 1])}`,
  );
  throw new BadKeysError(
    `The key ${key.join(', ')} of ${job.datasetId} is there ${formatCount(numberAt(repeated, 0))} times`,
    keyColumns.map((column, index) => ({ column, value: textAt(repeated, index + 1) })),
    `; ${plural(rowCount, 'row')} have ${plural(keys, 'key')}`,
  );
}
