/** What a stored refusal keeps from being asked. Pure. */

import type { Hold } from '../../checkpoint/checkpoint.ts';
import type { Configuration } from '../../configuration/configuration.ts';
import { isOfKey } from '../../sync/holds.ts';
import { keyHashOf } from '../key-hash.ts';
import type { Remembered } from './check.ts';

/** The refusal of the workspace that stands; that of another key or base URL does so no more. Null where there is none. */
export function workspaceHold(
  checkpoint: Remembered | null,
  configuration: Configuration | null,
): Hold | null {
  const keyHash = configuration === null ? null : keyHashOf(configuration.service);
  const isOfThisKey = (hold: Hold): boolean => keyHash === null || isOfKey(hold, keyHash);
  return (
    checkpoint?.holds.find((hold) => hold.refusal.scope.kind === 'workspace' && isOfThisKey(hold)) ?? null
  );
}

export function isSubscriptionHeld(checkpoint: Remembered | null, subscriptionId: string): boolean {
  return (checkpoint?.holds ?? []).some(
    ({ refusal: { scope } }) => scope.kind === 'subscription' && scope.subscriptionId === subscriptionId,
  );
}

export function isDatasetHeld(checkpoint: Remembered | null, datasetId: string): boolean {
  return (checkpoint?.holds ?? []).some(
    ({ refusal: { scope } }) => scope.kind === 'dataset' && scope.datasetId === datasetId,
  );
}
