/** Asks for a reload of a dataset at this moment, in the name of every subscription that contains it and can be read. */

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
 * The subscriptions are listed now, because the newest event of each stands for this moment; where a record does not name
 * it, or one that was not read, the log is read to its head. False where none can be asked.
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
 * Whether the log as it was read reaches the moment at which the record was read. Where it does not, or the record does not say,
 * an event that was not read may ask for a reload, too: other content that answers this one need not answer that.
 */
export function isReadUpTo({ lastEventId }: Subscription, cursor: EventId | null): boolean {
  return lastEventId !== null && cursor !== null && lastEventId.number <= cursor.number;
}

/** A moment of a subscription's log. */
interface ReloadTime {
  readonly subscriptionId: string;
  readonly logNumber: number;
  /** The newest event of the log then; null: it has none. */
  readonly newest: bigint | null;
  /** In service time. */
  readonly readAt: Date;
}

/**
 * The reload as asked for at the moment. Whatever the table satisfies, whatever was asked for before, also by a subscription
 * that has left since, and that the dataset joined, came before it: also where service time, which has whole seconds, does not
 * tell the two apart.
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
