/** What of the checkpoint a status is made from. */

import type { Failure, Followed, Hold } from '../../checkpoint/checkpoint.ts';
import type { Want } from '../../model/want.ts';

export interface CheckpointContent {
  readonly followed: ReadonlyMap<string, Followed>;
  readonly forgotten: readonly string[];
  readonly wants: ReadonlyMap<string, Want>;
  readonly holds: readonly Hold[];
  readonly failures: ReadonlyMap<string, Failure>;
}

/** There is none. */
export const NO_CHECKPOINT: CheckpointContent = {
  followed: new Map(),
  forgotten: [],
  wants: new Map(),
  holds: [],
  failures: new Map(),
};
