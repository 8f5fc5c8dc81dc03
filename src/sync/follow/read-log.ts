/**
 * Reads the log of a subscription page by page, from the stored position to its head. The wants and the cursor of a
 * page commit together, so an event read is never lost and a dataset in trouble never holds the log up.
 *
 * A quiet log is read from its start, because the service keeps nothing at the position any more; what is not newer
 * than the position was read before and is skipped. The first newer event moves the position, and ends that.
 */

import type { EventPage } from '../../feed/feed.ts';
import { CursorExpiredError, ServiceUnavailableError } from '../../model/errors.ts';
import type { EventId, FeedEvent, UnreadableEvent } from '../../model/event.ts';
import type { Subscription } from '../../model/subscription.ts';
import type { Parts } from '../parts.ts';
import { cursorAfter, foldEvents } from './fold.ts';

/** Pages of the log read in one go, after which somebody else may have a turn. */
export const MAX_PAGES = 500;

/** That a quiet log was read is noted so often at the most: each note is a write to the disk. */
const QUIET_NOTED_EVERY_MS = 3_600_000;

export interface LogReading {
  /**
   * - `head`: there is nothing after the position now.
   * - `more`: the log goes on after all the pages of one go; what was read is kept.
   * - `expired`: the service no longer keeps the events after the position.
   */
  readonly end: 'head' | 'more' | 'expired';
  /** What the events that were read are about. */
  readonly datasetIds: ReadonlySet<string>;
}

/** Whose log is read; the rest of its record does not matter here. */
export type Reader = Pick<Subscription, 'id' | 'name'>;

/** @throws ServiceUnavailableError when the log makes no progress. */
export async function readLog(subscription: Reader, parts: Parts, signal: AbortSignal): Promise<LogReading> {
  const datasetIds = new Set<string>();
  let position = startOf(subscription, parts);
  for (let pages = 0; pages < MAX_PAGES; pages++) {
    const page = await pageAfter(position.after, subscription, parts, signal);
    if (page === 'expired') return { end: 'expired', datasetIds };
    const next = positionAfter(page, position);
    for (const { datasetId } of commitPage(subscription, page, position, next, parts)) {
      if (datasetId !== null) datasetIds.add(datasetId);
    }
    if (!page.hasMore) return { end: 'head', datasetIds };
    refuseStandstill(subscription, position, next);
    position = next;
  }
  return { end: 'more', datasetIds };
}

interface Position {
  /** The last event of the page before; null: the start of the log. */
  readonly after: EventId | null;
  /** The position to store. While the log is quiet it is ahead of `after`. */
  readonly cursor: EventId | null;
  /** What is not newer was read before; null: nothing of it is known to have been. */
  readonly readBefore: EventId | null;
  /** Nothing newer has come since the log is read from its start. */
  readonly isQuiet: boolean;
  /** When that was last noted; null: it was not. */
  readonly quietNotedAt: Date | null;
}

function startOf({ id }: Reader, { checkpoint }: Parts): Position {
  const followed = checkpoint.followed().get(id);
  const cursor = followed?.cursor ?? null;
  const quietNotedAt = followed?.quietReadAt ?? null;
  const isQuiet = cursor === null || quietNotedAt !== null;
  return {
    after: isQuiet ? null : cursor,
    cursor,
    readBefore: isQuiet ? cursor : null,
    isQuiet,
    quietNotedAt,
  };
}

function positionAfter({ events }: EventPage, position: Position): Position {
  const cursor = cursorAfter(events, position.cursor);
  const isQuiet = position.isQuiet && cursor?.number === position.cursor?.number;
  return { ...position, after: cursorAfter(events, position.after), cursor, isQuiet };
}

/** A log that is refused from its very start has nothing in it. */
async function pageAfter(
  after: EventId | null,
  { id }: Reader,
  { feed }: Parts,
  signal: AbortSignal,
): Promise<EventPage | 'expired'> {
  try {
    return await feed.events(id, after, signal);
  } catch (error) {
    if (!(error instanceof CursorExpiredError)) throw error;
    return after === null ? { events: [], hasMore: false } : 'expired';
  }
}

/** That a quiet log was read is stored once it was read to its head: until then events may be in it that were not. */
function commitPage(
  subscription: Reader,
  page: EventPage,
  { readBefore }: Position,
  next: Position,
  parts: Parts,
): readonly (FeedEvent | UnreadableEvent)[] {
  const { checkpoint, log, progress } = parts;
  const { cursor, isQuiet } = next;
  const events = page.events.filter(({ id }) => !wasRead(id, readBefore));
  if (events.length === 0 && !(isQuiet && !page.hasMore && isToBeNoted(next, parts))) return events;
  checkpoint.commitFollowStep({
    subscriptionId: subscription.id,
    subscriptionName: subscription.name,
    cursor,
    isQuiet,
    changes: foldEvents(events, subscription.id, checkpoint.wants()),
  });
  warnOfUnreadable(subscription, events, log);
  progress.read(subscription.id, events);
  return events;
}

/** A moment in the future was written down by a clock that was wrong. */
function isToBeNoted({ quietNotedAt }: Position, { clock }: Parts): boolean {
  return (
    quietNotedAt === null || Math.abs(clock.now().getTime() - quietNotedAt.getTime()) >= QUIET_NOTED_EVERY_MS
  );
}

/** One without a readable id may be new. */
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
    { subscription: id, event: first.id?.text ?? null, why: first.trouble, events: unreadable.length },
    'Skipped events that could not be read; the datasets they name are looked at.',
  );
}

function refuseStandstill(subscription: Reader, { after: before }: Position, { after }: Position): void {
  if (after !== null && (before === null || after.number > before.number)) return;
  const stuckAt = before?.text ?? 'its start';
  throw new ServiceUnavailableError(
    `The log of subscription ${subscription.id} makes no progress: more events are to follow ${stuckAt}, and none come.`,
    { hint: 'It is read again later. If it stays so, tell the service.' },
  );
}
