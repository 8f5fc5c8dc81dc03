/** What of the checkpoint a status is made from. */

import type { Failure, Followed, Hold } from '../../checkpoint/checkpoint.ts';
import type { Absence } from '../../model/absence.ts';
import type { Want } from '../../model/want.ts';

export interface CheckpointContent {
  readonly followed: ReadonlyMap<string, Followed>;
  readonly forgotten: readonly string[];
  readonly wants: ReadonlyMap<string, Want>;
  readonly absences: readonly Absence[];
  readonly holds: readonly Hold[];
  readonly failures: ReadonlyMap<string, Failure>;
}

/** There is none. */
export const NO_CHECKPOINT: CheckpointContent = {
  followed: new Map(),
  forgotten: [],
  wants: new Map(),
  absences: [],
  holds: [],
  failures: new Map(),
};
