/** What `status` tells of datasets. Pure. */

import type { Failure, Hold } from '../../checkpoint/checkpoint.ts';
import type { Held } from '../../destination/destination.ts';
import { announcedVersion, type Want } from '../../model/desired-state.ts';
import type { RefusalScope } from '../../model/errors.ts';
import type { HeldDataset } from '../../model/write-jobs.ts';
import { doubtedLogs } from '../../sync/follow/log-restart.ts';
import { isOfContent } from '../../sync/plan/content.ts';
import { needOf, owesResync, pendingReloads } from '../../sync/plan/need.ts';
import { type Known, stateOf } from '../../sync/plan/plan.ts';
import { awaitedSubscriptions, type Readings, retirementReason } from '../../sync/plan/retirement.ts';
import { type HoldStatus, holdOfEveryMember, holdStatus } from '../../sync/suspensions.ts';
import type { DatasetStatus, RetirementStatus } from './shape.ts';
import type { CheckpointContent } from './status.ts';

interface DatasetsInput {
  /** By dataset id; null where the mirror could not be read. */
  readonly tables: ReadonlyMap<string, HeldDataset> | null;
  /** As the mirror names it; null where the mirror could not be read, or names none. */
  readonly service: Held['service'];
  readonly checkpoint: CheckpointContent;
  readonly isChosen: (datasetId: string) => boolean;
}

/**
 * Those that a subscription holds and those in the mirror, in order of id. Without a checkpoint the mirror speaks for
 * itself.
 */
export function datasetsOf(input: DatasetsInput): readonly DatasetStatus[] {
  const { tables, checkpoint } = input;
  const wanted = [...checkpoint.wants.values()].filter(({ members }) => members.size > 0);
  const ids = new Set([...(tables?.keys() ?? []), ...wanted.map(({ datasetId }) => datasetId)]);
  const readings = readingsOf(input);
  return [...ids].sort().map((id) => datasetOf(id, input, readings));
}

/**
 * Which logs were read lately is not stored. The next catch-up reads that of every subscription that is followed, but for
 * those that are suspended and those that the service did not list the last time. Nor is what their records say stored.
 */
function readingsOf({ service, checkpoint }: DatasetsInput): Readings {
  const suspensions = checkpoint.holds.flatMap((hold) => {
    const { scope } = hold.refusal;
    return scope.kind === 'subscription' ? [[scope.subscriptionId, hold] as const] : [];
  });
  const heldSubscriptions = new Map(suspensions);
  const unlisted = checkpoint.absences.flatMap(({ subject }) =>
    subject.kind === 'subscription' ? [subject.subscriptionId] : [],
  );
  const followed = new Set(checkpoint.followed.keys());
  return {
    held: { service },
    named: new Map(),
    followed,
    heldSubscriptions,
    readToHead: new Set([...followed].filter((id) => !heldSubscriptions.has(id) && !unlisted.includes(id))),
    doubted: doubtedLogs(checkpoint.absences),
    forgotten: new Set(checkpoint.forgotten),
  };
}

function datasetOf(
  id: string,
  { tables, checkpoint, isChosen }: DatasetsInput,
  readings: Readings,
): DatasetStatus {
  const { holds, wants, failures } = checkpoint;
  const held = tables?.get(id) ?? null;
  const own = holdOfDataset(id, holds);
  const failure = failures.get(id) ?? null;
  const want = wants.get(id) ?? null;
  const hold = own ?? (want === null ? null : holdAbove(want, holds));
  const wanted =
    want === null ? UNWANTED : wantedStatus({ want, held, hold, failure }, tables !== null, holds, readings);
  return {
    id,
    ...wanted,
    ...(isChosen(id) ? { isChosen: true } : LEFT_OUT),
    ...heldStatus(held),
    hold: own === null ? null : holdStatus(own),
    failure: failure === null ? null : failureStatus(failure),
  };
}

/** What holds it together with others: its subscriptions, all of them, or the workspace. */
function holdAbove({ members }: Want, holds: readonly Hold[]): Hold | null {
  return holdOfEveryMember(members.keys(), (subscriptionId) => holdOfSubscription(subscriptionId, holds));
}

type WantedStatus = Omit<
  DatasetStatus,
  'id' | 'hold' | 'failure' | 'isChosen' | keyof ReturnType<typeof heldStatus>
>;

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

/** Nothing is done about it, whatever is wanted of it. */
const LEFT_OUT = {
  isChosen: false,
  need: null,
  isReloadPending: false,
  isResyncPending: false,
  isLookPending: false,
  retirement: null,
} as const;

function wantedStatus(
  known: Known,
  isMirrorKnown: boolean,
  holds: readonly Hold[],
  readings: Readings,
): WantedStatus {
  const { want, held } = known;
  const state = stateOf(known).kind;
  const isRetired = state === 'retired';
  return {
    state,
    need: isMirrorKnown && !isRetired ? needOf(held, want) : null,
    subscriptions: [...want.members.keys()].sort(),
    wantedVersion: announcedVersion(want),
    isReloadPending: isMirrorKnown ? !isRetired && pendingReloads(held, want).length > 0 : null,
    isResyncPending: isMirrorKnown ? !isRetired && owesResync(held, want) : null,
    isLookPending: !isRetired && want.looksDone < want.looksAsked,
    retirement: isRetired ? retirementStatus(want, holds, readings) : null,
  };
}

/** A table that waits for subscriptions is not counted among those that an operator is asked about. */
function retirementStatus(want: Want, holds: readonly Hold[], readings: Readings): RetirementStatus {
  const isHeld = holds.some(({ refusal }) => refusal.scope.kind === 'retirement');
  const waitsFor = awaitedSubscriptions(want, readings).map(({ subscriptionId, reason }) => ({
    subscriptionId,
    reason,
  }));
  return {
    reason: retirementReason(want),
    waitsForApproval: isHeld && !want.retirementApproved && waitsFor.length === 0,
    waitsFor,
  };
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

export interface FailureStatus {
  readonly error: string;
  readonly message: string;
  readonly hint: string | null;
  readonly attempts: number;
  readonly failedAt: string;
  /** Before then the same content is not fetched again; other trouble is tried again by every catch-up. */
  readonly retryAt: string;
  /** Whether content of the service was found bad. */
  readonly isOfContent: boolean;
}

/** Its own, not that of its subscriptions. */
function holdOfDataset(datasetId: string, holds: readonly Hold[]): Hold | null {
  const isOfIt = ({ refusal: { scope } }: Hold): boolean =>
    scope.kind === 'dataset' && scope.datasetId === datasetId;
  return holds.find(isOfIt) ?? null;
}

/** Its own, else that of the workspace. */
export function holdOfSubscription(subscriptionId: string, holds: readonly Hold[]): Hold | null {
  const isOfIt = ({ refusal: { scope } }: Hold): boolean =>
    scope.kind === 'subscription' && scope.subscriptionId === subscriptionId;
  const isOfWorkspace = ({ refusal: { scope } }: Hold): boolean => scope.kind === 'workspace';
  return holds.find(isOfIt) ?? holds.find(isOfWorkspace) ?? null;
}

/** As it was stored: a hold is told in the same words wherever it is told. */
export function holdOf({
  scope,
  id,
  since,
  links,
  ...refusal
}: HoldStatus): Pick<Hold, 'refusal' | 'heldAt'> {
  return {
    refusal: { ...refusal, scope: scopeOf(scope, id ?? ''), links: new Map(Object.entries(links)) },
    heldAt: new Date(since),
  };
}

function failureStatus(failure: Failure): FailureStatus {
  const { error, message, hint, attempts } = failure;
  const [failedAt, retryAt] = [failure.failedAt.toISOString(), failure.retryAt.toISOString()];
  return { error, message, hint, attempts, failedAt, retryAt, isOfContent: isOfContent(failure) };
}

function scopeOf(kind: RefusalScope['kind'], id: string): RefusalScope {
  switch (kind) {
    case 'workspace':
    case 'retirement':
      return { kind };
    case 'subscription':
      return { kind, subscriptionId: id };
    case 'dataset':
      return { kind, datasetId: id };
  }
}
