/** Proves the content of a snapshot once it is in a table: its row count and its keys. */

import { present } from '../../lib/assert.ts';
import { formatCount, plural } from '../../lib/units.ts';
import type { SnapshotJob } from '../../model/write-jobs.ts';
import type { Engine } from '../../staging/engine/engine.ts';
import { bigintOrNullAt, numberAt, textAt } from '../../staging/engine/sql.ts';
import { refuseOtherCount } from '../../staging/snapshot/examine-snapshot.ts';
import { BadKeysError } from '../../staging/snapshot/explain-failure.ts';
import type { PlannedColumn } from '../../staging/snapshot/table-plan.ts';
import { type Checksum, checksumAt } from '../catalog/cells.ts';
import {
  countKeys,
  countRows,
  EVERY_ROW,
  findRepeatedKey,
  partsByAddress,
  selectAddresses,
} from './load-sql.ts';
import { hasAddresses } from './tables.ts';

/** Returns the columns of the key, in the order of the plan. */
export function keyColumnsOf(job: SnapshotJob, columns: readonly PlannedColumn[]): readonly PlannedColumn[] {
  return columns.filter(({ column }) => job.schema.keyColumns.includes(column.name));
}

export interface Proven {
  readonly rowCount: number;
  readonly checksum: Checksum;
}

/** Proves the row count and the keys of the content; `table` is SQL. @throws DataError, BadKeysError */
export async function prove(
  engine: Engine,
  job: SnapshotJob,
  table: string,
  columns: readonly PlannedColumn[],
): Promise<Proven> {
  return present(await proveUnlessLeftOut(engine, job, table, columns, []), 'no value was left out');
}

/** Returns null, and proves nothing, where a value was left out in one of the columns `leftOut`. @throws DataError, BadKeysError */
export async function proveUnlessLeftOut(
  engine: Engine,
  job: SnapshotJob,
  table: string,
  columns: readonly PlannedColumn[],
  leftOut: readonly PlannedColumn[],
): Promise<Proven | null> {
  const keyColumns = keyColumnsOf(job, columns);
  const parts = await partsOf(engine, table, columns);
  const [counts = []] = await engine.rows(countRows(table, columns, keyColumns, parts, leftOut));
  if (numberAt(counts, 4) > 0) return null;
  const rowCount = numberAt(counts, 0);
  refuseOtherCount(job, rowCount);
  for (const [index, planned] of keyColumns.entries()) {
    const nulls = rowCount - numberAt(counts, index + 5);
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
