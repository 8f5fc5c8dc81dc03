/**
 * Applies changes inside the transaction it is given. The table is compared with what it was left as, gets its new columns and the net
 * change, and is proven; what is to be written down is given back. Until the transaction commits nothing of it is seen; whatever is
 * thrown here must undo the whole transaction.
 */

import { isDeepStrictEqual } from 'node:util';
import { present } from '../../../lib/assert.ts';
import { formatCount } from '../../../lib/units.ts';
import { UnusableChangesError } from '../../../model/errors.ts';
import type { ChangesUnit, HeldDataset } from '../../destination.ts';
import { entryOfChanges } from '../books/book-entry.ts';
import { type Current, isSameTable } from '../books/current-table.ts';
import type { Engine } from '../engine/engine.ts';
import { runTogether } from '../engine/run-together.ts';
import { TYPE_NAMES } from '../snapshot/casts.ts';
import type { Deed } from '../units/prepared.ts';
import { findFilled } from './apply-sql.ts';
import { describeColumns } from './describe-columns.ts';
import type { FoundTable } from './found-table.ts';
import type { NetChange } from './net.ts';
import { type TableAfter, tableAfter } from './table-after.ts';
import { UnprovenError, type Written, writeNet } from './write-net.ts';

interface Applying {
  readonly unit: ChangesUnit;
  readonly net: NetChange;
  readonly current: Current;
  readonly appliedAt: Date;
}

/** Null: the mirror is no longer what the unit was planned from, and nothing was done. @throws UnusableChangesError */
export async function applyChanges(
  engine: Engine,
  { unit, net, current, appliedAt }: Applying,
): Promise<Deed | null> {
  const { live, recordedColumns } = current;
  if (!isSameTable(live, unit.plannedFrom)) return null;

  const found = present(current.found, 'a live table was looked at');
  proveColumns(unit, live, found);
  await proveFirstValues(engine, live.tableName, net);
  const after = tableAfter(live.columns, net.columns);
  const written = await write(engine, unit, { tableName: live.tableName, net, found }, after);
  proveCount(unit, written.rowCount);
  const { statements, columns } = describeColumns(live, recordedColumns, after);
  await runTogether(engine, statements);
  return {
    done: { kind: 'committed', fromVersion: live.version, net: written.net },
    entry: entryOfChanges(unit, { live, columns, ...written, appliedAt }),
  };
}

/** A table whose columns somebody changed by hand is not what the changes are for. */
function proveColumns(unit: ChangesUnit, held: HeldDataset, { columns }: FoundTable): void {
  const expected = held.columns.map(({ columnName, type }) => [columnName, TYPE_NAMES[type]]);
  if (isDeepStrictEqual(columns, expected)) return;
  throw unusable(unit, `the columns of the table ${held.tableName} are not those it was left with`);
}

/** A coordinate system is that of the first value, so there must be none before. */
async function proveFirstValues(
  engine: Engine,
  tableName: string,
  { firstValues }: NetChange,
): Promise<void> {
  for (const { columnName, refusal } of firstValues) {
    if ((await engine.rows(findFilled(tableName, columnName))).length > 0) throw refusal;
  }
}

interface Writing {
  readonly tableName: string;
  readonly net: NetChange;
  readonly found: FoundTable;
}

async function write(
  engine: Engine,
  unit: ChangesUnit,
  { tableName, net, found }: Writing,
  { columns, alteration }: TableAfter,
): Promise<Written> {
  const before = { found, expectedBefore: unit.plannedFrom.rowCount };
  try {
    return await writeNet(engine, { tableName, net, columns }, alteration, before);
  } catch (error) {
    if (!(error instanceof UnprovenError)) throw error;
    throw unusable(unit, `the table ${tableName} does not prove: ${error.message}`);
  }
}

function proveCount(unit: ChangesUnit, rowCount: number): void {
  const stated = statedRowCount(unit);
  if (stated === null || stated === rowCount) return;
  throw unusable(
    unit,
    `the table would have ${formatCount(rowCount)} rows, and the service states ${formatCount(stated)} for version ${unit.version}`,
  );
}

/**
 * The rows of the table after the last version, by what the service says: its own number, else the newest one before
 * it (of a version, or of the table) with what the counts since add and take. Null where that cannot be known.
 */
export function statedRowCount({
  versions,
  plannedFrom,
}: Pick<ChangesUnit, 'versions' | 'plannedFrom'>): number | null {
  return versions.reduce<number | null>((rows, { counts, rowCount }) => {
    if (rowCount !== null || rows === null || counts === null) return rowCount;
    return rows + counts.added - counts.removed;
  }, plannedFrom.rowCount);
}

function unusable(unit: ChangesUnit, why: string): UnusableChangesError {
  return new UnusableChangesError(unit.datasetId, firstVersion(unit), why);
}

/**
 * The version that is to blame where a net change does not prove: which of several is at fault is not known, and a
 * snapshot at or past the first one leads on in any case.
 */
export function firstVersion({ versions }: ChangesUnit): number {
  return present(versions[0], 'changes are those of at least one version').version;
}
