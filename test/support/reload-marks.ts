/** Reload events that a table satisfies, where only their numbers matter: of the first log, created nobody knows when. */

import type { ReloadMark } from '../../src/model/desired-state.ts';

/** By subscription id. */
export function reloadMarks(
  numbers: Iterable<readonly [subscriptionId: string, eventNumber: bigint]>,
): ReadonlyMap<string, ReloadMark> {
  return new Map(
    [...numbers].map(([subscriptionId, eventNumber]) => {
      return [subscriptionId, { logNumber: 1, eventNumber, createdAt: null }] as const;
    }),
  );
}
