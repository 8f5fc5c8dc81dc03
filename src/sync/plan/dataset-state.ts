/** The state of one dataset before it is planned, and its phase. Pure. */

import type { Failure, Suspension } from '../../checkpoint/checkpoint.ts';
import type { DesiredState } from '../../model/desired-state.ts';
import { isPinned, type ObservedTable } from '../../model/write-jobs.ts';

export type DatasetPhaseKind =
  /** The dataset is desired, and has no table yet. */
  | 'absent'
  /** The table serves readers. */
  | 'live'
  /** The last attempt failed. A table that exists still serves readers. */
  | 'failed'
  /** A rollback keeps the table where it is until an operator resumes it. */
  | 'pinned'
  /** The service refused, and an operator has to act. A table that exists still serves readers. */
  | 'suspended'
  /** No subscription contains the dataset any more. */
  | 'retired';

/** The state of one dataset, from both stores. */
export interface DatasetState {
  readonly desired: DesiredState;
  readonly observed: ObservedTable | null;
  readonly suspension: Suspension | null;
  readonly failure: Failure | null;
}

export function phaseOf({ desired, observed, suspension, failure }: DatasetState): DatasetPhaseKind {
  if (desired.members.size === 0) return 'retired';
  if (isPinned(observed)) return 'pinned';
  if (suspension !== null) return 'suspended';
  if (failure !== null) return 'failed';
  return observed === null ? 'absent' : 'live';
}
