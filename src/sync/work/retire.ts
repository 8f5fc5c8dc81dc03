/** Carries out a retirement: the table of a dataset that no subscription holds any more leaves the mirrored data. */

import type { HeldDataset, RetirementUnit } from '../../destination/destination.ts';
import type { Plan } from '../plan/step.ts';
import { commitUnit, type Tools, type WorkOutcome } from './work.ts';

/** What becomes of the table is the user's choice. */
export function retire(
  held: HeldDataset,
  { reason, isApproved, judgedAt }: Omit<Plan & { kind: 'retire' }, 'kind'>,
  tools: Tools,
): Promise<WorkOutcome> {
  const { clock, choices } = tools.parts;
  const unit: RetirementUnit = {
    kind: 'retirement',
    datasetId: held.datasetId,
    how: choices.removedDatasets,
    reason,
    retiredAt: judgedAt,
    isApproved,
    plannedFrom: held,
  };
  return commitUnit(unit, { versions: 0, bytes: 0, startedMs: clock.monotonicMs() }, tools);
}
