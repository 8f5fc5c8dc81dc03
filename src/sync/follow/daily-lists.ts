/**
 * Every list of versions is read once a day, each at a time of day of its own: a version that began anew under its number
 * without an event is told by nothing else where the manifest states no digest. Pure.
 */

import { createHash } from 'node:crypto';

const DAY_MS = 86_400_000;

/** Whether the dataset's time of day lies between two audits of a subscription that contains it. Null: there was none before. */
export function isListDue(datasetId: string, before: Date | null, now: Date): boolean {
  if (before === null) return false;
  const offsetMs = createHash('sha256').update(datasetId).digest().readUInt32BE(0) % DAY_MS;
  const dayOf = (at: Date): number => Math.floor((at.getTime() + offsetMs) / DAY_MS);
  return dayOf(before) !== dayOf(now);
}
