/** Whether a dataset is behind, computed anew each time from what is wanted and what the destination has. Pure. */

import type { HeldDataset } from '../destination/destination.ts';
import type { Want } from '../model/want.ts';

export type Need =
  /** There is no table. */
  | 'table'
  /** A reload event is not satisfied yet. */
  | 'reload'
  /** A newer version is wanted. */
  | 'version'
  /** Versions and schemas are to be read. */
  | 'look'
  | 'nothing';

/** The most pressing need: the ones above make the ones below them moot. */
export function needOf(held: HeldDataset | null, want: Want): Need {
  if (held === null) return 'table';
  if (pendingReloads(held, want).size > 0) return 'reload';
  if (want.atLeastVersion !== null && held.version < want.atLeastVersion) return 'version';
  return want.looksDone < want.looksAsked ? 'look' : 'nothing';
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
