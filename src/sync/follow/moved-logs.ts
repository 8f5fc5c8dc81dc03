/**
 * The logs of a service that is at another address now. A copy that was restored from an older backup, or that has begun its
 * logs anew, has other events than were read: its positions are void. An operator says that the service has moved, so that one
 * reading confirms it; where nobody says so, two are needed, ten minutes apart.
 */

import type { ObservedState } from '../../destination/destination.ts';
import type { SubscriptionList } from '../../feed/feed.ts';
import type { Parts } from '../parts.ts';
import { currentSuspensions } from '../suspensions.ts';
import { adoptProgress } from './connect.ts';
import { type Listed, readSource, stepFromManifest } from './from-manifest.ts';
import { eventAtPosition, lacksKnownEvents } from './log-restart.ts';

/**
 * Takes each subscription from its manifest whose log is not the one that was read, and returns their ids. Nothing is asked
 * about a subscription that is suspended.
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
