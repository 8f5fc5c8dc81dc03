/**
 * Events become wants. Pure: the same page gives the same changes however often it is read, so replaying any event
 * any number of times changes nothing. Events are hints; what happened is read from versions and schemas.
 */

import { unreachable } from '../../lib/assert.ts';
import { type EventId, type FeedEvent, laterEvent, type UnreadableEvent } from '../../model/event.ts';
import type { Want, WantChange } from '../../model/want.ts';

/**
 * What a page of the log of `subscriptionId` asks for, in the order in which it happened, whatever the order of the
 * page. `wants` is what was wanted before the page: an addition after a removal is a reload, wherever the removal stands.
 */
export function foldEvents(
  events: readonly (FeedEvent | UnreadableEvent)[],
  subscriptionId: string,
  wants: ReadonlyMap<string, Want>,
): readonly WantChange[] {
  const removedInPage = new Map<string, boolean>();
  const wasRemoved = ({ datasetId, id }: FeedEvent): boolean => {
    const inPage = removedInPage.get(datasetId);
    if (inPage !== undefined) return inPage;
    const removal = wants.get(datasetId)?.formerMembers.get(subscriptionId);
    return removal !== undefined && (removal === null || removal < id.number);
  };
  return inOrder(events).flatMap((event) => {
    const changes = changesOf(event, wasRemoved);
    if (event.kind === 'event' && event.type === 'dataset.removed') removedInPage.set(event.datasetId, true);
    if (event.kind === 'event' && event.type === 'dataset.added') removedInPage.set(event.datasetId, false);
    return changes;
  });
}

/** An event without a readable id only asks for a look, so its place does not matter. */
function inOrder<T extends { readonly id: EventId | null }>(events: readonly T[]): readonly T[] {
  const numberOf = ({ id }: T): bigint => id?.number ?? 0n;
  return events.toSorted((left, right) => {
    if (numberOf(left) === numberOf(right)) return 0;
    return numberOf(left) < numberOf(right) ? -1 : 1;
  });
}

/** The page's highest event id, or `before` where none is higher. */
export function cursorAfter(
  events: readonly (FeedEvent | UnreadableEvent)[],
  before: EventId | null,
): EventId | null {
  return events.reduce<EventId | null>((highest, event) => laterEvent(highest, event.id), before);
}

function changesOf(
  event: FeedEvent | UnreadableEvent,
  wasRemoved: (event: FeedEvent) => boolean,
): readonly WantChange[] {
  if (event.kind === 'unreadable') {
    return event.datasetId === null ? [] : [{ kind: 'look', datasetId: event.datasetId }];
  }
  const { datasetId } = event;
  const eventNumber = event.id.number;
  switch (event.type) {
    case 'dataset.added':
      return [
        { kind: 'member', datasetId, eventNumber },
        wasRemoved(event) ? reload(event) : newVersion(event),
      ];
    case 'dataset.updated':
      return [newVersion(event)];
    case 'dataset.schema_changed':
      return [{ kind: 'look', datasetId }];
    case 'dataset.resync_required':
      return [reload(event)];
    case 'dataset.removed':
      return [
        {
          kind: 'no-member',
          datasetId,
          eventNumber,
          ...(event.reason === null ? {} : { reason: event.reason }),
        },
      ];
    default:
      return unreachable(event.type);
  }
}

function newVersion({ datasetId, version, id }: FeedEvent): WantChange {
  if (version === null) return { kind: 'look', datasetId };
  return { kind: 'at-least', datasetId, version, eventNumber: id.number };
}

function reload({ datasetId, version, id }: FeedEvent): WantChange {
  return { kind: 'reload', datasetId, eventNumber: id.number, version };
}
