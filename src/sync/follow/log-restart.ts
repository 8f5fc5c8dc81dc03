/**
 * Whether the service has begun the log of a subscription anew: then numbers of the old log mean nothing in the new one.
 * It is seen by a newest event that is older than one that was read, or by another event at the position or none.
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
import { EVENTS_KEPT_MS } from './connect.ts';

/** Whether the record names a newest event that the log as it was followed cannot have. Pure. */
export function lacksKnownEvents(
  { lastEventId }: Subscription,
  followed: Followed,
  desiredStates: ReadonlyMap<string, DesiredState>,
  observed: ObservedState,
): boolean {
  if (lastEventId === null) return followed.statesLastEvent;
  return lastEventId.number < highestNumber(followed, desiredStates, observed);
}

/** Of the position, of reloads, and of what was told of members. */
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

/** Later by less, an event may be of a service whose machines have clocks that differ. */
const LATER_MS = 60_000;
/** Events of this age are kept, however the service rounds. */
const SURELY_KEPT_MS = EVENTS_KEPT_MS - 86_400_000;

/**
 * What the log has at the position. `same`: nothing speaks against its being the log that was read. `other`: it is another one.
 * `gone`: it keeps events of that age, and has none there. `unknown`: it was not looked at, or says nothing.
 */
export type AtPosition = 'same' | 'other' | 'gone' | 'unknown';

/** The position as it was stored, and what is known of its event. */
type Position = Pick<Followed, 'cursor' | 'cursorCreatedAt' | 'cursorAt'>;

interface Probed {
  readonly there: AtPosition;
  /** Of the event at the position; null: not known. */
  readonly createdAt: Date | null;
  /** The log goes on, and the position was not reached. */
  readonly goesOn: boolean;
}

/**
 * Reads the log from one number before the position: another event there, under the same number, is one of another log. A log
 * that need not keep the event any more, or of which only a manifest named the position, is read from its start: later events
 * below the position are of another log, too. So is one that is doubted, where it cannot be read from that number on. What cannot
 * be read says nothing. `now`: in service time.
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
  const look = (after: EventId | null): Promise<Probed> => readAfter(after, followed, parts, signal);
  const isNear = before !== null && cursorCreatedAt !== null && isSurelyKept(cursorCreatedAt, now);
  if (isNear) {
    const near = await look(before);
    return near.there === 'unknown' && isAnyLogDoubted([subscriptionId], parts) ? await look(null) : near;
  }
  const first = await look(null);
  return first.goesOn && before !== null ? await look(before) : first;
}

const UNKNOWN: Probed = { there: 'unknown', createdAt: null, goesOn: false };

/** The service may refuse a position of a log that it has begun anew, as any other value that means nothing to it. */
export function isRefusedPosition(error: unknown): error is RefusalError {
  if (!(error instanceof RefusalError)) return false;
  const { scope, status } = error.refusal;
  return scope.kind === 'subscription' && (status === 400 || status === 422);
}

/** What the first page of the log says of a position that is refused. Null: the log is refused as a whole. */
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

/** One page: where the log goes on before the event came, that may be in a later one. */
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

/** Null: the service does not give what follows there. */
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

/** What a page of the log says that begins before the position. Pure. */
export function positionIn({ events, readAt }: EventPage, position: Position): AtPosition {
  const { cursor, cursorCreatedAt, cursorAt } = position;
  if (cursor === null) return 'unknown';
  if (haveLaterBelow(events, cursor, cursorCreatedAt ?? cursorAt)) return 'other';
  const there = events.find(({ id }) => id?.number === cursor.number);
  if (there === undefined) {
    // A number that a manifest named need not be that of an event.
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

/** What two pages of one log say together. Pure. */
export function together(left: AtPosition, right: AtPosition): AtPosition {
  return LEAST_TELLING_FIRST.indexOf(left) > LEAST_TELLING_FIRST.indexOf(right) ? left : right;
}

/** Whether the service may have begun one of the logs anew, which is not confirmed yet. */
export function isAnyLogDoubted(subscriptionIds: Iterable<string>, { checkpoint }: Parts): boolean {
  const doubted = doubtedLogs(checkpoint.absences());
  return [...subscriptionIds].some((id) => doubted.has(id));
}

/** The ids of the subscriptions whose logs the service may have begun anew, which is not confirmed yet. Pure. */
export function doubtedLogs(absences: readonly Absence[]): ReadonlySet<string> {
  return new Set(absences.flatMap(({ subject }) => (subject.kind === 'log' ? [subject.subscriptionId] : [])));
}

function isSurelyKept(createdAt: Date, now: Date): boolean {
  return now.getTime() - createdAt.getTime() < SURELY_KEPT_MS;
}

/** Numbers of one log grow with time. */
function haveLaterBelow(events: EventPage['events'], { number }: EventId, createdAt: Date): boolean {
  const latestMs = createdAt.getTime() + LATER_MS;
  return events.some(
    (event) =>
      event.kind === 'event' && event.id.number < number && (event.createdAt?.getTime() ?? 0) > latestMs,
  );
}
