/** Events of a subscription's log (the service's interface, Events), and the order of their ids. */

import type { Counts } from './records.ts';

/**
 * An event id: the service's text, and its sequence number. Numbers are compared as numbers (`evt_10` comes after `evt_9`) and
 * only within one subscription.
 */
export interface EventId {
  readonly text: string;
  readonly number: bigint;
}

/** The largest sequence number: the maximum of a 64-bit integer column. */
const MAX_EVENT_NUMBER = 2n ** 63n - 1n;

/** Returns null when the text is not `evt_` and a number of at most 64 bits. */
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
 * An event of unknown type or with invalid content. It never stops the log. The metadata of a dataset that it names is
 * refreshed.
 */
export interface UnreadableEvent {
  readonly kind: 'unreadable';
  readonly id: EventId | null;
  readonly datasetId: string | null;
  /** The violation with the path of the field, never with its content. */
  readonly problem: string;
}
