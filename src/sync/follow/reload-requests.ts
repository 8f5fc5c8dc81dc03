/** Asks for a reload of a dataset as of now, in the name of every subscription that contains the dataset and can be read. */

import { announcedVersion, type DesiredState, type DesiredStateChange } from '../../model/desired-state.ts';
import { type EventId, laterEvent } from '../../model/event.ts';
import { timeOf } from '../../model/manifest.ts';
import type { Subscription } from '../../model/records.ts';
import type { ObservedTable } from '../../model/write-jobs.ts';
import type { Parts } from '../parts.ts';
import { currentSuspensions } from '../suspensions.ts';
import { requestReloads } from './audit.ts';
import { readLog, type TableOf } from './read-log.ts';

export interface ReloadRequest {
  readonly datasetId: string;
  readonly isWithdrawal: boolean;
}

/**
 * Lists the subscriptions, because the newest event of each marks the time of the request. Reads a log to its head
 * where the record does not name its newest event, or names an unread one. Returns false where no subscription can be
 * asked.
 */
export async function askReload(
  { datasetId, isWithdrawal }: ReloadRequest,
  tableOf: TableOf,
  parts: Parts,
  signal: AbortSignal,
): Promise<boolean> {
  const { feed, checkpoint } = parts;
  const { subscriptions, readAt } = await feed.subscriptions(signal);
  const suspensions = currentSuspensions(parts);
  let isAsked = false;
  for (const record of subscriptions) {
    const before = checkpoint.followed().get(record.id);
    const isReadable = before !== undefined && suspensions.ofSubscription(record.id) === null;
    if (!isReadable || checkpoint.desired(datasetId)?.members.has(record.id) !== true) continue;
    if (!isReadUpTo(record, before.cursor)) {
      const { end } = await readLog(record, tableOf, parts, signal);
      if (end !== 'head') continue;
    }
    const followed = checkpoint.followed().get(record.id);
    const desired = checkpoint.desired(datasetId);
    if (followed === undefined || desired === null) continue;
    const newest = laterEvent(record.lastEventId, followed.cursor)?.number ?? null;
    const timestamp = { subscriptionId: record.id, logNumber: followed.logNumber, newest, readAt };
    requestReloads(record.id, [reloadAt(timestamp, desired, tableOf(datasetId), isWithdrawal)], parts);
    isAsked = true;
  }
  return isAsked;
}

/**
 * Returns whether the log was read up to the time at which the record was read. If it was not, or the record does not say, an
 * unread event may ask for a reload, too, and content that satisfies this request need not satisfy that one.
 */
export function isReadUpTo({ lastEventId }: Subscription, cursor: EventId | null): boolean {
  return lastEventId !== null && cursor !== null && lastEventId.number <= cursor.number;
}

/** A point in a subscription's log. */
interface ReloadTime {
  readonly subscriptionId: string;
  readonly logNumber: number;
  /** The newest event of the log at that time; null: none. */
  readonly newest: bigint | null;
  /** In service time. */
  readonly readAt: Date;
}

/**
 * Returns the reload as of that time. The reload comes after every reload that the table satisfies, after every earlier
 * request, also of a subscription that has left since, and after the dataset's joining, even where service time in
 * whole seconds does not distinguish them.
 */
export function reloadAt(
  timestamp: ReloadTime,
  desired: DesiredState,
  table: ObservedTable | null,
  isWithdrawal = false,
): DesiredStateChange {
  const { subscriptionId, logNumber, newest, readAt } = timestamp;
  const satisfied = table?.reloads.get(subscriptionId);
  const before = [
    ...(satisfied === undefined ? [] : [satisfied]),
    ...desired.reloads.filter((reload) => reload.subscriptionId === subscriptionId),
  ].filter((mark) => mark.logNumber === logNumber);
  const joined = desired.members.get(subscriptionId)?.eventNumber ?? 0n;
  const numbers = [newest ?? 0n, joined, ...before.map(({ eventNumber }) => eventNumber)];
  const left = desired.reloads.filter((reload) => !desired.members.has(reload.subscriptionId));
  const times = [
    timeOf(readAt).getTime(),
    ...before.map(({ createdAt }) => (createdAt?.getTime() ?? 0) + 1),
    ...left.map(({ createdAt }) => createdAt.getTime()),
  ];
  return {
    kind: 'reload',
    datasetId: desired.datasetId,
    version: null,
    logNumber,
    eventNumber: numbers.reduce((highest, number) => (number > highest ? number : highest)),
    createdAt: new Date(Math.max(...times)),
    readAt,
    knownVersion: Math.max(table?.version ?? 0, announcedVersion(desired) ?? 0),
    isWithdrawal,
  };
}
