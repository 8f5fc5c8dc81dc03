/**
 * Reads the log of a subscription to its head. Where there is no position, or the position is lost, the subscription is
 * taken from its manifest, at most once in a catch-up: a log that returns only expired positions causes no endless
 * loop, and a quiet log is not taken from the manifest repeatedly.
 */

import type { Followed } from '../../checkpoint/checkpoint.ts';
import type { EventPage } from '../../feed/feed.ts';
import { present } from '../../lib/assert.ts';
import type { FollowStep } from '../../model/desired-state.ts';
import { CursorExpiredError, ServiceUnavailableError } from '../../model/errors.ts';
import type { EventId, FeedEvent, UnreadableEvent } from '../../model/event.ts';
import type { Subscription } from '../../model/records.ts';
import type { ObservedTable } from '../../model/write-jobs.ts';
import type { Parts } from '../parts.ts';
import { currentSuspensions } from '../suspensions.ts';
import { stepAt } from './audit.ts';
import { coalesceEvents, cursorAfter } from './coalesce-events.ts';
import { type AtPosition, eventAtPosition, isAnyLogDoubted, positionIn, together } from './log-restart.ts';
import { EVENTS_KEPT_MS } from './subscriptions.ts';

interface LogOptions {
  readonly subscription: Subscription;
  /** When the record was read, in service time. */
  readonly recordReadAt: Date;
  readonly tableOf: TableOf;
  /** Makes the step that takes the subscription from its manifest. */
  readonly startOver: () => Promise<FollowStep>;
}

/**
 * Resolves to the event that a quiet log has at the position.
 * @throws ServiceUnavailableError where the log cannot be read to its head now.
 */
export async function followLog(options: LogOptions, parts: Parts, signal: AbortSignal): Promise<AtPosition> {
  const { subscription, recordReadAt, tableOf } = options;
  const { checkpoint, log } = parts;
  const about = { subscription: subscription.id };
  const followed = (): Followed | null => checkpoint.followed().get(subscription.id) ?? null;
  let there: AtPosition = 'unknown';
  const isAtHead = async (): Promise<boolean> => {
    const reading = await readLog(subscription, tableOf, parts, signal);
    const { end } = reading;
    there = reading.there;
    if (end === 'more') throw goesOn(subscription);
    return end === 'head';
  };
  const startOver = async (): Promise<void> => checkpoint.commitFollowStep(await options.startOver());

  const known = followed();
  const isTaken = known === null || wasReplayedTooLong(known.replayedAt, recordReadAt);
  if (isTaken) await startOver();
  if (await isAtHead()) return there;
  if (!isTaken) {
    log.warn(about, 'The position in the log has expired: starting from the manifest.');
    await startOver();
    if (await isAtHead()) return there;
  }
  log.info(
    about,
    'The newest position has expired, too: the log is read from its start until something newer comes.',
  );
  const taken = present(followed(), 'a log that was read is followed');
  checkpoint.commitFollowStep(stepAt({ ...taken, replayedAt: recordReadAt }, []));
  if (await isAtHead()) return there;
  throw new ServiceUnavailableError(
    `The log of subscription ${subscription.id} cannot be read on: a position that it has just given has expired already.`,
    { hint: 'It is read again at the next catch-up. If it stays so, report it to the service.' },
  );
}

function goesOn({ id }: Subscription): ServiceUnavailableError {
  return new ServiceUnavailableError(`The log of subscription ${id} goes on after ${MAX_PAGES} pages.`, {
    hint: 'What was read is kept; the next catch-up reads on.',
  });
}

/** An event may have come and expired meanwhile. A future time was stored under another service time. */
function wasReplayedTooLong(replayedAt: Date | null, now: Date): boolean {
  return replayedAt !== null && Math.abs(now.getTime() - replayedAt.getTime()) >= EVENTS_KEPT_MS;
}

/** The process slept so long between two requests that events may have come and expired. */
function expiredMeanwhile(
  { isExpiredCursorReplay, replayNotedAt }: Position,
  { readAt }: EventPage,
): boolean {
  return isExpiredCursorReplay && wasReplayedTooLong(replayNotedAt, readAt);
}

/** Pages of a log read in one go, after which other logs may have a turn. */
export const MAX_PAGES = 500;

/** A replay of a quiet log is stored at most this often, because each time costs a write to the disk. */
const REPLAY_NOTED_EVERY_MS = 3_600_000;

interface LogReading {
  /**
   * `head`: nothing follows the position now. `more`: the log continues after the pages of one go, which are stored. `expired`: the
   * service no longer keeps the events after the position.
   */
  readonly end: 'head' | 'more' | 'expired';
  /** The datasets that the events name. */
  readonly datasetIds: ReadonlySet<string>;
  /** The event that a quiet log has at the position. */
  readonly there: AtPosition;
}

/** The part of a subscription's record that reading its log needs. */
type Reader = Pick<Subscription, 'id' | 'name'>;

/** Returns the current table of a dataset. */
export type TableOf = (datasetId: string) => ObservedTable | null;

/** Reads the log of a subscription to its end. @throws ServiceUnavailableError when the log makes no progress. */
export async function readLog(
  subscription: Reader,
  tableOf: TableOf,
  parts: Parts,
  signal: AbortSignal,
): Promise<LogReading> {
  const datasetIds = new Set<string>();
  let position = startOf(subscription, parts);
  const replay = replayPosition(subscription, parts);
  let there: AtPosition = 'unknown';
  for (let pages = 0; pages < MAX_PAGES; pages++) {
    const page = await pageAfter(position.after, subscription, parts, signal);
    if (page === 'expired' || expiredMeanwhile(position, page)) return { end: 'expired', datasetIds, there };
    if (replay !== null) there = together(there, positionIn(page, replay));
    const next = positionAfter(page, position);
    for (const { datasetId } of commitPage(subscription, page, position, next, { parts, tableOf })) {
      if (datasetId !== null) datasetIds.add(datasetId);
    }
    if (!page.hasMore) return { end: 'head', datasetIds, there };
    refuseStandstill(subscription, position, next);
    position = next;
  }
  return { end: 'more', datasetIds, there };
}

interface Position {
  readonly logNumber: number;
  readonly coveredUntil: Date | null;
  /** The last event of the page before; null: the start of the log. */
  readonly after: EventId | null;
  /** The position to store. While the log is quiet, this position is ahead of `after`. */
  readonly cursor: EventId | null;
  readonly cursorCreatedAt: Date | null;
  /** Events up to this one were read before; null: no event is known to have been read. */
  readonly readBefore: EventId | null;
  /** No newer event has come since the log is read from its start. */
  readonly isExpiredCursorReplay: boolean;
  /** When the replay was last stored; null: never. */
  readonly replayNotedAt: Date | null;
}

/** The position up to which a replayed log was read; null: the log is read on from its position. */
function replayPosition({ id }: Reader, { checkpoint }: Parts): Followed | null {
  const followed = checkpoint.followed().get(id) ?? null;
  return followed?.replayedAt == null ? null : followed;
}

function startOf({ id }: Reader, { checkpoint }: Parts): Position {
  const followed: Followed | null = checkpoint.followed().get(id) ?? null;
  const cursor = followed?.cursor ?? null;
  const replayNotedAt = followed?.replayedAt ?? null;
  const isExpiredCursorReplay = cursor === null || replayNotedAt !== null;
  return {
    logNumber: followed?.logNumber ?? 1,
    coveredUntil: followed?.coveredUntil ?? null,
    after: isExpiredCursorReplay ? null : cursor,
    cursor,
    cursorCreatedAt: followed?.cursorCreatedAt ?? null,
    readBefore: isExpiredCursorReplay ? cursor : null,
    isExpiredCursorReplay,
    replayNotedAt,
  };
}

function positionAfter({ events }: EventPage, position: Position): Position {
  const cursor = cursorAfter(events, position.cursor);
  const isMoved = cursor?.number !== position.cursor?.number;
  return {
    ...position,
    after: cursorAfter(events, position.after),
    cursor,
    cursorCreatedAt: isMoved ? createdAtOf(cursor, events) : position.cursorCreatedAt,
    isExpiredCursorReplay: position.isExpiredCursorReplay && !isMoved,
  };
}

function createdAtOf(cursor: EventId | null, events: EventPage['events']): Date | null {
  const event = events.find(({ id }) => id !== null && id.number === cursor?.number);
  return event?.kind === 'event' ? event.createdAt : null;
}

/** A log that is refused from its very start has no events. */
async function pageAfter(
  after: EventId | null,
  { id }: Reader,
  { feed, clock }: Parts,
  signal: AbortSignal,
): Promise<EventPage | 'expired'> {
  try {
    return await feed.events(id, after, signal);
  } catch (error) {
    if (!(error instanceof CursorExpiredError)) throw error;
    if (after !== null) return 'expired';
    return { events: [], hasMore: false, readAt: error.readAt ?? clock.now() };
  }
}

/** A replay is stored once the log was read to its head, because unread events may remain until then. */
function commitPage(
  subscription: Reader,
  page: EventPage,
  { readBefore, cursor: readUntil }: Position,
  next: Position,
  { parts, tableOf }: { readonly parts: Parts; readonly tableOf: TableOf },
): readonly (FeedEvent | UnreadableEvent)[] {
  const { checkpoint, log, progress } = parts;
  const { logNumber, cursor, cursorCreatedAt, isExpiredCursorReplay, coveredUntil } = next;
  const { readAt } = page;
  const events = page.events.filter(({ id }) => !wasRead(id, readBefore));
  if (events.length === 0 && !(isExpiredCursorReplay && !page.hasMore && isToBeNoted(next, readAt)))
    return events;
  checkpoint.commitFollowStep({
    subscriptionId: subscription.id,
    subscriptionName: subscription.name,
    position: { logNumber, cursor, cursorCreatedAt, isExpiredCursorReplay, coveredUntil, readAt },
    changes: coalesceEvents(events, {
      subscriptionId: subscription.id,
      logNumber,
      readAt,
      coveredUntil,
      readUntil: readUntil?.number ?? null,
      desiredStateOf: (datasetId) => checkpoint.desired(datasetId),
      tableOf,
    }),
  });
  warnOfUnreadable(subscription, events, log);
  progress.read(subscription.id, events);
  return events;
}

/** A future time was stored under another service time. */
function isToBeNoted({ replayNotedAt }: Position, readAt: Date): boolean {
  return (
    replayNotedAt === null || Math.abs(readAt.getTime() - replayNotedAt.getTime()) >= REPLAY_NOTED_EVERY_MS
  );
}

/** An event without a readable id may be new. */
function wasRead(id: EventId | null, readBefore: EventId | null): boolean {
  return id !== null && readBefore !== null && id.number <= readBefore.number;
}

function warnOfUnreadable(
  { id }: Reader,
  events: readonly (FeedEvent | UnreadableEvent)[],
  log: Parts['log'],
): void {
  const unreadable = events.filter((event) => event.kind === 'unreadable');
  const [first] = unreadable;
  if (first === undefined) return;
  log.warn(
    { subscription: id, event: first.id?.text ?? null, why: first.problem, events: unreadable.length },
    'Skipped events that could not be read; the versions of the datasets they name are read.',
  );
}

function refuseStandstill(subscription: Reader, { after: before }: Position, { after }: Position): void {
  if (after !== null && (before === null || after.number > before.number)) return;
  const stuckAt = before?.text ?? 'its start';
  throw new ServiceUnavailableError(
    `The log of subscription ${subscription.id} makes no progress: more events are to follow ${stuckAt}, and none come.`,
    { hint: 'It is read again later. If it stays so, report it to the service.' },
  );
}

/**
 * Resolves to false where one of the logs cannot be read to its head now, or may have been restarted, so that its past
 * is unknown. A suspended subscription's log is not read.
 */
export async function readLogsOf(
  datasetId: string,
  tableOf: TableOf,
  parts: Parts,
  signal: AbortSignal,
): Promise<boolean> {
  const { checkpoint } = parts;
  const suspensions = currentSuspensions(parts);
  const members = checkpoint.desired(datasetId)?.members.keys() ?? [];
  for (const id of [...members].filter((each) => suspensions.ofSubscription(each) === null)) {
    const followed = checkpoint.followed().get(id);
    if (followed === undefined || isAnyLogDoubted([id], parts)) return false;
    const { there } = await eventAtPosition(followed, followed.auditedAt ?? followed.cursorAt, parts, signal);
    if (there === 'other' || there === 'gone') return false;
    const { end } = await readLog({ id, name: followed.name }, tableOf, parts, signal);
    if (end !== 'head') return false;
  }
  return true;
}
