/** Whether a dataset is behind, computed anew each time from what is wanted and what the destination has. Pure. */

import { announcedVersion, isLaterMark, type Reload, type Want } from '../../model/desired-state.ts';
import type { HeldDataset } from '../../model/write-jobs.ts';
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
  | 'look'
  | 'nothing';

/** The key of the resync that the table satisfies, among the reloads of subscriptions: no subscription has this id. */
export const OPERATOR = '';

/**
 * The most pressing need: the ones above make the ones below them moot. Without the history only what was announced is
 * known; with it, what was published.
 */
export function needOf(held: HeldDataset | null, want: Want, history: History | null = null): Need {
  if (held === null) return 'table';
  if (pendingReloads(held, want).length > 0) return 'reload';
  if (owesResync(held, want)) return 'resync';
  return needOfChanges(held, want, history);
}

/** What is needed of a table beside the reloads that are owed. */
export function needOfChanges(
  held: HeldDataset,
  want: Want,
  history: History | null,
): 'version' | 'schema' | 'look' | 'nothing' {
  if (held.version < targetOf(want, history)) return 'version';
  if (history === null) return owesLook(want) ? 'look' : 'nothing';
  return hasSchemaOfItsVersion(held, history) ? 'nothing' : 'schema';
}

/** The reloads that the table does not satisfy yet. */
export function pendingReloads(held: HeldDataset | null, { reloads }: Want): readonly Reload[] {
  return reloads.filter((reload) => !isSatisfied(reload, held));
}

/** Numbers of another log than the one that the reload is of are void. */
export function isSatisfied(reload: Reload, held: HeldDataset | null): boolean {
  const mark = held?.reloads.get(reload.subscriptionId);
  return mark !== undefined && !isLaterMark(reload, mark);
}

export function owesLook({ looksAsked, looksDone }: Want): boolean {
  return looksDone < looksAsked;
}

export function owesResync(held: HeldDataset | null, { resyncNumber }: Want): boolean {
  if (resyncNumber === 0) return false;
  return (held?.reloads.get(OPERATOR)?.eventNumber ?? 0n) < BigInt(resyncNumber);
}

/** Whether what was read for one serves the other, too: nothing was asked for that the service may not have known of yet. */
export function asksTheSame(left: Want, right: Want): boolean {
  return left === right || saidOf(left) === saidOf(right);
}

function saidOf({ members, reloads, looksAsked, resyncNumber }: Want): string {
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
  return JSON.stringify([ofMembers, ofReloads, looksAsked, resyncNumber]);
}

/** Whether every subscription that contains the dataset has told of this version, and so of all that happened before it. */
export function isAnnounced({ members }: Want, version: number): boolean {
  return [...members.values()].every(({ announced }) => (announced ?? -1) >= version);
}

/** The version to get to: the newest published one, but at least what was announced. Less than any version where nothing is known. */
function targetOf(want: Want, history: History | null): number {
  const head = history === null ? null : headOf(history);
  return Math.max(announcedVersion(want) ?? -1, head?.version ?? -1);
}

/** A table ahead of the list, or one of whose schema the service says nothing, has no other to have. */
function hasSchemaOfItsVersion(held: HeldDataset, history: History): boolean {
  const schemaVersion = schemaVersionAt(held.version, history);
  return schemaVersion === null || schemaVersion === held.schemaVersion;
}
