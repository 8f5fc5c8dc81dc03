/**
 * Loads one snapshot inside the transaction it is given. The table is loaded beside the live one, proven, and put in its place; what
 * is to be written down is given back. Until the transaction commits nothing of it is seen; whatever is thrown here must undo the
 * whole transaction.
 */

import { present } from '../../../lib/assert.ts';
import { formatCount } from '../../../lib/units.ts';
import type { SnapshotUnit } from '../../destination.ts';
import { entryOfSnapshot } from '../books/book-entry.ts';
import { comments } from '../books/comment-sql.ts';
import { type Current, isPlannedFrom, refuseTakenName } from '../books/current-table.ts';
import type { Engine } from '../engine/engine.ts';
import { numberAt, textAt } from '../engine/rows.ts';
import { runTogether } from '../engine/run-together.ts';
import type { Deed } from '../units/prepared.ts';
import { BadKeysError } from './bad-keys.ts';
import { countKeys, countRows, createLoading, findRepeatedKey, swap } from './load-sql.ts';
import { refuseOtherCount } from './row-counts.ts';
import type { PlannedColumn, TablePlan } from './table-plan.ts';

interface Loading {
  readonly unit: SnapshotUnit;
  readonly plan: TablePlan;
  readonly current: Current;
  readonly appliedAt: Date;
}

/** Null: the mirror is no longer what the unit was planned from, and nothing was done. */
export async function loadSnapshot(
  engine: Engine,
  { unit, plan, current, appliedAt }: Loading,
): Promise<Deed | null> {
  const { tableName, live, isKept } = current;
  if (!isPlannedFrom(live, unit.plannedFrom)) return null;
  refuseTakenName(unit.datasetId, current);

  await engine.runWithinRoom(createLoading(plan));
  const rowCount = await prove(engine, unit, plan.columns);
  await runTogether(engine, [
    ...swap(tableName, live !== null || isKept),
    ...comments(tableName, unit.datasetId, plan.columns),
  ]);
  const entry = entryOfSnapshot(unit, { current, columns: plan.columns, rowCount, appliedAt });
  return { done: { kind: 'committed', fromVersion: entry.line.fromVersion, net: null }, entry };
}

/** The count of the rows, once it and the keys are what they have to be. @throws DataError, BadKeysError where they are not. */
async function prove(engine: Engine, unit: SnapshotUnit, columns: readonly PlannedColumn[]): Promise<number> {
  const keyColumns = columns.filter((column) => unit.schema.keyColumns.includes(column.column.name));
  const counts = present((await engine.rows(countRows(keyColumns, engine.threads)))[0], 'a count has a row');
  const rowCount = numberAt(counts, 0);
  refuseOtherCount(unit, rowCount);
  for (const [index, planned] of keyColumns.entries()) {
    const nulls = rowCount - numberAt(counts, index + 2);
    if (nulls === 0) continue;
    throw new BadKeysError(
      `The key column ${JSON.stringify(planned.column.name)} of ${unit.datasetId} is null in ` +
        `${formatCount(nulls)} of ${formatCount(rowCount)} rows`,
      [{ column: planned, value: null }],
    );
  }
  if (numberAt(counts, 1) !== rowCount) await proveKeys(engine, unit, keyColumns, rowCount);
  return rowCount;
}

async function proveKeys(
  engine: Engine,
  unit: SnapshotUnit,
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
    `The key ${key.join(', ')} of ${unit.datasetId} is there ${formatCount(numberAt(repeated, 0))} times`,
    keyColumns.map((column, index) => ({ column, value: textAt(repeated, index + 1) })),
    `; ${formatCount(rowCount)} rows have ${formatCount(keys)} keys`,
  );
}
