/** A page of a log (the interface, Events). An event that cannot be read is reported as such and never stops the log. */

import { z } from 'zod';
import { EVENT_TYPES, type FeedEvent, parseEventId, type UnreadableEvent } from '../../model/event.ts';
import type { EventPage } from '../feed.ts';
import { shown } from '../shown.ts';
import { count, decode, id, list, moment, pathText, shownOnly, words } from './fields.ts';

const eventsPage = z.object({ events: list(z.unknown()), hasMore: z.boolean() });

/** Beyond id, type and dataset an event is a hint: what does not fit is as if it had been left out. */
const event = z.object({
  id: z.string().transform((text, context) => {
    const eventId = parseEventId(text);
    if (eventId !== null) return eventId;
    context.addIssue({ code: 'custom', message: 'is not of the form evt_<sequence>' });
    return z.NEVER;
  }),
  type: z.string(),
  createdAt: shownOnly(moment),
  data: z.object({
    datasetId: id,
    version: shownOnly(count),
    previousVersion: shownOnly(count),
    schemaVersion: shownOnly(id),
    counts: shownOnly(z.object({ added: count, changed: count, removed: count })),
    reason: words,
  }),
});

/** What can be told of an event that does not fit. */
const remnant = z.object({
  id: shownOnly(z.string()),
  data: z.object({ datasetId: shownOnly(id) }).catch({ datasetId: null }),
});

/** @throws ContractViolationError where the page itself does not fit. */
export function decodeEventPage(json: unknown, title: string): Omit<EventPage, 'readAt'> {
  const page = decode(eventsPage, json, title);
  return { events: page.events.map(decodeEvent), hasMore: page.hasMore };
}

export function decodeEvent(json: unknown): FeedEvent | UnreadableEvent {
  const result = event.safeParse(json);
  if (!result.success) {
    const [issue] = result.error.issues;
    return unreadable(json, `${pathText(issue?.path ?? [])}: ${issue?.message ?? 'does not fit'}`);
  }
  const type = EVENT_TYPES.find((known) => known === result.data.type);
  if (type === undefined) return unreadable(json, `type: "${shown(result.data.type)}" is not a known type`);
  const { id: eventId, createdAt, data } = result.data;
  return { kind: 'event', id: eventId, type, createdAt, ...data };
}

function unreadable(json: unknown, trouble: string): UnreadableEvent {
  const result = remnant.safeParse(json);
  if (!result.success) return { kind: 'unreadable', id: null, datasetId: null, trouble };
  const { id: text, data } = result.data;
  return {
    kind: 'unreadable',
    id: text === null ? null : parseEventId(text),
    datasetId: data.datasetId,
    trouble,
  };
}
