/** A retirement reads no file: all there is to see to off the lock is that what it writes can be written. */

import type { RetirementUnit } from '../../destination.ts';
import type { Engine } from '../engine/engine.ts';
import { mirrorError } from '../engine/failures.ts';
import { text } from '../engine/quoting.ts';
import type { PreparedUnit } from '../units/prepared.ts';
import { retireTable } from './retire-table.ts';

/** @throws DataError where the id or the reason cannot be a part of SQL. */
export async function prepareRetirement(_engine: Engine, unit: RetirementUnit): Promise<PreparedUnit> {
  for (const value of [unit.datasetId, unit.reason]) text(value);
  return {
    unit,
    rowCount: unit.how === 'archive' ? unit.plannedFrom.rowCount : 0,
    tableRows: unit.plannedFrom.rowCount,
    bytes: 0,
    carryOut: (engine, current, appliedAt) => retireTable(engine, unit, current, appliedAt),
    explain: (_examiner, error, place) => mirrorError(error, place),
  };
}
