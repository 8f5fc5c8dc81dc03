/** Examines changes off the lock: every value is decoded, checked and folded to the net change of the backlog. */

import { stat } from 'node:fs/promises';
import { present } from '../../../lib/assert.ts';
import { UnusableChangesError } from '../../../model/errors.ts';
import type { ChangesUnit } from '../../destination.ts';
import { comments } from '../books/comment-sql.ts';
import { DuckDbError, type Trouble } from '../engine/diagnosis.ts';
import type { Engine } from '../engine/engine.ts';
import { firstLine, type MirrorPlace, mirrorError } from '../engine/failures.ts';
import { text } from '../engine/quoting.ts';
import type { PlannedColumn } from '../snapshot/table-plan.ts';
import type { PreparedUnit } from '../units/prepared.ts';
import { applyChanges, firstVersion } from './apply-changes.ts';
import { foldChanges } from './fold.ts';
import { foldTogether } from './fold-together.ts';
import type { NetChange } from './net.ts';
import { tableAfter } from './table-after.ts';

/** @throws BadChangesError, UnknownColumnsError, UnusableChangesError, StorageError */
export async function prepareChanges(engine: Engine, unit: ChangesUnit): Promise<PreparedUnit> {
  return await preparedChanges(unit, await foldChanges(engine, unit));
}

/** Of units that are `foldedAlike`, in their order. Null: each has to be prepared alone. */
export async function prepareChangesTogether(
  engine: Engine,
  units: readonly ChangesUnit[],
): Promise<readonly PreparedUnit[] | null> {
  const nets = await foldTogether(engine, units);
  if (nets === null) return null;
  return await Promise.all(
    units.map((unit, index) => preparedChanges(unit, present(nets[index], 'each was folded'))),
  );
}

async function preparedChanges(unit: ChangesUnit, net: NetChange): Promise<PreparedUnit> {
  const { columns, alteration } = tableAfter(unit.plannedFrom.columns, net.columns);
  refuseUnspeakable(unit, columns);
  const sizes = await Promise.all(net.paths.map(async (path) => (await stat(path)).size));
  const rewritten = alteration.kind === 'rewrite' ? unit.plannedFrom.rowCount : 0;
  return {
    unit,
    rowCount: net.rows + net.removals + rewritten,
    tableRows: unit.plannedFrom.rowCount + net.rows,
    bytes: sizes.reduce((sum, size) => sum + size, 0),
    carryOut: (window, current, appliedAt) => applyChanges(window, { unit, net, current, appliedAt }),
    explain: (_examiner, error, place) => explainChanges(unit, error, place),
  };
}

/** Writes out what is said in SQL, for its errors: they are known before the lock is taken. */
function refuseUnspeakable(unit: ChangesUnit, columns: readonly PlannedColumn[]): void {
  for (const value of [unit.datasetId, unit.schema.schemaVersion]) text(value);
  for (const { column } of columns) text(column.sourceName);
  comments('table', unit.datasetId, columns);
}

/** What a statement cannot do to a table that was changed by hand, a load can. */
const GIVES_WAY: ReadonlySet<Trouble> = new Set<Trouble>(['statement', 'gave-up']);

async function explainChanges(unit: ChangesUnit, error: unknown, place: MirrorPlace): Promise<Error> {
  if (!(error instanceof DuckDbError) || !GIVES_WAY.has(error.trouble))
    return await mirrorError(error, place);
  return new UnusableChangesError(unit.datasetId, firstVersion(unit), firstLine(error).replace(/[.!]$/, ''));
}
