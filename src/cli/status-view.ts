/** What `status` tells, as data: the shape of `status --json`, which programs rely on. Pure. */

import type { Failure, Followed, Hold } from '../checkpoint/checkpoint.ts';
import type { InstanceHolder } from '../checkpoint/instance-lock.ts';
import type { HeldDataset } from '../destination/destination.ts';
import type { Want } from '../model/want.ts';
import { type Need, needOf, owesResync, pendingReloads } from '../sync/need.ts';
import { retirementReason } from '../sync/retirement.ts';
import { type DatasetStateKind, type Known, stateOf } from '../sync/state.ts';
import { type MirrorSeen, tablesOf } from './mirror-seen.ts';
import { type FailureStatus, failureStatus, type HoldStatus, holdStatus } from './status-troubles.ts';

export interface Status {
  readonly dataDirectory: string;
  readonly mirror: MirrorStatus;
  readonly runningInstance: { readonly pid: number; readonly host: string; readonly command: string } | null;
  readonly subscriptions: readonly SubscriptionStatus[];
  /** Ids of subscriptions that a person gave up and that the next catch-up takes out of the mirror. */
  readonly forgottenSubscriptions: readonly string[];
  readonly datasets: readonly DatasetStatus[];
  /** Of the workspace, of subscriptions and of retirements; those of datasets are with the datasets. */
  readonly holds: readonly HoldStatus[];
}

export interface MirrorStatus {
  readonly path: string;
  readonly state: 'present' | 'absent' | 'busy' | 'unusable';
  /** Why it is unusable; null where it is not. */
  readonly trouble: string | null;
}

export interface SubscriptionStatus {
  readonly id: string;
  readonly name: string | null;
  readonly cursor: string | null;
  readonly cursorAt: string;
  /** When its log was last read from its start because the service keeps nothing as old as the cursor; null: it is read on. */
  readonly quietReadAt: string | null;
  /** Whether a hold keeps it from being read. */
  readonly isHeld: boolean;
}

export interface DatasetStatus {
  readonly id: string;
  readonly state: DatasetStateKind;
  /** The most pressing thing to do; null where the mirror could not be read, and where no subscription holds the dataset. */
  readonly need: Need | null;
  /** Ids of the subscriptions that hold it. */
  readonly subscriptions: readonly string[];
  readonly table: string | null;
  readonly version: number | null;
  readonly wantedVersion: number | null;
  readonly rows: number | null;
  readonly publishedAt: string | null;
  readonly appliedAt: string | null;
  /** The service asked that it be loaded again; null where the mirror could not be read. */
  readonly isReloadPending: boolean | null;
  /** A person asked that it be loaded again. */
  readonly isResyncPending: boolean;
  /** Its versions and schemas are to be read. */
  readonly isLookPending: boolean;
  /** Its table is to leave the mirror; null where it stays. */
  readonly retirement: RetirementStatus | null;
  readonly hold: HoldStatus | null;
  readonly failure: FailureStatus | null;
}

export interface RetirementStatus {
  /** For people: why. */
  readonly reason: string;
  /** So many go at once that a person has to agree first. */
  readonly waitsForApproval: boolean;
}

export interface StatusInput {
  readonly dataDirectory: string;
  readonly mirrorPath: string;
  readonly runningInstance: InstanceHolder | null;
  readonly mirror: MirrorSeen;
  readonly checkpoint: CheckpointContent | null;
}

export interface CheckpointContent {
  readonly followed: ReadonlyMap<string, Followed>;
  readonly forgotten: readonly string[];
  readonly wants: ReadonlyMap<string, Want>;
  readonly holds: readonly Hold[];
  readonly failures: ReadonlyMap<string, Failure>;
}

const NO_CHECKPOINT: CheckpointContent = {
  followed: new Map(),
  forgotten: [],
  wants: new Map(),
  holds: [],
  failures: new Map(),
};

export function statusOf(input: StatusInput): Status {
  const { dataDirectory, mirrorPath, mirror, runningInstance } = input;
  const checkpoint = input.checkpoint ?? NO_CHECKPOINT;
  return {
    dataDirectory,
    mirror: mirrorStatus(mirrorPath, mirror),
    runningInstance:
      runningInstance === null
        ? null
        : { pid: runningInstance.pid, host: runningInstance.host, command: runningInstance.command },
    subscriptions: [...checkpoint.followed.values()].map((followed) =>
      subscriptionStatus(followed, checkpoint.holds),
    ),
    forgottenSubscriptions: checkpoint.forgotten,
    datasets: datasetsOf(tablesOf(mirror), checkpoint),
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
  const isHeld = holds.some(
    ({ refusal: { scope } }) =>
      scope.kind === 'workspace' ||
      (scope.kind === 'subscription' && scope.subscriptionId === subscriptionId),
  );
  return {
    id: subscriptionId,
    name,
    cursor: cursor?.text ?? null,
    cursorAt: cursorAt.toISOString(),
    quietReadAt: quietReadAt?.toISOString() ?? null,
    isHeld,
  };
}

/**
 * Those that a subscription holds and those in the mirror, in order of id. Without a checkpoint the mirror speaks for
 * itself. `tables` is null where the mirror could not be read.
 */
function datasetsOf(
  tables: ReadonlyMap<string, HeldDataset> | null,
  checkpoint: CheckpointContent,
): readonly DatasetStatus[] {
  const wanted = [...checkpoint.wants.values()].filter(({ members }) => members.size > 0);
  const ids = new Set([...(tables?.keys() ?? []), ...wanted.map(({ datasetId }) => datasetId)]);
  return [...ids].sort().map((id) => {
    const held = tables?.get(id) ?? null;
    const hold = checkpoint.holds.find((candidate) => isOfDataset(candidate, id)) ?? null;
    const failure = checkpoint.failures.get(id) ?? null;
    const want = checkpoint.wants.get(id) ?? null;
    return {
      id,
      ...(want === null
        ? UNWANTED
        : wantedStatus({ want, held, hold, failure }, tables !== null, checkpoint.holds)),
      ...heldStatus(held),
      hold: hold === null ? null : holdStatus(hold),
      failure: failure === null ? null : failureStatus(failure),
    };
  });
}

type WantedStatus = Omit<DatasetStatus, 'id' | 'hold' | 'failure' | keyof ReturnType<typeof heldStatus>>;

/** A table that nobody is known to want: the checkpoint is lost or does not know it yet. */
const UNWANTED: WantedStatus = {
  state: 'live',
  need: null,
  subscriptions: [],
  wantedVersion: null,
  isReloadPending: false,
  isResyncPending: false,
  isLookPending: false,
  retirement: null,
};

function wantedStatus(known: Known, isMirrorKnown: boolean, holds: readonly Hold[]): WantedStatus {
  const { want, held } = known;
  const state = stateOf(known).kind;
  const isRetired = state === 'retired';
  return {
    state,
    need: isMirrorKnown && !isRetired ? needOf(held, want) : null,
    subscriptions: [...want.members].sort(),
    wantedVersion: want.atLeastVersion,
    isReloadPending: isMirrorKnown ? !isRetired && pendingReloads(held, want).size > 0 : null,
    isResyncPending: !isRetired && owesResync(want),
    isLookPending: !isRetired && want.looksDone < want.looksAsked,
    retirement: isRetired ? retirementStatus(want, holds) : null,
  };
}

function retirementStatus(want: Want, holds: readonly Hold[]): RetirementStatus {
  const isHeld = holds.some(({ refusal }) => refusal.scope.kind === 'retirement');
  return { reason: retirementReason(want), waitsForApproval: isHeld && !want.retirementApproved };
}

function heldStatus(held: HeldDataset | null) {
  return {
    table: held?.tableName ?? null,
    version: held?.version ?? null,
    rows: held?.rowCount ?? null,
    publishedAt: held?.publishedAt?.toISOString() ?? null,
    appliedAt: held?.appliedAt.toISOString() ?? null,
  };
}

function isOfDataset({ refusal: { scope } }: Hold, datasetId: string): boolean {
  return scope.kind === 'dataset' && scope.datasetId === datasetId;
}
