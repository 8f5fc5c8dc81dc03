/** What `status` tells of datasets. Pure. */

import type { Failure, Suspension } from '../../checkpoint/checkpoint.ts';
import type { ObservedState } from '../../destination/destination.ts';
import { announcedVersion, type DesiredState } from '../../model/desired-state.ts';
import type { RefusalScope } from '../../model/errors.ts';
import type { ObservedTable } from '../../model/write-jobs.ts';
import { doubtedLogs } from '../../sync/follow/log-restart.ts';
import { isOfContent } from '../../sync/plan/content.ts';
import { needOf, owesResync, pendingReloads } from '../../sync/plan/need.ts';
import { type DatasetState, phaseOf } from '../../sync/plan/plan.ts';
import { awaitedSubscriptions, type Readings, retirementReason } from '../../sync/plan/retirement.ts';
import { type SuspensionStatus, suspensionOfEveryMember, suspensionStatus } from '../../sync/suspensions.ts';
import type { DatasetStatus, RetirementStatus } from './shape.ts';
import type { CheckpointContent } from './status.ts';

interface DatasetsInput {
  /** By dataset id; null where the mirror could not be read. */
  readonly tables: ReadonlyMap<string, ObservedTable> | null;
  /** As the mirror names it; null where the mirror could not be read, or names none. */
  readonly service: ObservedState['service'];
  readonly checkpoint: CheckpointContent;
  readonly isChosen: (datasetId: string) => boolean;
}

/**
 * Those that a subscription contains and those in the mirror, in order of id. Without a checkpoint the mirror speaks for
 * itself.
 */
export function datasetsOf(input: DatasetsInput): readonly DatasetStatus[] {
  const { tables, checkpoint } = input;
  const wanted = [...checkpoint.desiredStates.values()].filter(({ members }) => members.size > 0);
  const ids = new Set([...(tables?.keys() ?? []), ...wanted.map(({ datasetId }) => datasetId)]);
  const readings = readingsOf(input);
  return [...ids].sort().map((id) => datasetOf(id, input, readings));
}

/**
 * Which logs were read lately is not stored. The next catch-up reads that of every subscription that is followed, but for
 * those that are suspended and those that the service did not list the last time. Nor is what their records say stored.
 */
function readingsOf({ service, checkpoint }: DatasetsInput): Readings {
  const bySubscription = checkpoint.suspensions.flatMap((suspension) => {
    const { scope } = suspension.refusal;
    return scope.kind === 'subscription' ? [[scope.subscriptionId, suspension] as const] : [];
  });
  const suspendedSubscriptions = new Map(bySubscription);
  const unlisted = checkpoint.absences.flatMap(({ subject }) =>
    subject.kind === 'subscription' ? [subject.subscriptionId] : [],
  );
  const followed = new Set(checkpoint.followed.keys());
  return {
    observed: { service },
    named: new Map(),
    followed,
    suspendedSubscriptions,
    readToHead: new Set(
      [...followed].filter((id) => !suspendedSubscriptions.has(id) && !unlisted.includes(id)),
    ),
    doubted: doubtedLogs(checkpoint.absences),
    forgotten: new Set(checkpoint.forgotten),
  };
}

function datasetOf(
  id: string,
  { tables, checkpoint, isChosen }: DatasetsInput,
  readings: Readings,
): DatasetStatus {
  const { suspensions, desiredStates, failures } = checkpoint;
  const observed = tables?.get(id) ?? null;
  const own = suspensionOfDataset(id, suspensions);
  const failure = failures.get(id) ?? null;
  const desired = desiredStates.get(id) ?? null;
  const suspension = own ?? (desired === null ? null : suspensionAbove(desired, suspensions));
  const wanted =
    desired === null
      ? UNWANTED
      : wantedStatus({ desired, observed, suspension, failure }, tables !== null, suspensions, readings);
  return {
    id,
    ...wanted,
    ...(isChosen(id) ? { isChosen: true } : LEFT_OUT),
    ...tableStatus(observed),
    suspension: own === null ? null : suspensionStatus(own),
    failure: failure === null ? null : failureStatus(failure),
  };
}

/** What holds it together with others: its subscriptions, all of them, or the workspace. */
function suspensionAbove({ members }: DesiredState, suspensions: readonly Suspension[]): Suspension | null {
  return suspensionOfEveryMember(members.keys(), (subscriptionId) =>
    suspensionOfSubscription(subscriptionId, suspensions),
  );
}

type WantedStatus = Omit<
  DatasetStatus,
  'id' | 'suspension' | 'failure' | 'isChosen' | keyof ReturnType<typeof tableStatus>
>;

/** A table that nobody is known to want: the checkpoint is lost or does not know it yet. */
const UNWANTED: WantedStatus = {
  state: 'live',
  need: null,
  subscriptions: [],
  wantedVersion: null,
  isReloadPending: false,
  isResyncPending: false,
  isRefreshPending: false,
  retirement: null,
};

/** Nothing is done about it, whatever is wanted of it. */
const LEFT_OUT = {
  isChosen: false,
  need: null,
  isReloadPending: false,
  isResyncPending: false,
  isRefreshPending: false,
  retirement: null,
} as const;

function wantedStatus(
  known: DatasetState,
  isMirrorKnown: boolean,
  suspensions: readonly Suspension[],
  readings: Readings,
): WantedStatus {
  const { desired, observed } = known;
  const state = phaseOf(known).kind;
  const isRetired = state === 'retired';
  return {
    state,
    need: isMirrorKnown && !isRetired ? needOf(observed, desired) : null,
    subscriptions: [...desired.members.keys()].sort(),
    wantedVersion: announcedVersion(desired),
    isReloadPending: isMirrorKnown ? !isRetired && pendingReloads(observed, desired).length > 0 : null,
    isResyncPending: isMirrorKnown ? !isRetired && owesResync(observed, desired) : null,
    isRefreshPending: !isRetired && desired.refreshesDone < desired.refreshesRequested,
    retirement: isRetired ? retirementStatus(desired, suspensions, readings) : null,
  };
}

/** A table that waits for subscriptions is not counted among those that an operator is asked about. */
function retirementStatus(
  desired: DesiredState,
  suspensions: readonly Suspension[],
  readings: Readings,
): RetirementStatus {
  const isSuspended = suspensions.some(({ refusal }) => refusal.scope.kind === 'retirement');
  const waitsFor = awaitedSubscriptions(desired, readings).map(({ subscriptionId, reason }) => ({
    subscriptionId,
    reason,
  }));
  return {
    reason: retirementReason(desired),
    waitsForApproval: isSuspended && !desired.retirementApproved && waitsFor.length === 0,
    waitsFor,
  };
}

function tableStatus(observed: ObservedTable | null) {
  return {
    table: observed?.tableName ?? null,
    version: observed?.version ?? null,
    rows: observed?.rowCount ?? null,
    publishedAt: observed?.publishedAt?.toISOString() ?? null,
    appliedAt: observed?.appliedAt.toISOString() ?? null,
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
function suspensionOfDataset(datasetId: string, suspensions: readonly Suspension[]): Suspension | null {
  const isOfIt = ({ refusal: { scope } }: Suspension): boolean =>
    scope.kind === 'dataset' && scope.datasetId === datasetId;
  return suspensions.find(isOfIt) ?? null;
}

/** Its own, else that of the workspace. */
export function suspensionOfSubscription(
  subscriptionId: string,
  suspensions: readonly Suspension[],
): Suspension | null {
  const isOfIt = ({ refusal: { scope } }: Suspension): boolean =>
    scope.kind === 'subscription' && scope.subscriptionId === subscriptionId;
  const isOfWorkspace = ({ refusal: { scope } }: Suspension): boolean => scope.kind === 'workspace';
  return suspensions.find(isOfIt) ?? suspensions.find(isOfWorkspace) ?? null;
}

/** As it was stored: a hold is told in the same words wherever it is told. */
export function suspensionOf({
  scope,
  id,
  since,
  links,
  ...refusal
}: SuspensionStatus): Pick<Suspension, 'refusal' | 'suspendedAt'> {
  return {
    refusal: { ...refusal, scope: scopeOf(scope, id ?? ''), links: new Map(Object.entries(links)) },
    suspendedAt: new Date(since),
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
