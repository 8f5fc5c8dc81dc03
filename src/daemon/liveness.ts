/**
 * How a subscription stands, by three clocks: when its log was last read to its head, when something of it was last
 * applied, and where its log ends. Pure: time is passed in.
 *
 * Idle and stalled are told apart by work that is left: idle has none, stalled has and gets nowhere.
 */

import { EVENTS_KEPT_MS, positionAgeMs, reportOldPosition } from '../sync/follow/connect.ts';
import type { Session } from './session.ts';
import type { PollCondition } from './state.ts';

/** Behind, and nothing has moved for so long: a person should look. */
export const STALLED_AFTER_MS = 15 * 60_000;

const DAY_MS = 86_400_000;

/** A person is warned so long before the position in a log can expire, each time once. */
const EXPIRY_WARNINGS_MS = [30 * DAY_MS, 14 * DAY_MS, 3 * DAY_MS] as const;

export interface Condition {
  readonly isSuspended: boolean;
  /** The last attempt to read it failed. */
  readonly isFailing: boolean;
  /** Its log was read to its head by the last attempt. */
  readonly isAtHead: boolean;
  /**
   * Of the datasets that are not where they should be: `waiting` where all of them wait for the service, or until they
   * are tried again; `to-do` where nothing but the work itself is in the way of one.
   */
  readonly work: 'none' | 'waiting' | 'to-do';
  /** Since something of it last moved: an event was read, a dataset got on. */
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
 * The warning that is due at this age of a position: how long before the end it is of. `given`: it was given, `warned`
 * being the last one. `none`: the end is far, also where an event has moved the position since the last warning.
 */
export function dueExpiryWarningMs(ageMs: number, warned: number | null): number | 'given' | 'none' {
  const leftMs = EVENTS_KEPT_MS - ageMs;
  const due = EXPIRY_WARNINGS_MS.findLast((beforeMs) => leftMs <= beforeMs);
  if (due === undefined) return 'none';
  return warned !== null && warned <= due ? 'given' : due;
}

/** Days pass slowly. */
const CHECK_EVERY_MS = 60_000;

export class ExpiryWarnings {
  readonly #session: Session;
  /** By subscription id: of how long before the end the last warning was. */
  readonly #warned = new Map<string, number>();
  #lookedMs = Number.NEGATIVE_INFINITY;

  constructor(session: Session) {
    this.#session = session;
  }

  look(): void {
    const nowMs = this.#session.nowMs();
    if (nowMs - this.#lookedMs < CHECK_EVERY_MS) return;
    this.#lookedMs = nowMs;
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

/** Where nothing has moved for so long, what is under way is interrupted. */
export const STANDSTILL_MS = 5 * 60_000;

export class Watchdog {
  #movedMs: number;

  constructor(nowMs: number) {
    this.#movedMs = nowMs;
  }

  /** When something last moved, or is expected to, on the monotonic clock. */
  get movedMs(): number {
    return this.#movedMs;
  }

  /** Something got on. */
  moved(nowMs: number): void {
    this.#movedMs = Math.max(this.#movedMs, nowMs);
  }

  /** Nothing is expected to move before `untilMs`. */
  planned(untilMs: number): void {
    this.moved(untilMs);
  }

  standsStill(nowMs: number, isUnderWay: boolean): boolean {
    if (!isUnderWay) this.moved(nowMs);
    return nowMs - this.#movedMs >= STANDSTILL_MS;
  }
}
