/** What `status` tells, as data. Pure. */

import type { Followed, Hold } from '../../checkpoint/checkpoint.ts';
import { BusyError } from '../../model/errors.ts';
import { holdStatus } from '../../sync/hold-status.ts';
import { type MirrorHeld, type MirrorSeen, tablesOf } from '../mirror-seen.ts';
import { isWorthCompacting } from '../mirror-size.ts';
import { absencesStatus } from './absences.ts';
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
  /** Of its file and log; 0 where there is none, or it cannot be looked at. */
  readonly mirrorBytes: number;
  readonly heldBy: readonly number[];
  readonly readers: ReadersSeen;
  readonly checkpoint: CheckpointContent | null;
  /** Whether the configuration lets a dataset be mirrored. */
  readonly isChosen: (datasetId: string) => boolean;
}

export function statusOf(input: StatusInput): Status {
  const { dataDirectory, mirror, runningInstance } = input;
  const checkpoint = input.checkpoint ?? NO_CHECKPOINT;
  return {
    dataDirectory,
    mirror: mirrorStatus(input),
    ...readersStatus(input.readers),
    runningInstance:
      runningInstance === null
        ? null
        : { pid: runningInstance.pid, host: runningInstance.host, command: runningInstance.command },
    subscriptions: [...checkpoint.followed.values()].map((followed) =>
      subscriptionStatus(followed, checkpoint.holds),
    ),
    forgottenSubscriptions: checkpoint.forgotten,
    datasets: datasetsOf({
      tables: tablesOf(mirror),
      service: isPresent(mirror) ? mirror.service : null,
      checkpoint,
      isChosen: input.isChosen,
    }),
    absences: absencesStatus(checkpoint.absences),
    holds: checkpoint.holds.filter(({ refusal }) => refusal.scope.kind !== 'dataset').map(holdStatus),
  };
}

function mirrorStatus({ mirrorPath: path, mirror, mirrorBytes: bytes, heldBy }: StatusInput): MirrorStatus {
  const freeBytes = isPresent(mirror) ? mirror.freeBytes : null;
  return {
    path,
    state: stateOf(mirror),
    trouble: mirror instanceof Error ? mirror.message : null,
    heldBy,
    bytes,
    freeBytes,
    isWorthCompacting: freeBytes === null ? null : isWorthCompacting({ bytes, freeBytes }),
  };
}

function stateOf(mirror: MirrorSeen): MirrorStatus['state'] {
  if (mirror === null) return 'absent';
  if (mirror === 'busy' || mirror instanceof BusyError) return 'busy';
  return mirror instanceof Error ? 'unusable' : 'present';
}

function isPresent(mirror: MirrorSeen): mirror is MirrorHeld {
  return stateOf(mirror) === 'present';
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
