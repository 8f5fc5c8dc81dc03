/** When the newest event of a log was created, where only time tells what a manifest reflects. */

import { CursorExpiredError } from '../../model/errors.ts';
import type { EventId, FeedEvent, UnreadableEvent } from '../../model/event.ts';
import { momentOf, type Watermark } from '../../model/watermark.ts';
import type { Parts } from '../parts.ts';
import { cursorAfter } from './fold.ts';
import { EVENTS_KEPT_MS } from './position-age.ts';
import { MAX_PAGES } from './read-log.ts';

/**
 * Reads the log from its start. An event that the log keeps no more may be as young as the log allows: that is older than any
 * manifest lags, and later with each reading, so that what may have been lost since the one before is asked for again. Where
 * numbers tell what the manifest reflects, nothing is read: the event may have been created at any time up to `readAt`, in
 * service time.
 */
export async function newestCreatedAt(
  subscriptionId: string,
  watermark: Watermark,
  readAt: Date,
  { feed }: Parts,
  signal: AbortSignal,
): Promise<Date> {
  if (watermark.kind === 'number') return momentOf(readAt);
  let after: EventId | null = null;
  let newest = new Date(readAt.getTime() - EVENTS_KEPT_MS);
  for (let pages = 0; pages < MAX_PAGES; pages += 1) {
    const page = await pageAfter(subscriptionId, after, feed, signal);
    if (page === null) return newest;
    newest = new Date(
      Math.max(newest.getTime(), ...page.events.map((event) => createdMs(event, page.readAt))),
    );
    after = cursorAfter(page.events, after);
    if (!page.hasMore) return newest;
  }
  return newest;
}

/** An event that does not say when it was created is taken for created as it was read. */
function createdMs(event: FeedEvent | UnreadableEvent, readAt: Date): number {
  return ((event.kind === 'event' ? event.createdAt : null) ?? readAt).getTime();
}

/** Null: the log keeps nothing from there on. */
async function pageAfter(
  subscriptionId: string,
  after: EventId | null,
  feed: Parts['feed'],
  signal: AbortSignal,
) {
  try {
    return await feed.events(subscriptionId, after, signal);
  } catch (error) {
    if (!(error instanceof CursorExpiredError)) throw error;
    return null;
  }
}
