/**
 * What the service has refused and what waits for a person's word, as far as it stands. Nothing is asked of the service
 * for what is held.
 */

import type { Checkpoint, Suspension } from '../checkpoint/checkpoint.ts';
import type { Refusal, RefusalScope } from '../model/errors.ts';
import type { Parts } from './parts.ts';

export interface Suspensions {
  readonly workspace: Suspension | null;
  /** Of tables that are to be retired, so many at once that a person has to agree. */
  readonly retirement: Suspension | null;
  /** By subscription id. */
  readonly subscriptions: ReadonlyMap<string, Suspension>;
  ofSubscription(subscriptionId: string): Suspension | null;
  ofDataset(datasetId: string): Suspension | null;
}

/** Reads the holds that stand. One of the workspace is lifted where the API key or the base URL is another than the refused one. */
export function currentSuspensions({ checkpoint, choices: { keyHash } }: Parts): Suspensions {
  let workspace: Suspension | null = null;
  let retirement: Suspension | null = null;
  const subscriptions = new Map<string, Suspension>();
  const datasets = new Map<string, Suspension>();
  for (const suspension of checkpoint.suspensions()) {
    const { scope } = suspension.refusal;
    if (scope.kind === 'subscription') subscriptions.set(scope.subscriptionId, suspension);
    else if (scope.kind === 'dataset') datasets.set(scope.datasetId, suspension);
    else if (scope.kind === 'retirement') retirement = suspension;
    else if (!isLiftedByKey(checkpoint, suspension, keyHash)) workspace = suspension;
  }
  return {
    workspace,
    retirement,
    subscriptions,
    ofSubscription: (subscriptionId) => subscriptions.get(subscriptionId) ?? null,
    ofDataset: (datasetId) => datasets.get(datasetId) ?? null,
  };
}

export function storeSuspension(
  { checkpoint, choices: { keyHash }, clock }: Parts,
  refusal: Refusal,
): Suspension {
  const suspension = { refusal, suspendedAt: clock.now(), keyHash };
  checkpoint.suspend(suspension);
  return suspension;
}

/**
 * What only held subscriptions hold is held with them, for what they say of it is not known: the hold of one of them,
 * or null. `members`: the subscriptions that contain the dataset.
 */
export function suspensionOfEveryMember(
  members: Iterable<string>,
  suspensionOf: (subscriptionId: string) => Suspension | null,
): Suspension | null {
  const ofMembers = [...members].map(suspensionOf);
  return ofMembers.every((suspension) => suspension !== null) ? (ofMembers[0] ?? null) : null;
}

/** Whether the hold is of this key at this base URL. An earlier version stored nothing of the base URL: there the key decides. */
export function isOfKey(suspension: Suspension, keyHash: string): boolean {
  const ofKeyAlone = !suspension.keyHash.includes('/');
  return suspension.keyHash === (ofKeyAlone ? keyHash.split('/', 1)[0] : keyHash);
}

function isLiftedByKey(checkpoint: Checkpoint, suspension: Suspension, keyHash: string): boolean {
  if (isOfKey(suspension, keyHash)) return false;
  checkpoint.lift(suspension.refusal.scope);
  return true;
}

export interface SuspensionStatus {
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

export function suspensionStatus({
  refusal: { scope, operation, status, code, message, links },
  suspendedAt,
}: Suspension): SuspensionStatus {
  return {
    scope: scope.kind,
    id: idOf(scope),
    operation,
    status,
    code,
    message,
    links: Object.fromEntries(links),
    since: suspendedAt.toISOString(),
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
