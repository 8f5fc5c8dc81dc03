/** A snapshot of the state, put together from what the parts of the daemon know when it is asked for. */

import type { Failure } from '../checkpoint/checkpoint.ts';
import { silentLog } from '../lib/log.ts';
import { announcedVersion, type Want } from '../model/desired-state.ts';
import type { HeldDataset } from '../model/write-jobs.ts';
import { isBehind, knownDatasets } from '../sync/dataset-states.ts';
import { expiryOf, positionAgeMs } from '../sync/follow/position.ts';
import type { Known } from '../sync/plan/plan.ts';
import { type Holds, standingHolds } from '../sync/suspensions.ts';
import type { Activity } from './activity.ts';
import type { Followee, Following } from './following.ts';
import { isOfDataset, RUN } from './incident-log.ts';
import { type Situation, standingOf } from './liveness.ts';
import type { Session } from './session.ts';
import type { DaemonState, DatasetState, StandingTrouble, SubscriptionState } from './state.ts';

export interface Watched {
  readonly session: Session;
  readonly following: Following;
  readonly activity: Activity;
  readonly phase: DaemonState['phase'];
  readonly caughtUpAt: Date | null;
  readonly loopSilentMs: number;
  /** By dataset id: since when it is known to be behind. */
  readonly behindSince: ReadonlyMap<string, Date>;
  /** By subscription id: how it stood when it was last looked at, and since when. */
  readonly stoodSince: Map<string, Pick<SubscriptionState, 'standing' | 'standingSince'>>;
}

export function stateOfDaemon(watched: Watched): DaemonState {
  const { session, following } = watched;
  const { parts, mirror } = session;
  const reading = session.readClocks();
  const { wall: now, monotonicMs: nowMs } = reading;
  const holds = standingHolds(parts);
  // Looking warns nobody again.
  const known = knownDatasets({ ...parts, log: silentLog }, mirror.held);
  const at = (dueMs: number): Date => new Date(now.getTime() + Math.max(0, finite(dueMs) - nowMs));
  return {
    startedAt: session.startedAt,
    now,
    phase: watched.phase,
    loopSilentMs: watched.loopSilentMs,
    caughtUpAt: watched.caughtUpAt,
    lastAuditAt: following.audits.lastAt,
    nextAuditAt: at(following.audits.dueMs(reading)),
    nextPollAt: at(following.nextPollMs()),
    subscriptions: new Map(
      [...following.followees.values()].map((followee) => [
        followee.id,
        subscriptionState(followee, workOf(followee.id, known, session), holds, watched),
      ]),
    ),
    datasets: new Map(known.map((each) => [each.want.datasetId, datasetState(each, at, watched)])),
    holds: parts.checkpoint.holds(),
    troubles: session.troubles.standing(nowMs).filter(({ of }) => !isOfDataset(of)),
    tally: session.counts.tally(),
  };
}

/** A moment that never comes is as far away as a day. */
function finite(dueMs: number): number {
  return Number.isFinite(dueMs) ? dueMs : 86_400_000;
}

/** While trouble of the run lasts, it is that which is in the way, and not the service or the content. */
function workOf(
  subscriptionId: string,
  known: readonly Known[],
  { agenda, troubles }: Session,
): Situation['work'] {
  const behind = known.filter((each) => each.want.members.has(subscriptionId) && isBehind(each));
  if (behind.length === 0) return 'none';
  const isRunInTrouble = troubles.isStanding(RUN);
  const waits = ({ want: { datasetId }, failure }: Known): boolean =>
    failure !== null || (!isRunInTrouble && (agenda.items.get(datasetId)?.waitsFor ?? null) !== null);
  return behind.every(waits) ? 'waiting' : 'to-do';
}

/** A load of hours moves by every byte and row. */
function sinceMovedMs({ movedMs }: Followee, session: Session): number {
  const { activity, watchdogs } = session;
  const workMovedMs = activity.work.size > 0 ? watchdogs.working.movedMs : Number.NEGATIVE_INFINITY;
  return session.nowMs() - Math.max(movedMs, workMovedMs);
}

function subscriptionState(
  followee: Followee,
  work: Situation['work'],
  holds: Holds,
  { session, activity, stoodSince }: Watched,
): SubscriptionState {
  const { clock, checkpoint } = session.parts;
  const now = clock.now();
  const followed = checkpoint.followed().get(followee.id) ?? null;
  const standing = standingOf({
    isHeld: holds.workspace !== null || holds.ofSubscription(followee.id) !== null,
    isFailing: followee.isFailing,
    isAtHead: followee.headAtMs !== null,
    work,
    sinceMovedMs: sinceMovedMs(followee, session),
  });
  const before = stoodSince.get(followee.id);
  const standingSince = before?.standing === standing ? before.standingSince : now;
  stoodSince.set(followee.id, { standing, standingSince });
  return {
    subscriptionId: followee.id,
    name: followee.name,
    standing,
    standingSince,
    lastPollAt: followee.lastPollAt,
    lastGoodPollAt: followee.lastGoodPollAt,
    cursor: followed?.cursor?.text ?? null,
    lastEventAt: activity.newestEventAt(followee.id) ?? followed?.cursorAt ?? null,
    head: followee.head?.text ?? null,
    cursorAgeMs: followed === null ? 0 : positionAgeMs(followed, now),
    cursorExpiresAt: followed === null ? null : expiryOf(followed),
  };
}

function datasetState(
  { want, held, failure }: { want: Want; held: HeldDataset | null; failure: Failure | null },
  at: (dueMs: number) => Date,
  { session, activity, behindSince }: Watched,
): DatasetState {
  const { datasetId } = want;
  const item = session.agenda.items.get(datasetId) ?? null;
  const isWaiting = item !== null && item.waitsFor !== null;
  return {
    datasetId,
    tableName: held?.tableName ?? null,
    version: held?.version ?? null,
    wantedVersion: announcedVersion(want),
    rowCount: held?.rowCount ?? null,
    publishedAt: held?.publishedAt ?? null,
    appliedAt: held?.appliedAt ?? null,
    behindSince: behindSince.get(datasetId) ?? null,
    work: activity.work.get(datasetId) ?? null,
    retryAt: isWaiting ? at(item.dueMs) : null,
    waitsFor: isWaiting ? item.waitsFor : null,
    failure,
  };
}

export interface Glance {
  readonly phase: DaemonState['phase'];
  /** Tables in the mirror. */
  readonly tables: number;
  /** Datasets that are worked on now. */
  readonly underWay: number;
  /** Datasets that are worked on as soon as there is room. */
  readonly due: number;
  /** Datasets that are tried again later. */
  readonly waiting: number;
  readonly holds: number;
  /** Everything that goes wrong now, the longest first. */
  readonly troubles: readonly StandingTrouble[];
  readonly now: Date;
  /** When a log was last read to its head; null: not since the start of this process. */
  readonly lastPollAt: Date | null;
  readonly nextPollInMs: number;
}

export function glanceAt(
  { session, following, phase }: Watched,
  { underWay, holds }: Pick<Glance, 'underWay' | 'holds'>,
): Glance {
  const nowMs = session.nowMs();
  const items = [...session.agenda.items.values()];
  const waiting = items.filter(({ dueMs, waitsFor }) => dueMs > nowMs && waitsFor !== null).length;
  const polls = [...following.followees.values()].flatMap(({ lastGoodPollAt }) => lastGoodPollAt ?? []);
  return {
    phase,
    tables: session.mirror.held.datasets.size,
    underWay,
    due: items.length - waiting,
    waiting,
    holds,
    troubles: session.troubles.standing(nowMs),
    now: session.parts.clock.now(),
    lastPollAt: polls.toSorted((left, right) => right.getTime() - left.getTime())[0] ?? null,
    nextPollInMs: Math.max(0, following.nextPollMs() - nowMs),
  };
}
