/**
 * What the service has refused and what waits for a person's word, as far as it stands. Nothing is asked of the service
 * for what is held.
 */

import type { Checkpoint, Hold } from '../checkpoint/checkpoint.ts';
import type { Refusal, RefusalScope } from '../model/errors.ts';
import type { Parts } from './parts.ts';

export interface Holds {
  readonly workspace: Hold | null;
  /** Of tables that are to be retired, so many at once that a person has to agree. */
  readonly retirement: Hold | null;
  /** By subscription id. */
  readonly subscriptions: ReadonlyMap<string, Hold>;
  ofSubscription(subscriptionId: string): Hold | null;
  ofDataset(datasetId: string): Hold | null;
}

/** Reads the holds that stand. One of the workspace is lifted where the API key or the base URL is another than the refused one. */
export function standingHolds({ checkpoint, choices: { keyHash } }: Parts): Holds {
  let workspace: Hold | null = null;
  let retirement: Hold | null = null;
  const subscriptions = new Map<string, Hold>();
  const datasets = new Map<string, Hold>();
  for (const hold of checkpoint.holds()) {
    const { scope } = hold.refusal;
    if (scope.kind === 'subscription') subscriptions.set(scope.subscriptionId, hold);
    else if (scope.kind === 'dataset') datasets.set(scope.datasetId, hold);
    else if (scope.kind === 'retirement') retirement = hold;
    else if (!isLiftedByKey(checkpoint, hold, keyHash)) workspace = hold;
  }
  return {
    workspace,
    retirement,
    subscriptions,
    ofSubscription: (subscriptionId) => subscriptions.get(subscriptionId) ?? null,
    ofDataset: (datasetId) => datasets.get(datasetId) ?? null,
  };
}

export function storeHold({ checkpoint, choices: { keyHash }, clock }: Parts, refusal: Refusal): Hold {
  const hold = { refusal, heldAt: clock.now(), keyHash };
  checkpoint.hold(hold);
  return hold;
}

/**
 * What only held subscriptions hold is held with them, for what they say of it is not known: the hold of one of them,
 * or null. `members`: the subscriptions that hold the dataset.
 */
export function holdOfEveryMember(
  members: Iterable<string>,
  holdOf: (subscriptionId: string) => Hold | null,
): Hold | null {
  const ofMembers = [...members].map(holdOf);
  return ofMembers.every((hold) => hold !== null) ? (ofMembers[0] ?? null) : null;
}

/** Whether the hold is of this key at this base URL. An earlier version stored nothing of the base URL: there the key decides. */
export function isOfKey(hold: Hold, keyHash: string): boolean {
  const ofKeyAlone = !hold.keyHash.includes('/');
  return hold.keyHash === (ofKeyAlone ? keyHash.split('/', 1)[0] : keyHash);
}

function isLiftedByKey(checkpoint: Checkpoint, hold: Hold, keyHash: string): boolean {
  if (isOfKey(hold, keyHash)) return false;
  checkpoint.lift(hold.refusal.scope);
  return true;
}

export interface HoldStatus {
  readonly scope: RefusalScope['kind'];
  /** Of the subscription or the dataset; null for the other scopes. */
  readonly id: string | null;
  readonly operation: string;
  /** Null where it was no answer of the service: code and message are then feed-sync's own. */
  readonly status: number | null;
  readonly code: string | null;
  readonly message: string;
  readonly links: Readonly<Record<string, string>>;
  readonly since: string;
}

export function holdStatus({
  refusal: { scope, operation, status, code, message, links },
  heldAt,
}: Hold): HoldStatus {
  return {
    scope: scope.kind,
    id: idOf(scope),
    operation,
    status,
    code,
    message,
    links: Object.fromEntries(links),
    since: heldAt.toISOString(),
  };
}

function idOf(scope: RefusalScope): string | null {
  switch (scope.kind) {
    case 'subscription':
      return scope.subscriptionId;
    case 'dataset':
      return scope.datasetId;
    case 'workspace':
    case 'retirement':
      return null;
  }
}
