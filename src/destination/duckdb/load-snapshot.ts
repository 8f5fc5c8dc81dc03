/** Validates a snapshot off the lock: the footers must fit the schema and the manifest. Then loads it in a transaction. */

import { formatCount } from '../../lib/units.ts';
import { DataError } from '../../model/errors.ts';
import type { SnapshotJob } from '../../model/write-jobs.ts';
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
import { type CatalogEntry, entryOfSnapshot } from './catalog/entries.ts';
import { type Current, comments, isPlannedFrom, refuseTakenName } from './catalog/tables.ts';
import { type Checksum, checksumAt } from './checksum.ts';
import { differenceByKeys } from './difference.ts';
import { BadKeysError, explainFailure } from './explain-failure.ts';
import { countKeys, countRows, createLoading, findRepeatedKey, swap } from './load-sql.ts';
import type { Turn, ValidatedWrite } from './validate.ts';

/** @throws DataError, StorageError */
export async function validateSnapshot(engine: Engine, job: SnapshotJob): Promise<ValidatedWrite> {
  const files: ParquetFile[] = [];
  for (const file of job.files) {
    files.push(await examine(engine, file, job.datasetId));
  }
  refuseOtherFooters(job, files);
  const plan = await tablePlan(engine, job, await markValueless(engine, job, files));
  refuseUnspeakable(job, plan);
  return {
    job,
    rowCount: rowsByFooters(files),
    tableRows: rowsByFooters(files),
    bytes: job.files.reduce((sum, file) => sum + file.bytes, 0),
    execute: (session, current, turn) => loadSnapshot(session, { job, plan, current, turn }),
    explain: (examiner, error, place) => explainFailure(examiner, { job, plan }, error, place),
  };
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
async function loadSnapshot(
  engine: Engine,
  { job, plan, current, turn }: Loading,
): Promise<CatalogEntry | null> {
  const { tableName, live, isKept } = current;
  if (!isPlannedFrom(live, job.plannedFrom)) return null;
  refuseTakenName(job.datasetId, current);

  await engine.runWhileSpaceIsFree(createLoading(plan));
  const keyColumns = plan.columns.filter(({ column }) => job.schema.keyColumns.includes(column.name));
  const { rowCount, checksum } = await prove(engine, job, plan.columns, keyColumns);
  const net = turn.isComparable ? await differenceByKeys(engine, current, keyColumns, rowCount) : null;
  await runTogether(engine, [
    ...swap(tableName, live !== null || isKept),
    ...comments(tableName, job.datasetId, plan.columns),
  ]);
  const { appliedAt } = turn;
  return entryOfSnapshot(job, { current, columns: plan.columns, rowCount, checksum, net, appliedAt });
}

interface Proven {
  readonly rowCount: number;
  readonly checksum: Checksum;
}

/** Proves the row count and the keys. @throws DataError, BadKeysError */
async function prove(
  engine: Engine,
  job: SnapshotJob,
  columns: readonly PlannedColumn[],
  keyColumns: readonly PlannedColumn[],
): Promise<Proven> {
  const [counts = []] = await engine.rows(countRows(columns, keyColumns, engine.threads));
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
  if (numberAt(counts, 3) !== rowCount) await proveKeys(engine, job, keyColumns, rowCount);
  return { rowCount, checksum: checksumAt(counts, 1) };
}

async function proveKeys(
  engine: Engine,
  job: SnapshotJob,
  keyColumns: readonly PlannedColumn[],
  rowCount: number,
): Promise<void> {
  const keys = numberAt((await engine.rows(countKeys(keyColumns)))[0] ?? [], 0);
  if (keys === rowCount) return;
  const [repeated = []] = await engine.rows(findRepeatedKey(keyColumns));
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
