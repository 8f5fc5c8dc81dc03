/** One page of a subscription's log. It pages by the id of the last event, not by a cursor (the interface, Events). */

import type { EventId } from '../model/event.ts';
import type { EventPage } from './feed.ts';
import type { Api } from './http/api.ts';
import { refusalOfLog } from './http/refusal.ts';
import { MAX_JSON_DEPTH } from './limits.ts';
import { readEvents } from './operations.ts';
import { decodeEventPage } from './wire/events.ts';
import { violation } from './wire/fields.ts';

/** The largest page that the interface allows. */
const EVENTS_LIMIT = 500;

/** GET /v1/subscriptions/{subscriptionId}/events. @throws CursorExpiredError when `after` is past retention. */
export function readEventPage(
  api: Api,
  subscriptionId: string,
  after: EventId | null,
  signal: AbortSignal,
): Promise<EventPage> {
  const operation = readEvents(subscriptionId);
  return api.call(
    {
      operation,
      query: { after: after?.text ?? null, limit: EVENTS_LIMIT },
      maxDepth: MAX_JSON_DEPTH,
      decode({ json, readAt }) {
        const page = { ...decodeEventPage(json, operation.title), readAt };
        if (!page.hasMore || page.events.length > 0) return page;
        throw violation(operation.title, 'hasMore', 'promises more, but the page is empty');
      },
      refuse: refusalOfLog,
    },
    signal,
  );
}
