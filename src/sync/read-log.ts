/**
 * Reads the log of a subscription page by page, from the stored position to its head. The wants and the cursor of a
 * page commit together, so an event read is never lost and a dataset in trouble never holds the log up.
 */

import { CursorExpiredError, ServiceUnavailableError } from '../model/errors.ts';
import type { EventId } from '../model/event.ts';
import type { Subscription } from '../model/subscription.ts';
import { cursorAfter, foldEvents } from './fold.ts';
import type { Parts } from './parts.ts';

/** Pages of the log read in one go, after which the next catch-up goes on. */
const MAX_PAGES = 500;

/**
 * False where the service no longer keeps the events after the position.
 * @throws ServiceUnavailableError when the log makes no progress, or goes on after all the pages of one go.
 */
export async function readLog(
  subscription: Subscription,
  parts: Parts,
  signal: AbortSignal,
): Promise<boolean> {
  try {
    for (let pages = 0; pages < MAX_PAGES; pages++) {
      const { hasMore } = await readPage(subscription, parts, signal);
      if (!hasMore) return true;
    }
  } catch (error) {
    if (error instanceof CursorExpiredError) return false;
    throw error;
  }
  throw new ServiceUnavailableError(
    `The log of subscription ${subscription.id} goes on after ${MAX_PAGES} pages.`,
    { hint: 'What was read is kept; the next catch-up reads on.' },
  );
}

async function readPage(
  subscription: Subscription,
  { feed, checkpoint, log }: Parts,
  signal: AbortSignal,
): Promise<{ readonly hasMore: boolean }> {
  const before = checkpoint.followed().get(subscription.id)?.cursor ?? null;
  const { events, hasMore } = await feed.events(subscription.id, before, signal);
  const cursor = cursorAfter(events, before);
  if (events.length > 0) {
    checkpoint.commitFollowStep({
      subscriptionId: subscription.id,
      subscriptionName: subscription.name,
      cursor,
      changes: foldEvents(events, subscription.id, checkpoint.wants()),
    });
  }
  const unreadable = events.filter((event) => event.kind === 'unreadable');
  const [first] = unreadable;
  if (first !== undefined) {
    log.warn(
      {
        subscription: subscription.id,
        event: first.id?.text ?? null,
        why: first.trouble,
        events: unreadable.length,
      },
      'Skipped events that could not be read; the datasets they name are looked at.',
    );
  }
  if (hasMore) refuseStandstill(subscription, before, cursor);
  return { hasMore };
}

function refuseStandstill(subscription: Subscription, before: EventId | null, after: EventId | null): void {
  if (after !== null && (before === null || after.number > before.number)) return;
  const stuckAt = before?.text ?? 'its start';
  throw new ServiceUnavailableError(
    `The log of subscription ${subscription.id} makes no progress: more events are to follow ${stuckAt}, and none come.`,
    { hint: 'It is read again at the next catch-up. If it stays so, tell the service.' },
  );
}
