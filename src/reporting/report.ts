/** The state of checkpoint and mirror at one time: the one model that `status`, `verify` and the status server render. Pure. */

import type { Failure, Followed, Mention, Poll, PollFailure, Suspension } from '../checkpoint/checkpoint.ts';
import { present } from '../lib/assert.ts';
import { causeIn } from '../lib/text.ts';
import type { DesiredState } from '../model/desired-state.ts';
import type { ObservedTable } from '../model/write-jobs.ts';
import { doubtedLogs } from '../sync/follow/log-restart.ts';
import { isChosenDataset } from '../sync/follow/subscriptions.ts';
import type { Choices } from '../sync/parts.ts';
import { type DatasetPhaseKind, phaseOf } from '../sync/plan/dataset-state.ts';
import { type Need, needOf, owesResync, pendingReloads } from '../sync/plan/need.ts';
import {
  type AwaitedSubscription,
  awaitedSubscriptions,
  type Readings,
  retirementReason,
} from '../sync/plan/retirement.ts';
import { type Suspensions, suspensionsAmong } from '../sync/suspensions.ts';
import { type CheckpointContent, type MirrorSeen, NO_CHECKPOINT, observedOf } from './stores.ts';

export interface ReportInput {
  readonly mirror: MirrorSeen;
  /** Null: there is none. */
  readonly checkpoint: CheckpointContent | null;
  /** Globs on dataset ids: which datasets may be mirrored. */
  readonly choices: Pick<Choices, 'include' | 'exclude'>;
  /** As `suspensionsAmong` takes it. */
  readonly keyHash: string | null;
}

export interface Report {
  readonly mirror: MirrorSeen;
  readonly checkpoint: CheckpointContent;
  readonly suspensions: Suspensions;
  readonly service: ServiceReport;
  readonly subscriptions: readonly SubscriptionReport[];
  /** By id, in order of id: the datasets that a subscription contains and those that have a table. */
  readonly datasets: ReadonlyMap<string, DatasetReport>;
}

/** Whether the service answers, by the polls that were stored. */
export interface ServiceReport {
  /** The newest successful poll; null: the service was never reached. */
  readonly reached: Poll['success'];
  /** The failures that last, the longest first. Polls that fail for one cause are one outage. */
  readonly outages: readonly Outage[];
  /** Everything published up to this time is mirrored, or is known to be behind; null: not known. */
  readonly dataAsOf: Date | null;
}

export interface Outage extends PollFailure {
  /** In order of id; empty where the list of subscriptions fails. */
  readonly subscriptionIds: readonly string[];
}

export interface SubscriptionReport {
  readonly followed: Followed;
  /** Null: its log was not read yet. */
  readonly poll: Poll | null;
  /** Its own, else that of the workspace. */
  readonly suspension: Suspension | null;
}

export interface DatasetReport extends DueWork {
  readonly id: string;
  readonly isChosen: boolean;
  /** Null: the checkpoint is lost, or does not know the dataset yet, so the mirror alone describes the dataset. */
  readonly desired: DesiredState | null;
  /** Null: there is no table, or the mirror could not be read. */
  readonly observed: ObservedTable | null;
  /** Its own, else that of one of its subscriptions where every one of them is suspended. */
  readonly suspension: Suspension | null;
  readonly failure: Failure | null;
  /** `suspended` also where the workspace is suspended. */
  readonly phase: DatasetPhaseKind;
}

interface DueWork {
  /** The most pressing need; null where the mirror could not be read, and where no work is done on the dataset. */
  readonly need: Need | null;
  /** The service asked for a reload of the dataset; null where the mirror could not be read. */
  readonly isReloadPending: boolean | null;
  /** An operator asked for a resync of the dataset; null where the mirror could not be read. */
  readonly isResyncPending: boolean | null;
  readonly isRefreshPending: boolean;
  /** The table is to retire; null where the table stays. */
  readonly retirement: RetirementReport | null;
}

export interface RetirementReport {
  /** The reason, for the operator. */
  readonly reason: string;
  /**
   * So many tables would retire at once that an operator has to approve first. A table that waits for subscriptions is not
   * one of them.
   */
  readonly waitsForApproval: boolean;
  /** Subscriptions that the next catch-up has to wait for, as far as the stores say. */
  readonly waitsFor: readonly AwaitedSubscription[];
}

export function reportOf({ mirror, checkpoint: stored, choices, keyHash }: ReportInput): Report {
  const checkpoint = stored ?? NO_CHECKPOINT;
  const suspensions = suspensionsAmong(checkpoint.suspensions, keyHash, checkpoint.candidates);
  const observed = observedOf(mirror);
  const tables = observed?.datasets ?? null;
  const desired = [...checkpoint.desiredStates.values()].filter(({ members }) => members.size > 0);
  const ids = new Set([...(tables?.keys() ?? []), ...desired.map(({ datasetId }) => datasetId)]);
  const readings = readingsOf(observed?.service ?? null, checkpoint, suspensions);
  const dataset = (id: string): DatasetReport => {
    const desired = checkpoint.desiredStates.get(id) ?? null;
    const known = {
      id,
      isChosen: isChosenDataset(id, choices.include, choices.exclude),
      desired,
      observed: tables?.get(id) ?? null,
      suspension: desired === null ? suspensions.ofDataset(id) : suspensions.concerning(desired),
      failure: checkpoint.failures.get(id) ?? null,
    };
    if (desired === null) return { ...known, phase: 'live', ...NOTHING_DUE };
    const suspension = known.suspension ?? suspensions.workspace;
    const phase = phaseOf({ ...known, desired, suspension });
    if (!known.isChosen) return { ...known, phase, ...NOTHING_DUE };
    if (phase === 'pinned') return { ...known, phase, ...NOTHING_DUE };
    if (phase !== 'retired') return { ...known, phase, ...dueWork(desired, known.observed, tables !== null) };
    return { ...known, phase, ...NOTHING_DUE, retirement: retirementOf(desired, suspensions, readings) };
  };
  const subscriptions = [...checkpoint.followed.values()].map((followed) => ({
    followed,
    poll: checkpoint.polls.find(({ subscriptionId }) => subscriptionId === followed.subscriptionId) ?? null,
    suspension: suspensions.ofSubscription(followed.subscriptionId) ?? suspensions.workspace,
  }));
  return {
    mirror,
    checkpoint,
    suspensions,
    service: serviceOf(checkpoint.polls, subscriptions),
    subscriptions,
    datasets: new Map([...ids].sort().map((id) => [id, dataset(id)])),
  };
}

/** The polls of suspended subscriptions, and of those that were given up, say nothing about the service of today. */
function serviceOf(polls: readonly Poll[], subscriptions: readonly SubscriptionReport[]): ServiceReport {
  const list = polls.find(({ subscriptionId }) => subscriptionId === null) ?? null;
  const read = subscriptions.filter(({ suspension }) => suspension === null);
  const successes = polls.flatMap(({ success }) => success ?? []);
  const readAt = read.map(({ poll }) => poll?.success?.at ?? null);
  const times = readAt.length > 0 ? readAt : [list?.success?.at ?? null];
  const asked = [...(list === null ? [] : [list]), ...read.flatMap(({ poll }) => poll ?? [])];
  return {
    reached: successes.toSorted((left, right) => right.at.getTime() - left.at.getTime())[0] ?? null,
    outages: outagesOf(asked),
    dataAsOf: times.includes(null) ? null : earliest(times.filter((at) => at !== null)),
  };
}

function outagesOf(polls: readonly Poll[]): readonly Outage[] {
  const failing = polls.flatMap(({ subscriptionId, failure }) =>
    failure === null ? [] : [{ subscriptionId, failure }],
  );
  const byCause = Map.groupBy(
    failing,
    ({ subscriptionId, failure: { error, message } }) => `${error} ${causeIn(message, subscriptionId ?? '')}`,
  );
  const outages = [...byCause.values()].map((of) => {
    const failures = of.map(({ failure }) => failure);
    const [newest] = failures.toSorted((left, right) => right.at.getTime() - left.at.getTime());
    return {
      ...present(newest, 'a group has a member'),
      since: earliest(failures.map(({ since }) => since)),
      subscriptionIds: of.flatMap(({ subscriptionId }) => subscriptionId ?? []),
    };
  });
  return outages.sort((left, right) => left.since.getTime() - right.since.getTime());
}

function earliest(times: readonly Date[]): Date {
  return new Date(Math.min(...times.map((at) => at.getTime())));
}

/** The work of a dataset that is left out or pinned, and of a table without a desired state. */
const NOTHING_DUE: DueWork = {
  need: null,
  isReloadPending: false,
  isResyncPending: false,
  isRefreshPending: false,
  retirement: null,
};

function dueWork(desired: DesiredState, observed: ObservedTable | null, isMirrorKnown: boolean): DueWork {
  return {
    need: isMirrorKnown ? needOf(observed, desired) : null,
    isReloadPending: isMirrorKnown ? pendingReloads(observed, desired).length > 0 : null,
    isResyncPending: isMirrorKnown ? owesResync(observed, desired) : null,
    isRefreshPending: desired.refreshesDone < desired.refreshesRequested,
    retirement: null,
  };
}

/**
 * The stores do not contain which logs were read lately, and of the records of subscriptions only the mentions. The next
 * catch-up reads the log of every followed subscription that is not suspended and that the service listed the last time.
 */
function readingsOf(
  service: Readings['observed']['service'],
  { followed, absences, forgotten, mentions }: CheckpointContent,
  { subscriptions }: Suspensions,
): Readings {
  const unlisted = absences.flatMap(({ subject }) =>
    subject.kind === 'subscription' ? [subject.subscriptionId] : [],
  );
  const ids = [...followed.keys()];
  return {
    observed: { service },
    named: subscriptionsNaming(mentions),
    followed: new Set(ids),
    suspendedSubscriptions: subscriptions,
    readToHead: new Set(ids.filter((id) => !subscriptions.has(id) && !unlisted.includes(id))),
    doubted: doubtedLogs(absences),
    forgotten: new Set(forgotten),
  };
}

function subscriptionsNaming(mentions: readonly Mention[]): Readings['named'] {
  const byDataset = Map.groupBy(mentions, ({ datasetId }) => datasetId);
  return new Map([...byDataset].map(([id, of]) => [id, of.map(({ subscriptionId }) => subscriptionId)]));
}

function retirementOf(desired: DesiredState, suspensions: Suspensions, readings: Readings): RetirementReport {
  const waitsFor = awaitedSubscriptions(desired, readings);
  return {
    reason: retirementReason(desired),
    waitsForApproval: suspensions.retirement !== null && !desired.retirementApproved && waitsFor.length === 0,
    waitsFor,
  };
}
