/** Examines the files of a snapshot before any row is read: the footers must fit the schema and the manifest. */

import { formatCount, plural } from '../../lib/units.ts';
import { DataError } from '../../model/errors.ts';
import type { SnapshotJob } from '../../model/write-jobs.ts';
import type { Engine } from '../engine/engine.ts';
import { examine, type ParquetFile } from './parquet.ts';
import {
  markValueless,
  OtherFamilyError,
  planTable,
  refuseOtherFamily,
  type TablePlan,
} from './table-plan.ts';

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

/**
 * Reading a footer costs nothing, and a few bytes can state more rows than could be loaded in a day.
 * @throws DataError naming the file and both numbers.
 */
function refuseOtherFooters(job: SnapshotJob, files: readonly ParquetFile[]): void {
  for (const { file, rowCount } of files) {
    if (file.rowCount === null || file.rowCount === rowCount) continue;
    const stated = formatCount(file.rowCount);
    throw new DataError(
      `The file ${file.name} of ${job.datasetId} has ${plural(rowCount, 'row')}, but the manifest states ${stated}.`,
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

/**
 * Refuses another row count than stated. `where` is a sentence at the end of the message. @throws DataError when the count differs from any
 * stated number.
 */
export function refuseOtherCount(job: SnapshotJob, rowCount: number, where = ''): void {
  for (const expected of job.expectedRowCounts) {
    if (expected.rowCount === rowCount) continue;
    throw new DataError(
      `The snapshot of ${job.datasetId} version ${job.version} has ${plural(rowCount, 'row')}, ` +
        `but ${expected.statedBy} states ${formatCount(expected.rowCount)}.${where}`,
    );
  }
}
