/** Judges whether the destination is still in the state that a job was planned from. Otherwise the plan is stale. Pure. */

import type { ReloadMark } from '../../model/desired-state.ts';
import type { ObservedTable, PlannedFrom } from '../../model/write-jobs.ts';

/** Guards jobs that replace or retire a whole table. */
export function isPlannedFrom(live: PlannedFrom | null, planned: PlannedFrom | null): boolean {
  if (live === null || planned === null) return live === planned;
  return (
    live.commitNumber === planned.commitNumber &&
    live.version === planned.version &&
    live.snapshotDigest === planned.snapshotDigest
  );
}

/** Guards changes, which build on every row of the table: nothing was committed to the table meanwhile. */
export function isSameTable(live: ObservedTable | null, planned: ObservedTable): live is ObservedTable {
  return (
    live !== null &&
    isPlannedFrom(live, planned) &&
    live.rowCount === planned.rowCount &&
    live.reloads.size === planned.reloads.size &&
    [...planned.reloads].every(([subscriptionId, mark]) => isSameMark(live.reloads.get(subscriptionId), mark))
  );
}

function isSameMark(mark: ReloadMark | undefined, other: ReloadMark): boolean {
  return mark?.logNumber === other.logNumber && mark.eventNumber === other.eventNumber;
}
