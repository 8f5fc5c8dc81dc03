/** Which datasets `verify` compares, and with what: by what is stored about them. Pure. */

import type { Hold } from '../../checkpoint/checkpoint.ts';
import type { Configuration } from '../../configuration/configuration.ts';
import type { Held } from '../../destination/destination.ts';
import type { RememberedContract } from '../../model/contract.ts';
import { UsageError } from '../../model/errors.ts';
import type { Want } from '../../model/want.ts';
import { isChosenDataset } from '../../sync/follow/selection.ts';
import { holdOfEveryMember, isOfKey } from '../../sync/holds.ts';
import { keyHashOf } from '../key-hash.ts';
import { tellUnknown } from '../unknown-ids.ts';
import type { Standing } from './view.ts';

/** What the checkpoint says. Without one, every dataset of the mirror is taken for followed. */
export interface Stored {
  /** Null where no subscription was ever followed: nothing is known of who wants what. */
  readonly wants: ReadonlyMap<string, Want> | null;
  readonly holds: readonly Hold[];
  /** Subscriptions that a person gave up and that the mirror may name still. */
  readonly forgotten: readonly string[];
  readonly contract: RememberedContract;
}

/** All that is in the mirror or wanted, or those of it that were named. @throws UsageError for one that is neither. */
export function chooseDatasets(
  named: readonly string[],
  { datasets }: Held,
  { wants }: Stored,
  configuration: Configuration,
): readonly string[] {
  const wanted = [...(wants?.values() ?? [])]
    .filter(({ members }) => members.size > 0)
    .map(({ datasetId }) => datasetId);
  const known = [...new Set([...datasets.keys(), ...wanted])].sort();
  if (named.length > 0) {
    refuseUnknown(named, known);
    return [...new Set(named)].sort();
  }
  return known.filter((id) => datasets.has(id) || isChosen(id, configuration));
}

/** @throws UsageError */
function refuseUnknown(named: readonly string[], known: readonly string[]): void {
  const unknown = named.filter((id) => !known.includes(id));
  if (unknown.length === 0) return;
  throw new UsageError(`Neither in the mirror nor wanted: ${tellUnknown(unknown, known)}.`, {
    hint: 'feed-sync status lists the datasets.',
  });
}

export function standingOf(
  datasetId: string,
  { wants, holds }: Stored,
  configuration: Configuration,
): Standing {
  const members = [...(wants?.get(datasetId)?.members.keys() ?? [])];
  if (wants !== null && members.length === 0) {
    const isApprovalAwaited = holds.some(({ refusal }) => refusal.scope.kind === 'retirement');
    return { kind: 'not-wanted', isApprovalAwaited };
  }
  if (!isChosen(datasetId, configuration)) return { kind: 'left-out' };
  const hold = holdOf(datasetId, holds) ?? holdOfEveryMember(members, (id) => holdOfSubscription(id, holds));
  return hold === null ? { kind: 'followed' } : { kind: 'held', hold };
}

function holdOf(datasetId: string, holds: readonly Hold[]): Hold | null {
  return (
    holds.find(({ refusal: { scope } }) => scope.kind === 'dataset' && scope.datasetId === datasetId) ?? null
  );
}

function holdOfSubscription(subscriptionId: string, holds: readonly Hold[]): Hold | null {
  const isOfIt = ({ refusal: { scope } }: Hold): boolean =>
    scope.kind === 'subscription' && scope.subscriptionId === subscriptionId;
  return holds.find(isOfIt) ?? null;
}

/** That of another key or base URL stands no more. */
export function workspaceHoldOf({ holds }: Stored, { service }: Configuration): Hold | null {
  const keyHash = keyHashOf(service);
  return holds.find((hold) => hold.refusal.scope.kind === 'workspace' && isOfKey(hold, keyHash)) ?? null;
}

function isChosen(datasetId: string, { datasets }: Configuration): boolean {
  return isChosenDataset(datasetId, datasets.include, datasets.exclude);
}
