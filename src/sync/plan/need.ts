/** Decides whether a dataset is behind, each time from the desired and the observed state alone. Pure. */

import { announcedVersion, type DesiredState, isLaterMark, type Reload } from '../../model/desired-state.ts';
import type { ObservedTable } from '../../model/write-jobs.ts';
import type { History } from './step.ts';
import { headOf } from './version-chain.ts';
import { schemaVersionAt } from './versions.ts';

export type Need =
  | 'table'
  /** A requested reload is not satisfied yet. */
  | 'reload'
  /** An operator asked for a resync. */
  | 'resync'
  /** A newer version is desired, or was published. */
  | 'version'
  /** The table has the version of the head, but another schema. */
  | 'schema'
  /** Versions and schemas must be read. */
  | 'refresh'
  | 'nothing';

/** The key of an operator's resync among the reloads of a table: no subscription has this id. */
export const OPERATOR = '';

/**
 * Returns the most pressing need; an earlier need makes the later ones moot. Without the history only announced
 * versions are known; with the history, published ones are, too.
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

/** Returns the need of a table apart from the reloads it owes. */
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

/** A number of another log than the reload's is void. */
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

/**
 * Whether data read for one state serves the other, too: nothing was requested in between that the service may not have
 * known yet.
 */
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

/** Whether every subscription that contains the dataset has announced this version, and so every earlier event. */
export function isAnnounced({ members }: DesiredState, version: number): boolean {
  return [...members.values()].every(({ announced }) => (announced ?? -1) >= version);
}

/**
 * Returns the target version: the newest published one, but at least the announced one. Returns a number below every
 * version where nothing is known.
 */
function targetOf(desired: DesiredState, history: History | null): number {
  const head = history === null ? null : headOf(history);
  return Math.max(announcedVersion(desired) ?? -1, head?.version ?? -1);
}

/** No other schema is expected of a table that is ahead of the list, or whose schema the service does not state. */
function hasSchemaOfItsVersion(observed: ObservedTable, history: History): boolean {
  const schemaVersion = schemaVersionAt(observed.version, history);
  return schemaVersion === null || schemaVersion === observed.schemaVersion;
}
