/**
 * Which suspensions stand: what the service has refused, and what waits for an operator. Whoever plans, executes or
 * reports looks them up here. Nothing is asked of the service for anything that it refused.
 */

import type { Suspension } from '../checkpoint/checkpoint.ts';
import { present } from '../lib/assert.ts';
import type { Candidate } from '../model/candidate.ts';
import type { DesiredState } from '../model/desired-state.ts';
import type { Refusal, RefusalScope } from '../model/errors.ts';
import { suspensionOfCandidate } from './candidates.ts';
import type { Parts } from './parts.ts';

export interface Suspensions {
  readonly all: readonly Suspension[];
  readonly workspace: Suspension | null;
  /** The suspension of retirements: so many tables are to be retired at once that an operator has to agree. */
  readonly retirement: Suspension | null;
  /** By subscription id. */
  readonly subscriptions: ReadonlyMap<string, Suspension>;
  ofSubscription(subscriptionId: string): Suspension | null;
  /** Returns the dataset's own suspension. */
  ofDataset(datasetId: string): Suspension | null;
  /** Returns the dataset's own suspension, else that of one of its subscriptions where every one of them is suspended. */
  concerning(desired: Pick<DesiredState, 'datasetId' | 'members'>): Suspension | null;
}

/** Returns the suspensions that stand; one of the workspace is lifted where the API key or the base URL has changed since. */
export function currentSuspensions({ checkpoint, choices: { keyHash } }: Parts): Suspensions {
  const stored = checkpoint.suspensions();
  const candidates = checkpoint.candidates();
  const current = suspensionsAmong(stored, keyHash, candidates);
  if (current.all.length < stored.length + candidates.length) checkpoint.lift({ kind: 'workspace' });
  return current;
}

/**
 * Returns the suspensions that stand among those that are stored, and those of candidates; a lookup that lifts nothing. Null for `keyHash`:
 * the API key and the base URL are not known, and a suspension of the workspace counts whichever was refused.
 */
export function suspensionsAmong(
  stored: readonly Suspension[],
  keyHash: string | null,
  candidates: readonly Candidate[],
): Suspensions {
  let workspace: Suspension | null = null;
  let retirement: Suspension | null = null;
  const subscriptions = new Map<string, Suspension>();
  // A refusal of the service counts first: nothing is asked for such a dataset.
  const ofCandidates = candidates.map(suspensionOfCandidate);
  const datasets = new Map(
    candidates.map(({ datasetId }, index) => [datasetId, present(ofCandidates[index], 'one each')]),
  );
  for (const suspension of stored) {
    const { scope } = suspension.refusal;
    if (scope.kind === 'subscription') subscriptions.set(scope.subscriptionId, suspension);
    else if (scope.kind === 'dataset') datasets.set(scope.datasetId, suspension);
    else if (scope.kind === 'retirement') retirement = suspension;
    else if (keyHash === null || isOfKey(suspension, keyHash)) workspace = suspension;
  }
  const isStanding = (one: Suspension): boolean =>
    one === workspace || one.refusal.scope.kind !== 'workspace';
  const ofSubscription = (id: string): Suspension | null => subscriptions.get(id) ?? null;
  return {
    all: [...stored.filter(isStanding), ...ofCandidates],
    workspace,
    retirement,
    subscriptions,
    ofSubscription,
    ofDataset: (datasetId) => datasets.get(datasetId) ?? null,
    concerning: ({ datasetId, members }) =>
      datasets.get(datasetId) ?? suspensionOfEveryMember(members.keys(), ofSubscription),
  };
}

/** Returns a suspension where every subscription of the dataset has one: nobody then knows what is desired of it. */
function suspensionOfEveryMember(
  members: Iterable<string>,
  ofSubscription: Suspensions['ofSubscription'],
): Suspension | null {
  const ofMembers = [...members].map(ofSubscription);
  return ofMembers.every((suspension) => suspension !== null) ? (ofMembers[0] ?? null) : null;
}

/** Returns whether this key was refused at this base URL. An earlier version stored nothing of the base URL: there the key decides. */
function isOfKey(suspension: Suspension, keyHash: string): boolean {
  const ofKeyAlone = !suspension.keyHash.includes('/');
  return suspension.keyHash === (ofKeyAlone ? keyHash.split('/', 1)[0] : keyHash);
}

export function storeSuspension(
  { checkpoint, choices: { keyHash }, clock }: Parts,
  refusal: Refusal,
): Suspension {
  const suspension = { refusal, suspendedAt: clock.now(), keyHash };
  checkpoint.suspend(suspension);
  return suspension;
}

/** Names a scope for operators and logs: `dataset parcels`. */
export function nameOfScope(scope: RefusalScope): string {
  switch (scope.kind) {
    case 'workspace':
      return 'workspace';
    case 'retirement':
      return 'retirements';
    case 'subscription':
      return `subscription ${scope.subscriptionId}`;
    case 'dataset':
      return `dataset ${scope.datasetId}`;
  }
}
