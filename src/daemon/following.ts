/**
 * Follows the subscriptions: cheap polls of their logs, and at times an audit of the whole desired state. Queues the datasets
 * that are behind.
 *
 * Invariants: a subscription has one reader at a time, and none waits for another; a poll without news is one request; the
 * service is not asked about suspended subscriptions.
 */

import type { LimitFunction } from 'p-limit';
import pLimit from 'p-limit';
import type { Random } from '../lib/backoff.ts';
import type { DesiredState } from '../model/desired-state.ts';
import { InterruptedError, RefusalError } from '../model/errors.ts';
import { type EventId, laterEvent } from '../model/event.ts';
import type { Subscription } from '../model/records.ts';
import { ASKING_AGAIN, AT_ONCE, type ClockReading, type DueTime, RetryClock } from '../sync/clocks.ts';
import { datasetState, isBehind } from '../sync/dataset-states.ts';
import { isRefusedPosition } from '../sync/follow/log-restart.ts';
import { readLog } from '../sync/follow/read-log.ts';
import type { RetirementVerdict, VerdictOf } from '../sync/plan/retirement.ts';
import { type Suspensions, storeSuspension } from '../sync/suspensions.ts';
import { Audits, type AuditsOptions } from './audits.ts';
import type { Session } from './session.ts';

/** Retirements are judged again after this, and whenever a log drops a dataset. */
const VERDICT_KEPT_MS = 1_000;

interface FollowingOptions {
  readonly session: Session;
  /** Whether nobody works on the mirror, so that it answers at once. */
  readonly isMirrorIdle: () => boolean;
  /** The service refused the workspace: all work stops. */
  readonly onRefused: () => void;
  readonly isProven: AuditsOptions['isProven'];
  readonly onMisconfigured: AuditsOptions['onMisconfigured'];
  /** An audit has ended. */
  readonly onAudited: () => void;
  /** A poll or an audit has ended: there may be work. */
  readonly onRead: () => void;
}

export class Following {
  readonly audits: Audits;
  readonly #session: Session;
  readonly poller: SubscriptionPoller;
  readonly #onRead: () => void;
  readonly #followedSubscriptions = new Map<string, SubscriptionProgress>();
  readonly #underWay = new Set<Promise<void>>();
  /** When the reading began that last saw a log drop a dataset, on the monotonic clock. */
  #leftMs = Number.NEGATIVE_INFINITY;
  #verdict: Judged | null = null;

  constructor(options: FollowingOptions) {
    const { session, isMirrorIdle, isProven, onRefused, onMisconfigured, onRead } = options;
    this.#session = session;
    this.#onRead = onRead;
    this.poller = new SubscriptionPoller(session, onRefused);
    this.audits = new Audits({
      session,
      poller: this.poller,
      followedSubscriptions: this.#followedSubscriptions,
      isMirrorIdle,
      onRead: () => {
        this.#judge();
        options.onAudited();
      },
      isProven,
      onMisconfigured,
    });
  }

  get followedSubscriptions(): ReadonlyMap<string, SubscriptionProgress> {
    return this.#followedSubscriptions;
  }

  get isIdle(): boolean {
    return this.#underWay.size === 0;
  }

  /** Starts whatever is due, polls and audits, and waits for nothing. */
  begin(suspensions: Suspensions): void {
    if (this.#session.signal.aborted || suspensions.workspace !== null) return;
    const now = this.#session.readClocks();
    const due = [...this.#followedSubscriptions.values()].filter((subscription) =>
      this.#isPollDue(subscription, suspensions, now),
    );
    const isAuditDue = !this.audits.isRunning && now.monotonicMs >= this.audits.dueMs(now);
    if (isAuditDue && this.#isAuditsTurn(due, now)) {
      this.#run(this.audits.run());
    }
    for (const subscription of due) {
      if (!(this.audits.isRunning && subscription.owesAudit)) this.#run(this.#poll(subscription));
    }
  }

  /** Every subscription is polled at once. */
  pollNow(): void {
    for (const subscription of this.#followedSubscriptions.values()) {
      subscription.pollAskedMs = this.#session.nowMs();
      subscription.nextPoll = AT_ONCE;
      subscription.retry.succeeded();
    }
    this.audits.retryNow();
  }

  /** When the next poll is due, on the monotonic clock. */
  nextPollMs(): number {
    const now = this.#session.readClocks();
    const polls = [...this.#followedSubscriptions.values()].map((subscription) => subscription.dueMs(now));
    return Math.min(this.audits.dueMs(now), ...polls);
  }

  isAtHead(subscriptionId: string): boolean {
    return (this.#followedSubscriptions.get(subscriptionId)?.headAtMs ?? null) !== null;
  }

  verdictOf(desired: DesiredState): RetirementVerdict {
    const kept = this.#verdict;
    const isNew = kept !== null && this.#session.nowMs() - kept.madeMs < VERDICT_KEPT_MS;
    return (isNew ? kept : this.#judge()).of(desired);
  }

  async ended(): Promise<void> {
    while (this.#underWay.size > 0) await Promise.all(this.#underWay);
  }

  #run(task: Promise<unknown>): void {
    const running = task.then(() => {
      this.#underWay.delete(running);
      this.#onRead();
    });
    this.#underWay.add(running);
  }

  #isPollDue(subscription: SubscriptionProgress, suspensions: Suspensions, now: ClockReading): boolean {
    if (subscription.isBusy || subscription.isLost || suspensions.ofSubscription(subscription.id) !== null)
      return false;
    return now.monotonicMs >= subscription.dueMs(now);
  }

  /** An audit replaces a poll, so that the schedule decides when the service is asked. An owed audit waits for no poll. */
  #isAuditsTurn(due: readonly SubscriptionProgress[], now: ClockReading): boolean {
    return this.#followedSubscriptions.size === 0 || due.length > 0 || this.audits.isOwed(now);
  }

  #poll(subscription: SubscriptionProgress): Promise<boolean> {
    const { parts, signal } = this.#session;
    return this.poller.read(subscription, async (startedMs) => {
      const { end, datasetIds } = await readLog(
        subscription,
        (id) => this.#session.mirror.table(id),
        parts,
        signal,
      ).catch((error: unknown) => {
        if (!isRefusedPosition(error)) throw error;
        return { end: 'refused' as const, datasetIds: new Set<string>() };
      });
      this.#noteNews(subscription, datasetIds, startedMs);
      // The audit finds out what happened to the position.
      if (end === 'expired' || end === 'refused') {
        subscription.isLost = true;
        this.audits.askFor(subscription);
      } else this.poller.noteRead(subscription, end === 'head' ? startedMs : null);
    });
  }

  #noteNews(subscription: SubscriptionProgress, datasetIds: ReadonlySet<string>, startedMs: number): void {
    const { parts, mirror, workQueue } = this.#session;
    const nowMs = this.#session.nowMs();
    if (datasetIds.size > 0) subscription.movedMs = nowMs;
    for (const datasetId of datasetIds) {
      const desired = parts.checkpoint.desired(datasetId);
      const isKnown =
        desired?.members.has(subscription.id) === true ||
        desired?.formerMembers.has(subscription.id) === true;
      if (!isKnown) this.audits.askFor(subscription);
      const known = datasetState(datasetId, mirror.observed, parts);
      if (known === null || !isBehind(known)) continue;
      if (known.desired.members.size === 0) this.#noteLeft(subscription, startedMs);
      workQueue.ask(datasetId, nowMs);
    }
  }

  /** A log that was read before may lack the addition of the dataset elsewhere, perhaps to a new subscription. */
  #noteLeft(subscription: SubscriptionProgress, startedMs: number): void {
    this.#leftMs = Math.max(this.#leftMs, startedMs);
    this.#verdict = null;
    this.audits.askFor(subscription);
  }

  #judge(): Judged {
    const { engine } = this.#session;
    const areListed = this.audits.listedMs >= this.#leftMs;
    const readToHead = [...this.#followedSubscriptions.values()].filter(
      ({ headAtMs }) => areListed && headAtMs !== null && headAtMs >= this.#leftMs,
    );
    const ids = new Set(readToHead.map(({ id }) => id));
    const records = [...this.#followedSubscriptions.values()].map(({ record }) => record);
    const of = engine.judgeRetirements({ records, readToHead: ids, readAt: this.audits.listedAt });
    this.#verdict = { madeMs: this.#session.nowMs(), of };
    return this.#verdict;
  }
}

interface Judged {
  readonly madeMs: number;
  readonly of: VerdictOf;
}

export class SubscriptionProgress {
  readonly id: string;
  /** As the service last listed it. */
  record: Subscription;
  readonly retry: RetryClock;
  /** Lets one reader in at a time. */
  readonly inTurn: LimitFunction = pLimit(1);
  nextPoll: DueTime = AT_ONCE;
  /** When a poll was last asked for from outside, on the monotonic clock. */
  pollAskedMs = Number.NEGATIVE_INFINITY;
  /** The position has to be taken, or the manifest has to be compared with the desired state. */
  owesAudit = true;
  /** The log cannot be read on: there is no position, or the position has expired. */
  isLost = true;
  /** When the last reading began, on the monotonic clock; null: the reading did not reach the head. */
  headAtMs: number | null = null;
  /** When its log was last requested, whatever the result. */
  lastPollAt: Date | null = null;
  lastGoodPollAt: Date | null = null;
  /** When an event was last read or a dataset last made progress, on the monotonic clock. */
  movedMs: number;
  /** The newest known event of the log. */
  head: EventId | null = null;

  constructor(record: Subscription, random: Random, nowMs: number) {
    this.id = record.id;
    this.record = record;
    this.retry = new RetryClock(ASKING_AGAIN, random);
    this.movedMs = nowMs;
  }

  get name(): string | null {
    return this.record.name;
  }

  get isBusy(): boolean {
    return this.inTurn.activeCount + this.inTurn.pendingCount > 0;
  }

  /** The last attempt to read it failed. */
  get isFailing(): boolean {
    return this.retry.attempts > 0;
  }

  /** The time of the next reading, on the monotonic clock. */
  dueMs(now: ClockReading): number {
    return this.isFailing ? this.retry.dueMs : this.nextPoll.dueMs(now);
  }
}

/** Subscriptions read side by side, so that one that times out delays no other. */
const SUBSCRIPTIONS_AT_ONCE = 32;

export class SubscriptionPoller {
  readonly #session: Session;
  readonly #atOnce = pLimit(SUBSCRIPTIONS_AT_ONCE);
  readonly #onRefused: () => void;

  /** `onRefused`: the service has refused the whole workspace. */
  constructor(session: Session, onRefused: () => void) {
    this.#session = session;
    this.#onRefused = onRefused;
  }

  /** Calls `read` with the time of its start, on the monotonic clock. Resolves to whether it succeeded. Never rejects. */
  async read(
    subscription: SubscriptionProgress,
    read: (startedMs: number) => Promise<void>,
  ): Promise<boolean> {
    return subscription.inTurn(() => this.#atOnce(() => this.#readNow(subscription, read)));
  }

  /** The log was read. `headAtMs`: when the reading began; null where the reading did not reach the head. */
  noteRead(subscription: SubscriptionProgress, headAtMs: number | null): void {
    const { clock, checkpoint } = this.#session.parts;
    subscription.headAtMs = headAtMs;
    // A log that continues is read on at once; so is one whose poll was requested after this reading began.
    const isBehind = headAtMs === null || subscription.pollAskedMs > headAtMs;
    subscription.nextPoll = isBehind ? AT_ONCE : this.#session.nextPoll();
    if (headAtMs === null) return;
    subscription.lastGoodPollAt = clock.now();
    const cursor = checkpoint.followed().get(subscription.id)?.cursor ?? null;
    subscription.head = laterEvent(cursor, subscription.record.lastEventId);
  }

  /** Stores a refusal as a suspension; raises an incident for every other error. */
  noteIncident(of: string, error: unknown): void {
    if (error instanceof InterruptedError) return;
    if (!(error instanceof RefusalError)) {
      this.#session.raise(of, error);
      return;
    }
    try {
      storeSuspension(this.#session.parts, error.refusal);
      if (error.refusal.scope.kind === 'workspace') this.#onRefused();
    } catch (cause) {
      this.#session.raise(of, cause);
    }
  }

  async #readNow(
    subscription: SubscriptionProgress,
    read: (startedMs: number) => Promise<void>,
  ): Promise<boolean> {
    const of = `subscription ${subscription.id}`;
    const startedMs = this.#session.nowMs();
    subscription.lastPollAt = this.#session.parts.clock.now();
    let isGood = false;
    try {
      await read(startedMs);
      if (subscription.isFailing) this.#session.workQueue.outageOver(this.#session.nowMs());
      subscription.retry.succeeded();
      this.#session.resolve(of);
      isGood = true;
    } catch (error) {
      subscription.retry.failed(this.#session.nowMs());
      this.noteIncident(of, error);
    }
    const durationMs = this.#session.nowMs() - startedMs;
    this.#session.report({ kind: 'poll', subscriptionId: subscription.id, isGood, durationMs });
    return isGood;
  }
}
