/** Asks for a reload of a dataset at this moment, in the name of every subscription that contains it and can be read. */

import { laterEvent } from '../../model/event.ts';
import { standingHolds } from '../holds.ts';
import type { Parts } from '../parts.ts';
import { isReadUpTo, reloadAt } from './moment.ts';
import { readLog, type TableOf } from './read-log.ts';
import { wantUnasked } from './want-unasked.ts';

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
  const holds = standingHolds(parts);
  let isAsked = false;
  for (const record of subscriptions) {
    const before = checkpoint.followed().get(record.id);
    const isReadable = before !== undefined && holds.ofSubscription(record.id) === null;
    if (!isReadable || checkpoint.want(datasetId)?.members.has(record.id) !== true) continue;
    if (!isReadUpTo(record, before.cursor)) {
      const { end } = await readLog(record, tableOf, parts, signal);
      if (end !== 'head') continue;
    }
    const followed = checkpoint.followed().get(record.id);
    const want = checkpoint.want(datasetId);
    if (followed === undefined || want === null) continue;
    const newest = laterEvent(record.lastEventId, followed.cursor)?.number ?? null;
    const moment = { subscriptionId: record.id, logNumber: followed.logNumber, newest, readAt };
    wantUnasked(record.id, [reloadAt(moment, want, tableOf(datasetId), isWithdrawal)], parts);
    isAsked = true;
  }
  return isAsked;
}
