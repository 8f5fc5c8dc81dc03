/** Carries out a retirement: the table of a dataset that no subscription holds any more leaves the mirrored data. */

import type { HeldDataset, RetirementUnit } from '../../destination/destination.ts';
import { commitUnit, type Tools, type WorkOutcome } from './work.ts';

/** What becomes of the table is the user's choice. */
export function retire(held: HeldDataset, reason: string, tools: Tools): Promise<WorkOutcome> {
  const { clock, choices } = tools.parts;
  const unit: RetirementUnit = {
    kind: 'retirement',
    datasetId: held.datasetId,
    how: choices.removedDatasets,
    reason,
    plannedFrom: held,
  };
  return commitUnit(unit, { versions: 0, bytes: 0, startedMs: clock.monotonicMs() }, tools);
}
