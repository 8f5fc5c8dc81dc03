/** Events of a subscription's log (the service's interface, Events), and how their ids are ordered. */

import type { Counts } from './records.ts';

/**
 * The id of an event: the text as the service wrote it, and its sequence number. Numbers are compared as numbers
 * (`evt_10` comes after `evt_9`) and only within one subscription.
 */
export interface EventId {
  readonly text: string;
  readonly number: bigint;
}

/** The largest sequence number: what a 64-bit integer column holds. */
const MAX_EVENT_NUMBER = 2n ** 63n - 1n;

/** The id, or null where the text is not `evt_` and a number of at most 64 bits. */
export function parseEventId(text: string): EventId | null {
  const digits = /^evt_(\d{1,24})$/.exec(text)?.[1];
  if (digits === undefined) return null;
  const number = BigInt(digits);
  return number > MAX_EVENT_NUMBER ? null : { text, number };
}

export function laterEvent(left: EventId | null, right: EventId | null): EventId | null {
  if (left === null || right === null) return left ?? right;
  return left.number >= right.number ? left : right;
}

export function earlierEvent(left: EventId, right: EventId): EventId {
  return left.number <= right.number ? left : right;
}

export const EVENT_TYPES = [
  'dataset.added',
  'dataset.updated',
  'dataset.schema_changed',
  'dataset.resync_required',
  'dataset.removed',
] as const;

export type EventType = (typeof EVENT_TYPES)[number];

export interface FeedEvent {
  readonly kind: 'event';
  readonly id: EventId;
  readonly type: EventType;
  readonly datasetId: string;
  readonly version: number | null;
  readonly previousVersion: number | null;
  readonly schemaVersion: string | null;
  readonly counts: Counts | null;
  readonly reason: string | null;
  readonly createdAt: Date | null;
}

/**
 * An event whose type is unknown or whose content does not decode. It never stops the log; where it names a
 * dataset, that dataset is looked at.
 */
export interface UnreadableEvent {
  readonly kind: 'unreadable';
  readonly id: EventId | null;
  readonly datasetId: string | null;
  /** What does not fit, with the path of the field; never the content itself. */
  readonly problem: string;
}
