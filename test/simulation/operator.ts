/** What a person does about holds. */

import type { Checkpoint, Suspension } from '../../src/checkpoint/checkpoint.ts';
import { keepCandidate } from '../../src/sync/candidates.ts';
import type { World } from './world.ts';

/** Has the service asked again about everything that is held; says what that was. */
export async function resumeAll({ installation }: World): Promise<string> {
  const { checkpoint } = await installation.parts();
  const suspensions = checkpoint.suspensions();
  for (const { refusal } of suspensions) checkpoint.lift(refusal.scope);
  return suspensions.length === 0 ? 'nothing was held' : `resumed ${suspensions.map(scopeOf).join(', ')}`;
}

/** Does about every hold what it takes: gives up what is gone for good, agrees to retirements, and resumes the rest. */
export async function settleHolds(world: World): Promise<number> {
  const { installation, feed, counters } = world;
  const { checkpoint } = await installation.parts();
  const suspensions = checkpoint.suspensions();
  for (const { refusal } of suspensions) {
    const { scope } = refusal;
    if (scope.kind === 'subscription' && !feed.store.subscriptions.has(scope.subscriptionId)) {
      forget(scope.subscriptionId, checkpoint, world);
      counters.add('person: forgets a subscription');
    } else if (scope.kind === 'retirement') {
      checkpoint.approveRetirements();
      counters.add('person: agrees to retirements');
    } else {
      checkpoint.lift(scope);
      counters.add('person: resumes');
    }
  }
  return suspensions.length + (await approveAll(world));
}

/** Approves all that waits; returns how many there were. */
export async function approveAll({ installation, counters }: World): Promise<number> {
  const parts = await installation.parts();
  const { checkpoint, clock } = parts;
  const candidates = checkpoint.candidates().filter(({ approvedAt }) => approvedAt === null);
  for (const candidate of candidates) {
    await keepCandidate({ ...candidate, approvedAt: clock.now() }, parts);
    counters.add('person: approves');
  }
  return candidates.length;
}

/**
 * Where a mirror belongs to none of the subscriptions that are there, nothing is touched and nothing is held: gives up
 * those it belongs to.
 */
export async function giveUpWhatIsGone(world: World): Promise<void> {
  const { installation, feed, counters } = world;
  const { checkpoint, destination } = await installation.parts();
  const { service } = await destination.has();
  const gone = (service?.subscriptionIds ?? []).filter((id) => !feed.store.subscriptions.has(id));
  for (const subscriptionId of gone) forget(subscriptionId, checkpoint, world);
  counters.add('person: gives up all that a mirror belongs to');
}

/** What only it held may go. */
function forget(subscriptionId: string, checkpoint: Checkpoint, world: World): void {
  checkpoint.forget(subscriptionId);
  world.forget(subscriptionId);
}

export function scopeOf({ refusal: { scope } }: Suspension): string {
  switch (scope.kind) {
    case 'dataset':
      return scope.datasetId;
    case 'subscription':
      return scope.subscriptionId;
    default:
      return scope.kind;
  }
}
