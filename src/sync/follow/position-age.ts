/**
 * The age of a position in a log. The service keeps events for a limited time: a position past it is lost, and what
 * changes led on is then loaded again.
 */

import type { Followed } from '../../checkpoint/checkpoint.ts';
import type { Log } from '../../lib/log.ts';
import type { Parts } from '../parts.ts';

const DAY_MS = 86_400_000;

/** How long the service keeps events (the interface, Limits). */
export const EVENTS_KEPT_MS = 90 * DAY_MS;

/** A catch-up tells of a position of this age. */
export const OLD_POSITION_MS = 75 * DAY_MS;

type Position = Pick<Followed, 'cursor' | 'cursorAt' | 'quietReadAt'>;

/** When the service keeps the position no more, unless an event moves it. Null: the log is read from its start. */
export function expiryOf({ cursor, cursorAt, quietReadAt }: Position): Date | null {
  if (cursor === null || quietReadAt !== null) return null;
  return new Date(cursorAt.getTime() + EVENTS_KEPT_MS);
}

/** 0 where nothing can expire. The clock of the machine may have been wrong when the position was stored. */
export function positionAgeMs(position: Position, now: Date): number {
  if (expiryOf(position) === null) return 0;
  return Math.max(0, now.getTime() - position.cursorAt.getTime());
}

/** `now`: in service time. */
export function warnOfOldPosition(subscriptionId: string, now: Date, { checkpoint, log }: Parts): void {
  const followed = checkpoint.followed().get(subscriptionId);
  if (followed === undefined || positionAgeMs(followed, now) < OLD_POSITION_MS) return;
  tellOldPosition(followed, log);
}

export function tellOldPosition({ subscriptionId, cursor, cursorAt }: Followed, log: Log): void {
  const fields = {
    subscription: subscriptionId,
    position: cursor?.text ?? null,
    since: cursorAt.toISOString(),
    expires: new Date(cursorAt.getTime() + EVENTS_KEPT_MS).toISOString(),
  };
  log.warn(
    fields,
    'No event has come for long: once the position in the log expires, tables that changes led on are loaded again.',
  );
}
