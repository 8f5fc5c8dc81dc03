/** Whether a dataset is behind, computed anew each time from what is wanted and what the destination has. Pure. */

import { announcedVersion, type DesiredState, isLaterMark, type Reload } from '../../model/desired-state.ts';
import type { ObservedTable } from '../../model/write-jobs.ts';
import type { History } from './step.ts';
import { headOf } from './version-chain.ts';
import { schemaVersionAt } from './versions.ts';

export type Need =
  /** There is no table. */
  | 'table'
  /** A reload that was asked for is not answered yet. */
  | 'reload'
  /** An operator asked that the snapshot be loaded again. */
  | 'resync'
  /** A newer version is wanted, or was published. */
  | 'version'
  /** The table has the head's version, and another schema. */
  | 'schema'
  /** Versions and schemas are to be read. */
  | 'refresh'
  | 'nothing';

/** The key of the resync that the table satisfies, among the reloads of subscriptions: no subscription has this id. */
export const OPERATOR = '';

/**
 * The most pressing need: the ones above make the ones below them moot. Without the history only what was announced is
 * known; with it, what was published.
 */
export function needOf(
  observed: ObservedTable | null,
  desired: DesiredState,
  history: History | null = null,
): Need {
  if (observed === null) return 'table';
  if (pendingReloads(observed, desired).length > 0) return 'reload';
  if (owesResync(observed, desired)) return 'resync';
  return needOfChanges(observed, desired, history);
}

/** What is needed of a table beside the reloads that are owed. */
export function needOfChanges(
  observed: ObservedTable,
  desired: DesiredState,
  history: History | null,
): 'version' | 'schema' | 'refresh' | 'nothing' {
  if (observed.version < targetOf(desired, history)) return 'version';
  if (history === null) return isRefreshPending(desired) ? 'refresh' : 'nothing';
  return hasSchemaOfItsVersion(observed, history) ? 'nothing' : 'schema';
}

/** The reloads that the table does not satisfy yet. */
export function pendingReloads(observed: ObservedTable | null, { reloads }: DesiredState): readonly Reload[] {
  return reloads.filter((reload) => !isSatisfied(reload, observed));
}

/** Numbers of another log than the one that the reload is of are void. */
export function isSatisfied(reload: Reload, observed: ObservedTable | null): boolean {
  const mark = observed?.reloads.get(reload.subscriptionId);
  return mark !== undefined && !isLaterMark(reload, mark);
}

export function isRefreshPending({ refreshesRequested, refreshesDone }: DesiredState): boolean {
  return refreshesDone < refreshesRequested;
}

export function owesResync(observed: ObservedTable | null, { resyncNumber }: DesiredState): boolean {
  if (resyncNumber === 0) return false;
  return (observed?.reloads.get(OPERATOR)?.eventNumber ?? 0n) < BigInt(resyncNumber);
}

/** Whether what was read for one serves the other, too: nothing was asked for that the service may not have known of yet. */
export function asksTheSame(left: DesiredState, right: DesiredState): boolean {
  return left === right || saidOf(left) === saidOf(right);
}

function saidOf({ members, reloads, refreshesRequested, resyncNumber }: DesiredState): string {
  const ofMembers = [...members].map(([id, { eventNumber, announced }]) => [
    id,
    String(eventNumber),
    announced,
  ]);
  const ofReloads = reloads.map(({ subscriptionId, eventNumber, createdAt }) => [
    subscriptionId,
    String(eventNumber),
    createdAt.getTime(),
  ]);
  return JSON.stringify([ofMembers, ofReloads, refreshesRequested, resyncNumber]);
}

/** Whether every subscription that contains the dataset has told of this version, and so of all that happened before it. */
export function isAnnounced({ members }: DesiredState, version: number): boolean {
  return [...members.values()].every(({ announced }) => (announced ?? -1) >= version);
}

/** The version to get to: the newest published one, but at least what was announced. Less than any version where nothing is known. */
function targetOf(desired: DesiredState, history: History | null): number {
  const head = history === null ? null : headOf(history);
  return Math.max(announcedVersion(desired) ?? -1, head?.version ?? -1);
}

/** A table ahead of the list, or one of whose schema the service says nothing, has no other to have. */
function hasSchemaOfItsVersion(observed: ObservedTable, history: History): boolean {
  const schemaVersion = schemaVersionAt(observed.version, history);
  return schemaVersion === null || schemaVersion === observed.schemaVersion;
}
