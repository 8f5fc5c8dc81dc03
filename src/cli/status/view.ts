/** What `status` tells, as data. Pure. */

import type { Followed, Hold } from '../../checkpoint/checkpoint.ts';
import { holdStatus } from '../../sync/hold-status.ts';
import { type MirrorSeen, tablesOf } from '../mirror-seen.ts';
import { type CheckpointContent, NO_CHECKPOINT } from './checkpoint-content.ts';
import { datasetsOf } from './datasets.ts';
import { type ReadersSeen, readersStatus } from './readers.ts';
import type { MirrorStatus, Status, SubscriptionStatus } from './shape.ts';
import { holdOfSubscription } from './troubles.ts';

export interface StatusInput {
  readonly dataDirectory: string;
  readonly mirrorPath: string;
  readonly runningInstance: Status['runningInstance'];
  readonly mirror: MirrorSeen;
  readonly readers: ReadersSeen;
  readonly checkpoint: CheckpointContent | null;
  /** Whether the configuration lets a dataset be mirrored. */
  readonly isChosen: (datasetId: string) => boolean;
}

export function statusOf(input: StatusInput): Status {
  const { dataDirectory, mirrorPath, mirror, runningInstance } = input;
  const checkpoint = input.checkpoint ?? NO_CHECKPOINT;
  return {
    dataDirectory,
    mirror: mirrorStatus(mirrorPath, mirror),
    ...readersStatus(input.readers),
    runningInstance:
      runningInstance === null
        ? null
        : { pid: runningInstance.pid, host: runningInstance.host, command: runningInstance.command },
    subscriptions: [...checkpoint.followed.values()].map((followed) =>
      subscriptionStatus(followed, checkpoint.holds),
    ),
    forgottenSubscriptions: checkpoint.forgotten,
    datasets: datasetsOf({ tables: tablesOf(mirror), checkpoint, isChosen: input.isChosen }),
    holds: checkpoint.holds.filter(({ refusal }) => refusal.scope.kind !== 'dataset').map(holdStatus),
  };
}

function mirrorStatus(path: string, mirror: MirrorSeen): MirrorStatus {
  if (mirror === null) return { path, state: 'absent', trouble: null };
  if (mirror === 'busy') return { path, state: 'busy', trouble: null };
  if (mirror instanceof Error) return { path, state: 'unusable', trouble: mirror.message };
  return { path, state: 'present', trouble: null };
}

function subscriptionStatus(
  { subscriptionId, name, cursor, cursorAt, quietReadAt }: Followed,
  holds: readonly Hold[],
): SubscriptionStatus {
  const hold = holdOfSubscription(subscriptionId, holds);
  const heldState = hold?.refusal.status === null ? 'missing' : 'refused';
  return {
    id: subscriptionId,
    name,
    cursor: cursor?.text ?? null,
    cursorAt: cursorAt.toISOString(),
    quietReadAt: quietReadAt?.toISOString() ?? null,
    state: hold === null ? 'followed' : heldState,
    isHeld: hold !== null,
  };
}
