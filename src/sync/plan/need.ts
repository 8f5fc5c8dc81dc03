/** Whether a dataset is behind, computed anew each time from what is wanted and what the destination has. Pure. */

import type { HeldDataset } from '../../destination/destination.ts';
import type { Want } from '../../model/want.ts';
import type { History } from './history.ts';
import { schemaVersionAt } from './schemas.ts';
import { headOf } from './walk.ts';

export type Need =
  /** There is no table. */
  | 'table'
  /** A reload event is not satisfied yet. */
  | 'reload'
  /** A person asked that the snapshot be loaded again. */
  | 'resync'
  /** A newer version is wanted, or was published. */
  | 'version'
  /** The table has the head's version, and another schema. */
  | 'schema'
  /** Versions and schemas are to be read. */
  | 'look'
  | 'nothing';

/**
 * The most pressing need: the ones above make the ones below them moot. Without the history only what was announced is
 * known; with it, what was published.
 */
export function needOf(held: HeldDataset | null, want: Want, history: History | null = null): Need {
  if (held === null) return 'table';
  if (pendingReloads(held, want).size > 0) return 'reload';
  if (owesResync(want)) return 'resync';
  if (held.version < targetOf(want, history)) return 'version';
  if (history === null) return owesLook(want) ? 'look' : 'nothing';
  return hasSchemaOfItsVersion(held, history) ? 'nothing' : 'schema';
}

/** By subscription id: the reload events that the table does not satisfy yet. */
export function pendingReloads(held: HeldDataset | null, want: Want): ReadonlyMap<string, bigint> {
  return new Map(
    [...want.reloadAfter].filter(([subscriptionId, eventNumber]) => {
      const satisfied = held?.reloads.get(subscriptionId);
      return satisfied === undefined || satisfied < eventNumber;
    }),
  );
}

export function owesLook({ looksAsked, looksDone }: Want): boolean {
  return looksDone < looksAsked;
}

export function owesResync({ resyncsAsked, resyncsDone }: Want): boolean {
  return resyncsDone < resyncsAsked;
}

/** Whether what was read for one serves the other, too: nothing was asked for that the service may not have known of yet. */
export function asksTheSame(left: Want, right: Want): boolean {
  return left === right || (saidOf(left) === saidOf(right) && owesResync(left) === owesResync(right));
}

function saidOf({ members, atLeastVersion, reloadAfter, looksAsked }: Want): string {
  return [[...members].join(' '), atLeastVersion, [...reloadAfter].join(' '), looksAsked].join('; ');
}

/** The version to get to: the newest published one, but at least what was announced. Less than any version where nothing is known. */
export function targetOf({ atLeastVersion }: Want, history: History | null): number {
  const head = history === null ? null : headOf(history);
  return Math.max(atLeastVersion ?? -1, head?.version ?? -1);
}

/** A table ahead of the list, or one of whose schema the service says nothing, has no other to have. */
function hasSchemaOfItsVersion(held: HeldDataset, history: History): boolean {
  const schemaVersion = schemaVersionAt(held.version, history);
  return schemaVersion === null || schemaVersion === held.schemaVersion;
}
