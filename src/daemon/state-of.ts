/** A snapshot of the state, assembled on request from the parts of the daemon. */

import type { Followed } from '../checkpoint/checkpoint.ts';
import { announcedVersion } from '../model/desired-state.ts';
import { reportOf } from '../reporting/report.ts';
import { contentOf, contentWithoutFile } from '../reporting/stores.ts';
import { isBehind } from '../sync/dataset-states.ts';
import { expiryOf, positionAgeMs } from '../sync/follow/subscriptions.ts';
import type { DatasetState } from '../sync/plan/dataset-state.ts';
import type { Activity } from './activity.ts';
import type { FollowedSubscription, Following } from './following.ts';
import { isOfDataset, RUN } from './incident-log.ts';
import { type Condition, conditionOf } from './liveness.ts';
import type { Session } from './session.ts';
import type { DaemonState, DatasetActivity, OngoingIncident, Readiness, SubscriptionState } from './state.ts';

export interface Watched {
  readonly session: Session;
  readonly following: Following;
  readonly activity: Activity;
  readonly phase: DaemonState['phase'];
  readonly caughtUpAt: Date | null;
  readonly loopSilentMs: number;
  /** By dataset id: since when it is known to be behind. */
  readonly behindSince: ReadonlyMap<string, Date>;
  /** By subscription id: its condition at the last snapshot, and since when. */
  readonly stoodSince: Map<string, Pick<SubscriptionState, 'condition' | 'conditionSince'>>;
}

export function readinessOf({ session, phase, caughtUpAt }: Watched): Readiness {
  return { phase, caughtUpAt, startedAt: session.startedAt, incidents: incidentsBeyondDatasets(session) };
}

function incidentsBeyondDatasets(session: Session): readonly OngoingIncident[] {
  return session.incidents.ongoing(session.nowMs()).filter(({ of }) => !isOfDataset(of));
}

export function stateOfDaemon(watched: Watched): DaemonState {
  const { session, following } = watched;
  const { parts, mirror } = session;
  const reading = session.readClocks();
  const { wall: now, monotonicMs: nowMs } = reading;
  const { checkpoint, suspensions, datasets } = reportOf({
    mirror: contentWithoutFile(mirror.observed),
    checkpoint: contentOf(parts.checkpoint),
    choices: parts.choices,
    keyHash: parts.choices.keyHash,
  });
  const known = [...datasets.values()].flatMap(({ isChosen, desired, ...rest }) =>
    isChosen && desired !== null ? { desired, ...rest } : [],
  );
  const at = (dueMs: number): Date => new Date(now.getTime() + Math.max(0, finite(dueMs) - nowMs));
  return {
    ...readinessOf(watched),
    now,
    loopSilentMs: watched.loopSilentMs,
    lastAuditAt: following.audits.lastAt,
    nextAuditAt: at(following.audits.dueMs(reading)),
    nextPollAt: at(following.nextPollMs()),
    subscriptions: new Map(
      [...following.followedSubscriptions.values()].map((subscription) => {
        const { id } = subscription;
        const isSuspended = suspensions.workspace !== null || suspensions.ofSubscription(id) !== null;
        const followed = checkpoint.followed.get(id) ?? null;
        const condition = { isSuspended, work: workOf(id, known, session) };
        return [id, subscriptionState(subscription, followed, condition, watched)];
      }),
    ),
    datasets: new Map(known.map((each) => [each.desired.datasetId, datasetState(each, at, watched)])),
    suspensions: suspensions.all,
    counters: session.counts.counters(),
    scrub: parts.destination.scrubbing === undefined ? null : checkpoint.scrub,
  };
}

/** A time that never comes counts as a day away. */
function finite(dueMs: number): number {
  return Number.isFinite(dueMs) ? dueMs : 86_400_000;
}

/** An incident of the run is the obstacle while it lasts, whatever the service and the content are like. */
function workOf(
  subscriptionId: string,
  known: readonly DatasetState[],
  { workQueue, incidents }: Session,
): Condition['work'] {
  const behind = known.filter((each) => each.desired.members.has(subscriptionId) && isBehind(each));
  if (behind.length === 0) return 'none';
  const hasIncident = incidents.isOngoing(RUN);
  const waits = ({ desired: { datasetId }, failure }: DatasetState): boolean =>
    failure !== null || (!hasIncident && (workQueue.entries.get(datasetId)?.waitsFor ?? null) !== null);
  return behind.every(waits) ? 'waiting' : 'to-do';
}

/** A load of hours makes progress with every byte and row. */
function sinceMovedMs({ movedMs }: FollowedSubscription, session: Session): number {
  const { activity, watchdogs } = session;
  const workMovedMs = activity.work.size > 0 ? watchdogs.working.movedMs : Number.NEGATIVE_INFINITY;
  return session.nowMs() - Math.max(movedMs, workMovedMs);
}

function subscriptionState(
  subscription: FollowedSubscription,
  followed: Followed | null,
  known: Pick<Condition, 'isSuspended' | 'work'>,
  { session, activity, stoodSince }: Watched,
): SubscriptionState {
  const now = session.parts.clock.now();
  const condition = conditionOf({
    ...known,
    isFailing: subscription.isFailing,
    isAtHead: subscription.headAtMs !== null,
    sinceMovedMs: sinceMovedMs(subscription, session),
  });
  const before = stoodSince.get(subscription.id);
  const conditionSince = before?.condition === condition ? before.conditionSince : now;
  stoodSince.set(subscription.id, { condition, conditionSince });
  return {
    subscriptionId: subscription.id,
    name: subscription.record.name,
    condition,
    conditionSince,
    lastPollAt: subscription.lastPollAt,
    lastGoodPollAt: subscription.lastGoodPollAt,
    cursor: followed?.cursor?.text ?? null,
    lastEventAt: activity.newestEventAt(subscription.id) ?? followed?.cursorAt ?? null,
    head: subscription.head?.text ?? null,
    cursorAgeMs: followed === null ? 0 : positionAgeMs(followed, now),
    cursorExpiresAt: followed === null ? null : expiryOf(followed),
  };
}

function datasetState(
  { desired, observed, suspension, failure }: DatasetState,
  at: (dueMs: number) => Date,
  { session, activity, behindSince }: Watched,
): DatasetActivity {
  const { datasetId } = desired;
  const entry = session.workQueue.entries.get(datasetId) ?? null;
  const isWaiting = entry !== null && entry.waitsFor !== null;
  return {
    datasetId,
    version: observed?.version ?? null,
    targetVersion: announcedVersion(desired),
    behindSince: behindSince.get(datasetId) ?? null,
    work: activity.work.get(datasetId) ?? null,
    retryAt: isWaiting ? at(entry.dueMs) : null,
    waitsFor: isWaiting ? entry.waitsFor : null,
    awaitingSince: suspension?.candidate?.since ?? null,
    failure,
    pinnedSince: observed?.pinnedSince ?? null,
  };
}

export interface StateSummary {
  readonly phase: DaemonState['phase'];
  /** Tables in the mirror. */
  readonly tables: number;
  /** Datasets in progress. */
  readonly underWay: number;
  /** Datasets that start as soon as there is room. */
  readonly due: number;
  /** Datasets that are retried later. */
  readonly waiting: number;
  readonly suspensions: number;
  /** All ongoing incidents, the longest first. */
  readonly incidents: readonly OngoingIncident[];
  readonly now: Date;
  /** When a log was last read to its head; null: not since the start of this process. */
  readonly lastPollAt: Date | null;
  readonly nextPollInMs: number;
}

export function summaryAt(
  { session, following, phase }: Watched,
  { underWay, suspensions }: Pick<StateSummary, 'underWay' | 'suspensions'>,
): StateSummary {
  const nowMs = session.nowMs();
  const entries = [...session.workQueue.entries.values()];
  const waiting = entries.filter(({ dueMs, waitsFor }) => dueMs > nowMs && waitsFor !== null).length;
  const polls = [...following.followedSubscriptions.values()].flatMap(
    ({ lastGoodPollAt }) => lastGoodPollAt ?? [],
  );
  return {
    phase,
    tables: session.mirror.observed.datasets.size,
    underWay,
    due: entries.length - waiting,
    waiting,
    suspensions,
    incidents: session.incidents.ongoing(nowMs),
    now: session.parts.clock.now(),
    lastPollAt: polls.toSorted((left, right) => right.getTime() - left.getTime())[0] ?? null,
    nextPollInMs: Math.max(0, following.nextPollMs() - nowMs),
  };
}
