/**
 * Handles the logs of a service that has moved to another address. A copy that was restored from an older backup, or
 * that has restarted its logs, has other events than were read, so the positions are void. One reading confirms this
 * where an operator said that the service has moved; otherwise two readings ten minutes apart are needed.
 */

import type { ObservedState } from '../../destination/destination.ts';
import type { SubscriptionList } from '../../feed/feed.ts';
import type { Parts } from '../parts.ts';
import { currentSuspensions } from '../suspensions.ts';
import { adoptProgress } from './connect.ts';
import { type Listed, readSource, stepFromManifest } from './from-manifest.ts';
import { eventAtPosition, lacksKnownEvents } from './log-restart.ts';

/**
 * Takes each subscription whose log was replaced from its manifest, and returns their ids. The service is not asked
 * about suspended subscriptions.
 */
export async function takeMovedLogs(
  { subscriptions, readAt }: SubscriptionList,
  observed: ObservedState,
  parts: Parts,
  signal: AbortSignal,
): Promise<readonly string[]> {
  adoptProgress(observed, readAt, parts);
  const suspensions = currentSuspensions(parts);
  const taken: string[] = [];
  for (const record of subscriptions) {
    if (suspensions.ofSubscription(record.id) !== null) continue;
    if (await takeIfAnother({ record, readAt }, observed, parts, signal)) taken.push(record.id);
  }
  return taken;
}

async function takeIfAnother(
  listed: Listed,
  observed: ObservedState,
  parts: Parts,
  signal: AbortSignal,
): Promise<boolean> {
  const { checkpoint } = parts;
  const followed = checkpoint.followed().get(listed.record.id) ?? null;
  if (followed === null) return false;
  const desiredStates = checkpoint.desiredStates();
  const isOther = lacksKnownEvents(listed.record, followed, desiredStates, observed);
  if (!isOther) {
    const { there } = await eventAtPosition(followed, listed.readAt, parts, signal);
    if (there !== 'gone' && there !== 'other') return false;
  }
  const { source } = await readSource(listed, observed, parts, signal);
  checkpoint.commitFollowStep(
    stepFromManifest(source, { followed, isNewLog: true, desiredStates, observed }),
  );
  return true;
}
