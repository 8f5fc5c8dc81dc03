/** Reads the logs of the subscriptions that contain a dataset, for who has read something that they may not have told yet. */

import { standingHolds } from '../holds.ts';
import type { Parts } from '../parts.ts';
import { eventAtPosition, isAnyLogDoubted } from './log-restart.ts';
import { readLog, type TableOf } from './read-log.ts';

/**
 * Resolves to false where one of them cannot be read to its head now, or may have begun anew, so that it tells nothing of before.
 * One that is held says nothing more.
 */
export async function readLogsOf(
  datasetId: string,
  tableOf: TableOf,
  parts: Parts,
  signal: AbortSignal,
): Promise<boolean> {
  const { checkpoint } = parts;
  const holds = standingHolds(parts);
  const members = checkpoint.want(datasetId)?.members.keys() ?? [];
  for (const id of [...members].filter((each) => holds.ofSubscription(each) === null)) {
    const followed = checkpoint.followed().get(id);
    if (followed === undefined || isAnyLogDoubted([id], parts)) return false;
    const { there } = await eventAtPosition(followed, followed.auditedAt ?? followed.cursorAt, parts, signal);
    if (there === 'other' || there === 'gone') return false;
    const { end } = await readLog({ id, name: followed.name }, tableOf, parts, signal);
    if (end !== 'head') return false;
  }
  return true;
}
