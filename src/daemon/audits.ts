/**
 * Audits: lists the subscriptions, reads the log of each one that owes an audit to its head, and compares its manifest with the
 * desired state, by the same steps of the engine as `once`. Every subscription owes an audit at the start and after
 * `audit.every`. A subscription owes one at once where its position is lost, or its log names an unknown dataset or drops a
 * dataset that no other subscription contains.
 *
 * Invariant: one audit at a time. A subscription whose audit failed still owes it; audits have a retry clock of their own.
 */

import { ConfigurationError } from '../model/errors.ts';
import {
  ASKING_AGAIN,
  AT_ONCE,
  type ClockReading,
  type DueTime,
  dueAfter,
  RetryClock,
} from '../sync/clocks.ts';
import { isBehind } from '../sync/dataset-states.ts';
import { isOfContent } from '../sync/plan/content.ts';
import type { DatasetState } from '../sync/plan/dataset-state.ts';
import type { SubscriptionReader } from '../sync/subscription-reader.ts';
import type { FollowedSubscription } from './following.ts';
import type { Session } from './session.ts';

/** Audits for unknown datasets, removals and lost positions are at least this far apart. */
const LEAST_BETWEEN_MS = 60_000;

export interface AuditsOptions {
  readonly session: Session;
  readonly reader: SubscriptionReader<FollowedSubscription>;
  /** `of` names what could not be read. */
  readonly onError: (of: string, error: unknown) => void;
  /** Whether nobody works on the mirror, so that it answers at once. */
  readonly isMirrorIdle: () => boolean;
  /** Every log was read: retirements can be judged. */
  readonly onRead: () => void;
  /** The configuration has worked before in this process, so an error of it is temporary. */
  readonly isProven: boolean;
  /** The first audit found that the configuration cannot work. */
  readonly onMisconfigured: (error: ConfigurationError) => void;
}

export class Audits {
  readonly #options: AuditsOptions;
  readonly #session: Session;
  readonly #clock: RetryClock;
  /** When every subscription owes an audit. */
  #full: DueTime = AT_ONCE;
  /** When the owed audits are due, on the monotonic clock. */
  #owedDueMs = Number.POSITIVE_INFINITY;
  /** The poll with which absences are read again; null: there is no absence. */
  #absenceRead: DueTime | null = null;
  /** When the last requested audit began. */
  #askedBeganMs = Number.NEGATIVE_INFINITY;
  #isRunning = false;
  #lastAt: Date | null = null;

  constructor(options: AuditsOptions) {
    this.#options = options;
    this.#session = options.session;
    this.#clock = new RetryClock(ASKING_AGAIN, options.session.random);
  }

  get isRunning(): boolean {
    return this.#isRunning;
  }

  /** When the last audit ended; null: none has. */
  get lastAt(): Date | null {
    return this.#lastAt;
  }

  /** On the monotonic clock. */
  dueMs(now: ClockReading): number {
    return Math.max(this.#clock.dueMs, Math.min(this.#full.dueMs(now), this.#owedMs(now)));
  }

  /** Returns whether an owed audit is due, which waits for no poll. */
  isOwed(now: ClockReading): boolean {
    return this.#owedMs(now) <= now.monotonicMs;
  }

  /** Every subscription is audited at once. */
  askForAll(): void {
    this.#full = AT_ONCE;
    this.#owedDueMs = this.#session.nowMs();
    this.#clock.succeeded();
  }

  /** Retries a failed audit at once. */
  retryNow(): void {
    if (this.#clock.attempts > 0) this.#clock.succeeded();
  }

  askFor(subscription: FollowedSubscription): void {
    subscription.owesAudit = true;
    const earliestMs = Math.max(this.#session.nowMs(), this.#askedBeganMs + LEAST_BETWEEN_MS);
    this.#owedDueMs = Math.min(this.#owedDueMs, earliestMs);
  }

  /** Never rejects. */
  async run(): Promise<void> {
    const started = this.#session.readClocks();
    const startedMs = started.monotonicMs;
    const isFirst = this.#lastAt === null;
    this.#isRunning = true;
    const isFull = startedMs >= this.#full.dueMs(started);
    if (!isFull) this.#askedBeganMs = startedMs;
    const { reader, isMirrorIdle } = this.#options;
    try {
      await reader.connect(isMirrorIdle());
      this.#session.resolve('service');
      this.#session.resolve('mirror');
      if (isFull) {
        this.#full = dueAfter(this.#session.timing.auditEveryMs, started);
        for (const subscription of reader.subscriptions.values()) subscription.owesAudit = true;
      }
      this.#owedDueMs = Number.POSITIVE_INFINITY;
      this.#absenceRead = null;
      if (await reader.readOwing()) this.#clock.succeeded();
      else this.#noteFailed();
      this.#session.signal.throwIfAborted();
      await this.#session.engine.reloadMissing();
      this.#conclude(startedMs);
    } catch (error) {
      this.#noteFailed();
      if (isFirst && !this.#options.isProven && error instanceof ConfigurationError)
        this.#options.onMisconfigured(error);
      else this.#options.onError('service', error);
    } finally {
      this.#isRunning = false;
    }
  }

  #noteFailed(): void {
    this.#clock.failed(this.#session.nowMs());
    this.#owedDueMs = this.#session.nowMs();
  }

  /** Queues every dataset that is behind; the manifests that were just read serve its work. */
  #conclude(startedMs: number): void {
    const { parts, engine, workQueue } = this.#session;
    this.#lastAt = parts.clock.now();
    this.#options.onRead();
    const nowMs = this.#session.nowMs();
    for (const known of engine.datasets()) {
      if (!isBehind(known)) continue;
      const { datasetId } = known.desired;
      const waitMs = retryInMs(known, parts.clock.now());
      if (waitMs === null) workQueue.ask(datasetId, nowMs, startedMs);
      else workQueue.askLater(datasetId, known.failure?.message ?? '', nowMs, waitMs);
    }
    this.#askForAbsent();
    this.#session.report({ kind: 'audit', durationMs: nowMs - startedMs });
  }

  /** Reads unconfirmed absences again with every poll. Absent versions are read with their datasets. */
  #askForAbsent(): void {
    const absent = this.#session.parts.checkpoint
      .absences()
      .flatMap(({ subject }) => (subject.kind === 'version' ? [] : [subject]));
    if (absent.length === 0) return;
    for (const subject of absent) {
      if (subject.kind !== 'member' && subject.kind !== 'log') continue;
      const subscription = this.#options.reader.subscriptions.get(subject.subscriptionId);
      if (subscription !== undefined) subscription.owesAudit = true;
    }
    this.#absenceRead = this.#session.nextPoll();
  }

  #owedMs(now: ClockReading): number {
    return Math.min(this.#owedDueMs, this.#absenceRead?.dueMs(now) ?? Number.POSITIVE_INFINITY);
  }
}

/**
 * Returns in how many milliseconds a failed dataset is tried again; null: at once. A failure of content is tried at every
 * audit, because nothing is fetched while the content is the same.
 */
function retryInMs({ failure }: DatasetState, now: Date): number | null {
  if (failure === null || isOfContent(failure) || failure.failedAt > now) return null;
  const waitMs = failure.retryAt.getTime() - now.getTime();
  return waitMs > 0 ? waitMs : null;
}
