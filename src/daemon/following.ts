/**
 * Follows the subscriptions: cheap polls of their logs, and at times an audit of the whole desired state. Queues the datasets
 * that are behind.
 *
 * Invariants: a subscription has one reader at a time, and none waits for another; a poll without news is one request; the
 * service is not asked about suspended subscriptions.
 */

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
import { SubscriptionProgress, SubscriptionReader } from '../sync/subscription-reader.ts';
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
  readonly #options: FollowingOptions;
  readonly #reader: SubscriptionReader<FollowedSubscription>;
  readonly #underWay = new Set<Promise<void>>();
  /** When the reading began that last saw a log drop a dataset, on the monotonic clock. */
  #leftMs = Number.NEGATIVE_INFINITY;
  #verdict: Judged | null = null;

  constructor(options: FollowingOptions) {
    const { session } = options;
    this.#session = session;
    this.#options = options;
    this.#reader = new SubscriptionReader({
      engine: session.engine,
      signal: session.signal,
      atOnce: SUBSCRIPTIONS_AT_ONCE,
      create: (record) => new FollowedSubscription(record, session.random, session.nowMs()),
      onEnded: (subscription, startedMs, error) => this.#noteEnded(subscription, startedMs, error),
    });
    this.audits = new Audits({
      ...options,
      reader: this.#reader,
      onError: (of, error) => this.noteError(of, error),
      onRead: () => {
        this.#judge();
        options.onAudited();
      },
    });
  }

  get followedSubscriptions(): ReadonlyMap<string, FollowedSubscription> {
    return this.#reader.subscriptions;
  }

  get isIdle(): boolean {
    return this.#underWay.size === 0;
  }

  /** Starts whatever is due, polls and audits, and waits for nothing. */
  begin(suspensions: Suspensions): void {
    this.#forgetErrors(suspensions);
    if (this.#session.signal.aborted || suspensions.workspace !== null) return;
    const now = this.#session.readClocks();
    const due = [...this.#reader.subscriptions.values()].filter((subscription) =>
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

  /** A refusal is an answer: errors from before it are over, and nothing is tried that could resolve them. */
  #forgetErrors({ workspace, subscriptions }: Suspensions): void {
    const { incidents } = this.#session;
    for (const id of subscriptions.keys()) incidents.forget(`subscription ${id}`);
    if (workspace === null) return;
    for (const id of this.#reader.subscriptions.keys()) incidents.forget(`subscription ${id}`);
    incidents.forget('service');
  }

  /** Every subscription is polled at once. */
  pollNow(): void {
    for (const subscription of this.#reader.subscriptions.values()) {
      subscription.pollAskedMs = this.#session.nowMs();
      subscription.nextPoll = AT_ONCE;
      subscription.retry.succeeded();
    }
    this.audits.retryNow();
  }

  /** When the next poll is due, on the monotonic clock. */
  nextPollMs(): number {
    const now = this.#session.readClocks();
    const polls = [...this.#reader.subscriptions.values()].map((subscription) => subscription.dueMs(now));
    return Math.min(this.audits.dueMs(now), ...polls);
  }

  isAtHead(subscriptionId: string): boolean {
    return this.#reader.isAtHead(subscriptionId);
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
      this.#options.onRead();
    });
    this.#underWay.add(running);
  }

  #isPollDue(subscription: FollowedSubscription, suspensions: Suspensions, now: ClockReading): boolean {
    if (subscription.isBusy || subscription.isLost || suspensions.ofSubscription(subscription.id) !== null)
      return false;
    return now.monotonicMs >= subscription.dueMs(now);
  }

  /** An audit replaces a poll, so that the schedule decides when the service is asked. An owed audit waits for no poll. */
  #isAuditsTurn(due: readonly FollowedSubscription[], now: ClockReading): boolean {
    return this.#reader.subscriptions.size === 0 || due.length > 0 || this.audits.isOwed(now);
  }

  #poll(subscription: FollowedSubscription): Promise<boolean> {
    const { parts, signal, mirror } = this.#session;
    return this.#reader.read(subscription, async (startedMs) => {
      const { end, datasetIds } = await readLog(
        subscription.record,
        (id) => mirror.table(id),
        parts,
        signal,
      ).catch((error: unknown) => {
        if (!isRefusedPosition(error)) throw error;
        return { end: 'refused' as const, datasetIds: new Set<string>() };
      });
      this.#noteNews(subscription, datasetIds, startedMs);
      // The audit finds out what happened to the position.
      subscription.isLost = end === 'expired' || end === 'refused';
      if (subscription.isLost) this.audits.askFor(subscription);
      else subscription.headAtMs = end === 'head' ? startedMs : null;
    });
  }

  /** Stores a refusal as a suspension; raises an incident for every other error. */
  noteError(of: string, error: unknown): void {
    if (error instanceof InterruptedError) return;
    if (!(error instanceof RefusalError)) {
      this.#session.raise(of, error);
      return;
    }
    try {
      storeSuspension(this.#session.parts, error.refusal);
      if (error.refusal.scope.kind === 'workspace') this.#options.onRefused();
    } catch (cause) {
      this.#session.raise(of, cause);
    }
  }

  #noteEnded(subscription: FollowedSubscription, startedMs: number, error: unknown): void {
    const nowMs = this.#session.nowMs();
    const of = `subscription ${subscription.id}`;
    subscription.lastPollAt = new Date(this.#session.parts.clock.now().getTime() - (nowMs - startedMs));
    if (error === null) {
      if (subscription.isFailing) this.#session.workQueue.outageOver(nowMs);
      subscription.retry.succeeded();
      this.#session.resolve(of);
      if (!subscription.isLost) this.#noteRead(subscription);
    } else {
      subscription.retry.failed(nowMs);
      this.noteError(of, error);
    }
    this.#session.report({
      kind: 'poll',
      subscriptionId: subscription.id,
      isGood: error === null,
      durationMs: nowMs - startedMs,
    });
  }

  #noteRead(subscription: FollowedSubscription): void {
    const { clock, checkpoint } = this.#session.parts;
    const { headAtMs } = subscription;
    // A log that continues is read on at once; so is one whose poll was requested after this reading began.
    const isBehind = headAtMs === null || subscription.pollAskedMs > headAtMs;
    subscription.nextPoll = isBehind ? AT_ONCE : this.#session.nextPoll();
    if (headAtMs === null) return;
    subscription.lastGoodPollAt = clock.now();
    const cursor = checkpoint.followed().get(subscription.id)?.cursor ?? null;
    subscription.head = laterEvent(cursor, subscription.record.lastEventId);
  }

  #noteNews(subscription: FollowedSubscription, datasetIds: ReadonlySet<string>, startedMs: number): void {
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
  #noteLeft(subscription: FollowedSubscription, startedMs: number): void {
    this.#leftMs = Math.max(this.#leftMs, startedMs);
    this.#verdict = null;
    this.audits.askFor(subscription);
  }

  #judge(): Judged {
    this.#verdict = { madeMs: this.#session.nowMs(), of: this.#reader.judge(this.#leftMs) };
    return this.#verdict;
  }
}

interface Judged {
  readonly madeMs: number;
  readonly of: VerdictOf;
}

/** A subscription with the clocks of its polls. */
export class FollowedSubscription extends SubscriptionProgress {
  readonly retry: RetryClock;
  nextPoll: DueTime = AT_ONCE;
  /** When a poll was last asked for from outside, on the monotonic clock. */
  pollAskedMs = Number.NEGATIVE_INFINITY;
  /** When its log was last requested, whatever the result. */
  lastPollAt: Date | null = null;
  lastGoodPollAt: Date | null = null;
  /** When an event was last read or a dataset last made progress, on the monotonic clock. */
  movedMs: number;
  /** The newest known event of the log. */
  head: EventId | null = null;

  constructor(record: Subscription, random: Random, nowMs: number) {
    super(record);
    this.retry = new RetryClock(ASKING_AGAIN, random);
    this.movedMs = nowMs;
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
