/** Examines a snapshot off the lock: what its files say of themselves must fit the schema and what the service states. */

import type { SnapshotUnit } from '../../destination.ts';
import { comments } from '../books/comment-sql.ts';
import type { Engine } from '../engine/engine.ts';
import { text } from '../engine/quoting.ts';
import type { PreparedUnit } from '../units/prepared.ts';
import { explainFailure } from './explain-failure.ts';
import { loadSnapshot } from './load-snapshot.ts';
import { createLoading } from './load-sql.ts';
import { refuseOtherFamily } from './other-family.ts';
import { examine, type ParquetFile } from './parquet-file.ts';
import { refuseOtherFooters, rowsByFooters } from './row-counts.ts';
import { OtherFamilyError, planTable, type TablePlan } from './table-plan.ts';
import { markValueless } from './valueless.ts';

/** @throws DataError, StorageError */
export async function prepareSnapshot(engine: Engine, unit: SnapshotUnit): Promise<PreparedUnit> {
  const files: ParquetFile[] = [];
  for (const file of unit.files) {
    files.push(await examine(engine, file, unit.datasetId));
  }
  refuseOtherFooters(unit, files);
  const plan = await tablePlan(engine, unit, await markValueless(engine, unit, files));
  refuseUnspeakable(unit, plan);
  return {
    unit,
    rowCount: rowsByFooters(files),
    tableRows: rowsByFooters(files),
    bytes: unit.files.reduce((sum, file) => sum + file.bytes, 0),
    carryOut: (window, current, appliedAt) => loadSnapshot(window, { unit, plan, current, appliedAt }),
    explain: (examiner, error, place) => explainFailure(examiner, { unit, plan }, error, place),
  };
}

async function tablePlan(
  engine: Engine,
  unit: SnapshotUnit,
  files: readonly ParquetFile[],
): Promise<TablePlan> {
  try {
    return planTable(unit, files);
  } catch (error) {
    throw error instanceof OtherFamilyError ? await refuseOtherFamily(engine, unit.datasetId, error) : error;
  }
}

/** Writes the statements out once, for their errors: a name that cannot be written in SQL is known before the lock is taken. */
function refuseUnspeakable(unit: SnapshotUnit, plan: TablePlan): void {
  const texts = [unit.datasetId, unit.digest, unit.schema.schemaVersion, ...unit.reloads.keys()];
  for (const value of texts) text(value);
  for (const { column } of plan.columns) text(column.sourceName);
  comments('table', unit.datasetId, plan.columns);
  createLoading(plan);
}
