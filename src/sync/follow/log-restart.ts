/**
 * Detects that the service has restarted the log of a subscription, so that event numbers of the old log mean nothing
 * in the new one. The signs are a newest event older than an event that was read, or another event or none at the
 * position.
 */

import type { Followed } from '../../checkpoint/checkpoint.ts';
import type { ObservedState } from '../../destination/destination.ts';
import type { EventPage } from '../../feed/feed.ts';
import type { Absence } from '../../model/absence.ts';
import type { DesiredState } from '../../model/desired-state.ts';
import { CursorExpiredError, RefusalError } from '../../model/errors.ts';
import type { EventId } from '../../model/event.ts';
import { timeOf } from '../../model/manifest.ts';
import type { Subscription } from '../../model/records.ts';
import type { Parts } from '../parts.ts';
import { EVENTS_KEPT_MS } from './subscriptions.ts';

/** Returns whether the record names a newest event that the followed log cannot have. Pure. */
export function lacksKnownEvents(
  { lastEventId }: Subscription,
  followed: Followed,
  desiredStates: ReadonlyMap<string, DesiredState>,
  observed: ObservedState,
): boolean {
  if (lastEventId === null) return followed.statesLastEvent;
  return lastEventId.number < highestNumber(followed, desiredStates, observed);
}

/** The highest number of the position, of reloads, and of membership events. */
function highestNumber(
  { subscriptionId, logNumber, cursor }: Followed,
  desiredStates: ReadonlyMap<string, DesiredState>,
  observed: ObservedState,
): bigint {
  const owed = [...desiredStates.values()]
    .flatMap(({ reloads }) => reloads)
    .filter((reload) => reload.subscriptionId === subscriptionId);
  const satisfied = [...observed.datasets.values()].flatMap(
    ({ reloads }) => reloads.get(subscriptionId) ?? [],
  );
  const numbers = [...owed, ...satisfied]
    .filter((mark) => mark.logNumber === logNumber)
    .map(({ eventNumber }) => eventNumber);
  const reported = [...desiredStates.values()].flatMap(({ members, formerMembers }) => {
    const decided = members.get(subscriptionId) ?? formerMembers.get(subscriptionId);
    return decided?.eventNumber ?? [];
  });
  return [...numbers, ...reported].reduce(
    (highest, number) => (number > highest ? number : highest),
    cursor?.number ?? 0n,
  );
}

/** A smaller difference in time may come from service machines whose clocks differ. */
const LATER_MS = 60_000;
/** Events of this age are kept, however the service rounds. */
const SURELY_KEPT_MS = EVENTS_KEPT_MS - 86_400_000;

/**
 * The event that the log has at the position. `same`: nothing contradicts that it is the log that was read. `other`:
 * the event belongs to another log. `gone`: the log keeps events of that age, but has none there. `unknown`: the
 * position was not read, or is inconclusive.
 */
export type AtPosition = 'same' | 'other' | 'gone' | 'unknown';

/** The stored position, with the known facts of its event. */
type Position = Pick<Followed, 'cursor' | 'cursorCreatedAt' | 'cursorAt'>;

interface Probed {
  readonly there: AtPosition;
  /** When the event at the position was created; null: unknown. */
  readonly createdAt: Date | null;
  /** The log continues, and the position was not reached. */
  readonly goesOn: boolean;
}

/**
 * Reads the log from one number before the position: another event under the same number belongs to another log. The
 * log is read from its start where it need not keep the event any more, or where only a manifest named the position:
 * later events below the position also belong to another log. A doubted log is read from its start, too, where it
 * cannot be read from that number. A log that cannot be read is inconclusive. `now`: in service time.
 */
export async function eventAtPosition(
  followed: Followed,
  now: Date,
  parts: Parts,
  signal: AbortSignal,
): Promise<Probed> {
  const { subscriptionId, cursor, cursorCreatedAt, replayedAt } = followed;
  if (cursor === null || replayedAt !== null) return UNKNOWN;
  const number = cursor.number - 1n;
  const before = number <= 0n ? null : { text: `evt_${number}`, number };
  const probe = (after: EventId | null): Promise<Probed> => readAfter(after, followed, parts, signal);
  const isNear = before !== null && cursorCreatedAt !== null && isSurelyKept(cursorCreatedAt, now);
  if (isNear) {
    const near = await probe(before);
    return near.there === 'unknown' && isAnyLogDoubted([subscriptionId], parts) ? await probe(null) : near;
  }
  const first = await probe(null);
  return first.goesOn && before !== null ? await probe(before) : first;
}

const UNKNOWN: Probed = { there: 'unknown', createdAt: null, goesOn: false };

/**
 * Returns whether the service refused the position. It may refuse a position of a log that it has restarted, like any other meaningless
 * value.
 */
export function isRefusedPosition(error: unknown): error is RefusalError {
  if (!(error instanceof RefusalError)) return false;
  const { scope, status } = error.refusal;
  return scope.kind === 'subscription' && (status === 400 || status === 422);
}

/** Reads the first page of a log whose position is refused. Null: the log is refused as a whole. */
export async function readFromStart(
  followed: Followed,
  parts: Parts,
  signal: AbortSignal,
): Promise<AtPosition | null> {
  const page = await pageOrNone(followed.subscriptionId, null, parts, signal);
  if (page === null) return null;
  const there = positionIn(page, followed);
  return page.hasMore && there === 'gone' ? 'unknown' : there;
}

/** Reads one page. Where the log continues before the event was found, the event may be on a later page. */
async function readAfter(
  after: EventId | null,
  followed: Followed,
  parts: Parts,
  signal: AbortSignal,
): Promise<Probed> {
  const page = await pageOrNone(followed.subscriptionId, after, parts, signal);
  if (page === null) return UNKNOWN;
  const there = positionIn(page, followed);
  const event = page.events.find(({ id }) => id?.number === followed.cursor?.number);
  const createdAt = event?.kind === 'event' ? event.createdAt : null;
  const goesOn = after === null && page.hasMore && event === undefined && there !== 'other';
  return { there: goesOn ? 'unknown' : there, createdAt, goesOn };
}

/** Null: the service refuses the page. */
async function pageOrNone(
  subscriptionId: string,
  after: EventId | null,
  { feed }: Parts,
  signal: AbortSignal,
): Promise<EventPage | null> {
  try {
    return await feed.events(subscriptionId, after, signal);
  } catch (error) {
    const isOfThisPosition =
      error instanceof CursorExpiredError ||
      (error instanceof RefusalError && error.refusal.scope.kind === 'subscription');
    if (!isOfThisPosition) throw error;
    return null;
  }
}

/** Compares a page of the log that begins before the position with the position. Pure. */
export function positionIn({ events, readAt }: EventPage, position: Position): AtPosition {
  const { cursor, cursorCreatedAt, cursorAt } = position;
  if (cursor === null) return 'unknown';
  if (haveLaterBelow(events, cursor, cursorCreatedAt ?? cursorAt)) return 'other';
  const there = events.find(({ id }) => id?.number === cursor.number);
  if (there === undefined) {
    // A number that a manifest named need not be the number of an event.
    if (cursorCreatedAt === null) return 'same';
    const isOlderKept = events.some(({ id }) => id !== null && id.number < cursor.number);
    return isOlderKept || isSurelyKept(cursorCreatedAt, readAt) ? 'gone' : 'same';
  }
  if (there.kind !== 'event' || there.createdAt === null) return 'same';
  const isOther =
    cursorCreatedAt === null
      ? there.createdAt >= timeOf(cursorAt)
      : there.createdAt.getTime() !== cursorCreatedAt.getTime();
  return isOther ? 'other' : 'same';
}

const LEAST_TELLING_FIRST: readonly AtPosition[] = ['unknown', 'gone', 'same', 'other'];

/** Combines the findings of two pages of one log. Pure. */
export function together(left: AtPosition, right: AtPosition): AtPosition {
  return LEAST_TELLING_FIRST.indexOf(left) > LEAST_TELLING_FIRST.indexOf(right) ? left : right;
}

/** Returns whether the service may have restarted one of the logs, without confirmation yet. */
export function isAnyLogDoubted(subscriptionIds: Iterable<string>, { checkpoint }: Parts): boolean {
  const doubted = doubtedLogs(checkpoint.absences());
  return [...subscriptionIds].some((id) => doubted.has(id));
}

/** Returns the ids of the subscriptions whose logs the service may have restarted, without confirmation yet. Pure. */
export function doubtedLogs(absences: readonly Absence[]): ReadonlySet<string> {
  return new Set(absences.flatMap(({ subject }) => (subject.kind === 'log' ? [subject.subscriptionId] : [])));
}

function isSurelyKept(createdAt: Date, now: Date): boolean {
  return now.getTime() - createdAt.getTime() < SURELY_KEPT_MS;
}

/** Within one log, times grow with the numbers. */
function haveLaterBelow(events: EventPage['events'], { number }: EventId, createdAt: Date): boolean {
  const latestMs = createdAt.getTime() + LATER_MS;
  return events.some(
    (event) =>
      event.kind === 'event' && event.id.number < number && (event.createdAt?.getTime() ?? 0) > latestMs,
  );
}
