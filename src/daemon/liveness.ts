/**
 * How a subscription stands, by three clocks: when its log was last read to its head, when something of it was last
 * applied, and where its log ends. Pure: time is passed in.
 *
 * Idle and stalled are told apart by work that is left: idle has none, stalled has and gets nowhere.
 */

import type { Followed } from '../checkpoint/checkpoint.ts';
import { EVENTS_KEPT_MS } from '../sync/follow-log.ts';
import type { Standing } from './state.ts';

/** Behind, and nothing has moved for so long: a person should look. */
export const STALLED_AFTER_MS = 15 * 60_000;

const DAY_MS = 86_400_000;

/** A person is warned so long before the position in a log can expire, each time once. */
export const EXPIRY_WARNINGS_MS = [30 * DAY_MS, 14 * DAY_MS, 3 * DAY_MS] as const;

export interface Situation {
  readonly isHeld: boolean;
  /** The last attempt to read it failed. */
  readonly isFailing: boolean;
  /** Its log was read to its head by the last attempt. */
  readonly isAtHead: boolean;
  /** A dataset of it is not where it should be, and nothing but the work itself is in the way. */
  readonly hasWorkLeft: boolean;
  /** Since something of it last moved: an event was read, a dataset got on. */
  readonly sinceMovedMs: number;
}

export function standingOf({ isHeld, isFailing, isAtHead, hasWorkLeft, sinceMovedMs }: Situation): Standing {
  if (isHeld) return 'held';
  const isBehind = !isAtHead || hasWorkLeft;
  if (isBehind && sinceMovedMs >= STALLED_AFTER_MS) return 'stalled';
  if (isFailing) return 'failing';
  return isBehind ? 'behind' : 'idle';
}

/**
 * How old the position in a log is, against the time for which the service keeps events. 0 where nothing can expire: the
 * log is read from its start. The clock of the machine may have been wrong when the position was stored.
 */
export function cursorAgeMs(
  followed: Pick<Followed, 'cursor' | 'cursorAt' | 'quietReadAt'>,
  now: Date,
): number {
  if (followed.cursor === null || followed.quietReadAt !== null) return 0;
  return Math.max(0, now.getTime() - followed.cursorAt.getTime());
}

/** When the service keeps the position no more, unless an event moves it. Null: nothing can expire. */
export function cursorExpiresAt(
  followed: Pick<Followed, 'cursor' | 'cursorAt' | 'quietReadAt'>,
): Date | null {
  if (followed.cursor === null || followed.quietReadAt !== null) return null;
  return new Date(followed.cursorAt.getTime() + EVENTS_KEPT_MS);
}

/**
 * The warning that is due at this age: how long before the end it is of. Null: none, or `warned`, the last one that was
 * given, was of the same time or a later one.
 */
export function dueExpiryWarningMs(ageMs: number, warned: number | null): number | null {
  const leftMs = EVENTS_KEPT_MS - ageMs;
  const due = EXPIRY_WARNINGS_MS.findLast((beforeMs) => leftMs <= beforeMs) ?? null;
  if (due === null || (warned !== null && warned <= due)) return null;
  return due;
}
