/**
 * A reload that no event asked for: found by an audit or in the list of versions, or owed to a subscription that has left.
 * It counts as asked for by the newest event of then, at that moment. Pure.
 */

import type { HeldDataset } from '../../destination/destination.ts';
import type { EventId } from '../../model/event.ts';
import type { Subscription } from '../../model/subscription.ts';
import { announcedVersion, type Want, type WantChange } from '../../model/want.ts';
import { momentOf } from '../../model/watermark.ts';

/**
 * Whether the log as it was read reaches the moment at which the record was read. Where it does not, or the record does not say,
 * an event that was not read may ask for a reload, too: other content that answers this one need not answer that.
 */
export function isReadUpTo({ lastEventId }: Subscription, cursor: EventId | null): boolean {
  return lastEventId !== null && cursor !== null && lastEventId.number <= cursor.number;
}

/** A moment of a subscription's log. */
export interface Moment {
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
  moment: Moment,
  want: Want,
  table: HeldDataset | null,
  isWithdrawal = false,
): WantChange {
  const { subscriptionId, logNumber, newest, readAt } = moment;
  const satisfied = table?.reloads.get(subscriptionId);
  const before = [
    ...(satisfied === undefined ? [] : [satisfied]),
    ...want.reloads.filter((reload) => reload.subscriptionId === subscriptionId),
  ].filter((mark) => mark.logNumber === logNumber);
  const joined = want.members.get(subscriptionId)?.eventNumber ?? 0n;
  const numbers = [newest ?? 0n, joined, ...before.map(({ eventNumber }) => eventNumber)];
  const left = want.reloads.filter((reload) => !want.members.has(reload.subscriptionId));
  const times = [
    momentOf(readAt).getTime(),
    ...before.map(({ createdAt }) => (createdAt?.getTime() ?? 0) + 1),
    ...left.map(({ createdAt }) => createdAt.getTime()),
  ];
  return {
    kind: 'reload',
    datasetId: want.datasetId,
    version: null,
    logNumber,
    eventNumber: numbers.reduce((highest, number) => (number > highest ? number : highest)),
    createdAt: new Date(Math.max(...times)),
    readAt,
    knownVersion: Math.max(table?.version ?? 0, announcedVersion(want) ?? 0),
    isWithdrawal,
  };
}
