/** Validates a snapshot off the lock: the footers must fit the schema and the manifest. Then loads it in a transaction. */

import { isDeepStrictEqual } from 'node:util';
import { present } from '../../lib/assert.ts';
import { formatCount } from '../../lib/units.ts';
import type { RowDifference } from '../../model/commits.ts';
import { DataError } from '../../model/errors.ts';
import { NO_KEYS, rowCountsOf } from '../../model/gate.ts';
import type { ObservedTable, SnapshotJob } from '../../model/write-jobs.ts';
import { type Engine, runTogether } from '../../staging/engine/engine.ts';
import { numberAt, text, textAt } from '../../staging/engine/sql.ts';
import { examine, type ParquetFile } from '../../staging/snapshot/parquet.ts';
import {
  markValueless,
  OtherFamilyError,
  type PlannedColumn,
  planTable,
  refuseOtherFamily,
  type TablePlan,
} from '../../staging/snapshot/table-plan.ts';
import { readFoundTables, rewrittenIfMuch, tableAfter } from './apply-changes.ts';
import { type CatalogEntry, entryOfSnapshot } from './catalog/entries.ts';
import { type Current, comments, isPlannedFrom, refuseTakenName } from './catalog/tables.ts';
import { type Checksum, checksumAt } from './checksum.ts';
import { logOfCommit, logOfSwap } from './commit-log.ts';
import {
  countChanged,
  differenceByKeys,
  differenceFromStaged,
  dropDifference,
  incomparable,
  lowestKeysOfLoaded,
} from './difference.ts';
import { BadKeysError, explainFailure } from './explain-failure.ts';
import { freezeKept, namesInHistory } from './history.ts';
import { type Awaiting, judgeCommit, judgeNet, mayWait, readShownKeys } from './judge-commit.ts';
import {
  countKeys,
  countRows,
  createLoading,
  createStaged,
  findRepeatedKey,
  LOADING,
  STAGED,
  swap,
} from './load-sql.ts';
import type { Turn, ValidatedWrite } from './validate.ts';
import { UnprovenError, type Written, writeNet } from './write-net-change.ts';

/** @throws DataError, StorageError */
export async function validateSnapshot(engine: Engine, job: SnapshotJob): Promise<ValidatedWrite> {
  const { plan, rowCount } = await examineSnapshot(engine, job);
  return {
    job,
    rowCount,
    tableRows: rowCount,
    bytes: job.files.reduce((sum, file) => sum + file.bytes, 0),
    execute: (session, current, turn) => loadSnapshot(session, { job, plan, current, turn }),
    explain: (examiner, error, place) => explainFailure(examiner, { job, plan }, error, place),
  };
}

interface ExaminedSnapshot {
  readonly plan: TablePlan;
  readonly rowCount: number;
}

/** Compares the footers of the files with the schema and the manifest, and plans the table. @throws DataError, StorageError */
export async function examineSnapshot(engine: Engine, job: SnapshotJob): Promise<ExaminedSnapshot> {
  const files: ParquetFile[] = [];
  for (const file of job.files) {
    files.push(await examine(engine, file, job.datasetId));
  }
  refuseOtherFooters(job, files);
  const plan = await tablePlan(engine, job, await markValueless(engine, job, files));
  refuseUnspeakable(job, plan);
  return { plan, rowCount: rowsByFooters(files) };
}

async function tablePlan(
  engine: Engine,
  job: SnapshotJob,
  files: readonly ParquetFile[],
): Promise<TablePlan> {
  try {
    return planTable(job, files);
  } catch (error) {
    throw error instanceof OtherFamilyError ? await refuseOtherFamily(engine, job.datasetId, error) : error;
  }
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
  const net =
    turn.incomparable === null ? await differenceByKeys(engine, current, keyColumns, proven.rowCount) : null;
  const table = { datasetId: job.datasetId, tableName, columns: plan.columns };
  const judged = { live, keyColumns, columns: plan.columns, rowCount: proven.rowCount, net };
  const awaiting = await judgeLoaded(engine, job, judged);
  if (awaiting !== null) return awaiting;
  const missing = live === null || current.existingObject === 'table' ? null : 'the table was missing';
  const log = logOfSwap(current.logName, turn, {
    live,
    loaded: table,
    isSameTable: live !== null && isSameTable(live, job, plan),
    unreadable: turn.incomparable ?? missing,
    taken: turn.keepsHistory || current.logName !== null ? await namesInHistory(engine) : new Set(),
  });
  await runTogether(engine, [
    ...(isKept ? await freezeKept(engine, tableName) : []),
    ...log.before,
    ...swap(tableName, live !== null || isKept),
    ...comments(tableName, job.datasetId, plan.columns),
    ...log.after,
  ]);
  return { ...proven, columns: plan.columns, net };
}

interface Judged {
  /** The table before; null where there is none. */
  readonly live: ObservedTable | null;
  readonly keyColumns: readonly PlannedColumn[];
  readonly columns: readonly PlannedColumn[];
  readonly rowCount: number;
  /** Null where the rows have no common key, or cannot be compared. */
  readonly net: RowDifference | null;
}

/** A table that cannot be compared counts with its recorded number of rows. A first load is not judged. */
async function judgeLoaded(
  engine: Engine,
  job: SnapshotJob,
  { live, keyColumns, columns, rowCount, net }: Judged,
): Promise<Awaiting | null> {
  if (live === null || job.gate === undefined) return null;
  const { gate, digest } = job;
  if (net === null) {
    const counts = rowCountsOf(live.rowCount, rowCount, null);
    return judgeCommit({ gate, counts, digest: () => digest, keys: async () => NO_KEYS });
  }
  try {
    const loaded = { live, keyColumns, columns };
    const changed = limitsChanges(job) ? await countChanged(engine, loaded) : null;
    const counts = rowCountsOf(rowCount - net.added + net.removed, rowCount, { ...net, changed });
    const keys = () => readShownKeys(engine, lowestKeysOfLoaded(loaded, limitsChanges(job)));
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
    const found = present(
      (await readFoundTables(engine, [live.tableName])).get(live.tableName),
      'it is there',
    );
    const net = await differenceFromStaged(engine, live, columns);
    const after = rewrittenIfMuch({ columns, alteration }, net, found);
    await runTogether(engine, log?.before(after) ?? []);
    const before = { found, recorded: { rowCount: found.rowCount, checksum: null } };
    const target = { tableName: live.tableName, net, columns };
    let awaiting: Awaiting | null = null;
    const judging = { gate: job.gate, live, rowsBefore: found.rowCount, columns, digest: () => job.digest };
    const written = await writeNet(engine, target, after.alteration, before, {
      readsRows: log !== null || mayWait(job.gate),
      logEntries: (rows) => log?.entries(rows) ?? [],
      async onCounted(counts, rows) {
        awaiting = await judgeNet(engine, judging, counts, rows);
      },
    });
    proveEqual(written, proven);
    if (awaiting !== null) return awaiting;
    await runTogether(engine, [
      ...comments(live.tableName, job.datasetId, columns),
      ...(log?.after(after) ?? []),
      dropDifference(),
      `DROP TABLE ${STAGED}`,
    ]);
    return { ...proven, columns, net: written.net };
  } catch (error) {
    throw incomparable(job.datasetId, error);
  }
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
  const [counts = []] = await engine.rows(countRows(table, columns, keyColumns, engine.threads));
  const rowCount = numberAt(counts, 0);
  refuseOtherCount(job, rowCount);
  for (const [index, planned] of keyColumns.entries()) {
    const nulls = rowCount - numberAt(counts, index + 4);
    if (nulls === 0) continue;
    throw new BadKeysError(
      `The key column ${JSON.stringify(planned.column.name)} of ${job.datasetId} is null in ` +
        `${formatCount(nulls)} of ${formatCount(rowCount)} rows`,
      [{ column: planned, value: null }],
    );
  }
  if (numberAt(counts, 3) !== rowCount) await proveKeys(engine, job, table, keyColumns, rowCount);
  return { rowCount, checksum: checksumAt(counts, 1) };
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
    `; ${formatCount(rowCount)} rows have ${formatCount(keys)} keys`,
  );
}

/**
 * Reading a footer costs nothing, and a few bytes can state more rows than could be loaded in a day.
 * @throws DataError naming the file and both numbers.
 */
function refuseOtherFooters(job: SnapshotJob, files: readonly ParquetFile[]): void {
  for (const { file, rowCount } of files) {
    if (file.rowCount === null || file.rowCount === rowCount) continue;
    const stated = formatCount(file.rowCount);
    throw new DataError(
      `The file ${file.name} of ${job.datasetId} has ${formatCount(rowCount)} rows, but the manifest states ${stated}.`,
    );
  }
  const [largest] = files.toSorted((left, right) => right.rowCount - left.rowCount);
  const isOneOfMany = largest !== undefined && files.length > 1;
  const where = isOneOfMany ? ` Most of them are in the file ${largest.file.name}.` : '';
  refuseOtherCount(job, rowsByFooters(files), where);
}

function rowsByFooters(files: readonly ParquetFile[]): number {
  return files.reduce((sum, { rowCount }) => sum + rowCount, 0);
}

/** `where` is a sentence at the end of the message. @throws DataError when the count differs from any stated number. */
function refuseOtherCount(job: SnapshotJob, rowCount: number, where = ''): void {
  for (const expected of job.expectedRowCounts) {
    if (expected.rowCount === rowCount) continue;
    throw new DataError(
      `The snapshot of ${job.datasetId} version ${job.version} has ${formatCount(rowCount)} rows, ` +
        `but ${expected.statedBy} states ${formatCount(expected.rowCount)}.${where}`,
    );
  }
}
