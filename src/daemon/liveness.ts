/**
 * The condition of a subscription, by three clocks: when its log was last read to its head, when something of it was
 * last applied, and where its log ends. Pure: time is passed in.
 *
 * Remaining work distinguishes idle from stalled: an idle subscription has none, a stalled one has some and makes no progress.
 */

import { EXPIRY_WARNINGS_MS } from '../reporting/conditions.ts';
import { EVENTS_KEPT_MS, positionAgeMs, reportOldPosition } from '../sync/follow/subscriptions.ts';
import type { Session } from './session.ts';
import type { PollCondition } from './state.ts';

/** A subscription that is behind and makes no progress for so long needs an operator. */
export const STALLED_AFTER_MS = 15 * 60_000;

export interface Condition {
  readonly isSuspended: boolean;
  /** The last attempt to read the log failed. */
  readonly isFailing: boolean;
  /** The last attempt read the log to its head. */
  readonly isAtHead: boolean;
  /**
   * The remaining work: `waiting` where every unfinished dataset waits for the service or for its retry; `to-do` where
   * at least one dataset waits for nothing.
   */
  readonly work: 'none' | 'waiting' | 'to-do';
  /** Time since an event of the subscription was last read or a dataset of it made progress. */
  readonly sinceMovedMs: number;
}

export function conditionOf({
  isSuspended,
  isFailing,
  isAtHead,
  work,
  sinceMovedMs,
}: Condition): PollCondition {
  if (isSuspended) return 'suspended';
  const canMove = !isAtHead || work === 'to-do';
  if (canMove && sinceMovedMs >= STALLED_AFTER_MS) return 'stalled';
  if (isFailing) return 'failing';
  return canMove || work === 'waiting' ? 'behind' : 'idle';
}

/**
 * Returns the warning that is due at this age of a position, as the time before the expiry. `given`: already given; `warned` is the last
 * one. `none`: the expiry is far away, also where an event has moved the position since the last warning.
 */
export function dueExpiryWarningMs(ageMs: number, warned: number | null): number | 'given' | 'none' {
  const leftMs = EVENTS_KEPT_MS - ageMs;
  const due = EXPIRY_WARNINGS_MS.findLast((beforeMs) => leftMs <= beforeMs);
  if (due === undefined) return 'none';
  return warned !== null && warned <= due ? 'given' : due;
}

/** Positions age by days, so rare checks suffice. */
const CHECK_EVERY_MS = 60_000;

export class ExpiryWarnings {
  readonly #session: Session;
  /** By subscription id: the time before the expiry of the last warning. */
  readonly #warned = new Map<string, number>();
  #checkedMs = Number.NEGATIVE_INFINITY;

  constructor(session: Session) {
    this.#session = session;
  }

  give(): void {
    const nowMs = this.#session.nowMs();
    if (nowMs - this.#checkedMs < CHECK_EVERY_MS) return;
    this.#checkedMs = nowMs;
    const { checkpoint, clock, log } = this.#session.parts;
    for (const followed of checkpoint.followed().values()) {
      const { subscriptionId } = followed;
      const ageMs = positionAgeMs(followed, clock.now());
      const due = dueExpiryWarningMs(ageMs, this.#warned.get(subscriptionId) ?? null);
      if (due === 'none') this.#warned.delete(subscriptionId);
      else if (due !== 'given') {
        this.#warned.set(subscriptionId, due);
        reportOldPosition(followed, log);
      }
    }
  }
}

/** Running work is interrupted after this time without progress. */
export const STANDSTILL_MS = 5 * 60_000;

export class Watchdog {
  #movedMs: number;

  constructor(nowMs: number) {
    this.#movedMs = nowMs;
  }

  /** When progress was last made or is next expected, on the monotonic clock. */
  get movedMs(): number {
    return this.#movedMs;
  }

  /** Progress was made. */
  moved(nowMs: number): void {
    this.#movedMs = Math.max(this.#movedMs, nowMs);
  }

  /** No progress is expected before `untilMs`. */
  planned(untilMs: number): void {
    this.moved(untilMs);
  }

  standsStill(nowMs: number, isUnderWay: boolean): boolean {
    if (!isUnderWay) this.moved(nowMs);
    return nowMs - this.#movedMs >= STANDSTILL_MS;
  }
}

/** The times since which each dataset is behind, and at which all of them were caught up for the first time. */
export class Behind {
  readonly #session: Session;
  readonly #since = new Map<string, Date>();
  #caughtUpAt: Date | null = null;

  constructor(session: Session) {
    this.#session = session;
  }

  /** By dataset id. */
  get since(): ReadonlyMap<string, Date> {
    return this.#since;
  }

  /** Null: not yet. */
  get caughtUpAt(): Date | null {
    return this.#caughtUpAt;
  }

  /** Notes the datasets of the queue. `isSettled`: every log was read, and no dataset is worked on. */
  update(isSettled: boolean): void {
    const { workQueue, parts } = this.#session;
    const now = parts.clock.now();
    for (const datasetId of workQueue.entries.keys()) {
      if (!this.#since.has(datasetId)) this.#since.set(datasetId, now);
    }
    if (this.#caughtUpAt === null && isSettled && !workQueue.isDue(this.#session.nowMs()))
      this.#caughtUpAt = now;
  }

  forget(datasetId: string): void {
    this.#since.delete(datasetId);
  }
}
