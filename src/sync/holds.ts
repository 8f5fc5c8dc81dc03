/** What the service has refused, as far as it stands. Nothing is asked of the service for what is held. */

import type { Checkpoint, Hold } from '../checkpoint/checkpoint.ts';
import type { Refusal } from '../model/errors.ts';
import type { Parts } from './parts.ts';

export interface Holds {
  readonly workspace: Hold | null;
  ofSubscription(subscriptionId: string): Hold | null;
  ofDataset(datasetId: string): Hold | null;
}

/** Reads the holds that stand. One of the workspace is lifted where the API key is another than the refused one. */
export function standingHolds({ checkpoint, choices: { keyHash } }: Parts): Holds {
  const holds = checkpoint.holds().filter((hold) => !isLiftedByKey(checkpoint, hold, keyHash));
  return {
    workspace: holds.find(({ refusal }) => refusal.scope.kind === 'workspace') ?? null,
    ofSubscription: (subscriptionId) =>
      holds.find(
        ({ refusal: { scope } }) => scope.kind === 'subscription' && scope.subscriptionId === subscriptionId,
      ) ?? null,
    ofDataset: (datasetId) =>
      holds.find(({ refusal: { scope } }) => scope.kind === 'dataset' && scope.datasetId === datasetId) ??
      null,
  };
}

export function storeHold({ checkpoint, choices: { keyHash }, clock }: Parts, refusal: Refusal): Hold {
  const hold = { refusal, heldAt: clock.now(), keyHash };
  checkpoint.hold(hold);
  return hold;
}

function isLiftedByKey(
  checkpoint: Checkpoint,
  { refusal, keyHash: refusedKeyHash }: Hold,
  keyHash: string,
): boolean {
  if (refusal.scope.kind !== 'workspace' || refusedKeyHash === keyHash) return false;
  checkpoint.lift(refusal.scope);
  return true;
}
