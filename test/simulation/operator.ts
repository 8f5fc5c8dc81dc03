/** An operator's actions about suspensions. */

import type { Checkpoint, Suspension } from '../../src/checkpoint/checkpoint.ts';
import { keepCandidate } from '../../src/sync/candidates.ts';
import type { World } from './world.ts';

/** Lifts every suspension, so that the service is asked again; returns a description. */
export async function resumeAll({ installation }: World): Promise<string> {
  const { checkpoint } = await installation.parts();
  const suspensions = checkpoint.suspensions();
  for (const { refusal } of suspensions) checkpoint.lift(refusal.scope);
  return suspensions.length === 0
    ? 'nothing was suspended'
    : `resumed ${suspensions.map(scopeOf).join(', ')}`;
}

/** Settles every suspension: forgets subscriptions that are gone, approves retirements, and resumes the rest. */
export async function settleSuspensions(world: World): Promise<number> {
  const { installation, feed, counters } = world;
  const { checkpoint } = await installation.parts();
  const suspensions = checkpoint.suspensions();
  for (const { refusal } of suspensions) {
    const { scope } = refusal;
    if (scope.kind === 'subscription' && !feed.store.subscriptions.has(scope.subscriptionId)) {
      forget(scope.subscriptionId, checkpoint, world);
      counters.add('operator: forgets a subscription');
    } else if (scope.kind === 'retirement') {
      checkpoint.approveRetirements();
      counters.add('operator: approves retirements');
    } else {
      checkpoint.lift(scope);
      counters.add('operator: resumes');
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
    counters.add('operator: approves');
  }
  return candidates.length;
}

/**
 * Where a mirror belongs to none of the subscriptions that are there,  nothing is touched or suspended: forgets
 * those it belongs to.
 */
export async function forgetWhatIsGone(world: World): Promise<void> {
  const { installation, feed, counters } = world;
  const { checkpoint, destination } = await installation.parts();
  const { service } = await destination.has();
  const gone = (service?.subscriptionIds ?? []).filter((id) => !feed.store.subscriptions.has(id));
  for (const subscriptionId of gone) forget(subscriptionId, checkpoint, world);
  counters.add('operator: forgets all that a mirror belongs to');
}

/** Tables of its former members may retire. */
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
