/** The datasets of a catch-up, with what both stores know of each. */

import type { Held } from '../destination/destination.ts';
import { isChosenDataset } from './follow/selection.ts';
import { holdOfEveryMember, standingHolds } from './holds.ts';
import type { Parts } from './parts.ts';
import { needOf } from './plan/need.ts';
import type { Known } from './plan/state.ts';

/**
 * Whether something is to be done about it, as far as it is known without asking the service. What is held waits for a
 * person; what failed is tried again, if only to find that its failure is over.
 */
export function isBehind({ want, held, hold, failure }: Known): boolean {
  if (want.members.size === 0) return held !== null;
  return hold === null && (failure !== null || needOf(held, want) !== 'nothing');
}

/** The same dataset, as both stores know it by now. */
export function knownAgain({ want: before }: Known, held: Held, parts: Parts): Known {
  const { checkpoint } = parts;
  const { datasetId } = before;
  const want = checkpoint.want(datasetId) ?? before;
  const holds = standingHolds(parts);
  return {
    want,
    held: held.datasets.get(datasetId) ?? null,
    hold: holds.ofDataset(datasetId) ?? holdOfEveryMember(want.members.keys(), holds.ofSubscription),
    failure: checkpoint.failure(datasetId),
  };
}

/** One dataset; null where nothing is to be done about it: nobody wants it and it has no table, or it was not chosen. */
export function knownDataset(datasetId: string, held: Held, parts: Parts): Known | null {
  const { checkpoint, choices } = parts;
  const want = checkpoint.want(datasetId);
  const table = held.datasets.get(datasetId) ?? null;
  if (want === null || (want.members.size === 0 && table === null)) return null;
  if (!isChosenDataset(datasetId, choices.include, choices.exclude)) return null;
  return knownAgain({ want, held: table, hold: null, failure: null }, held, parts);
}

/**
 * Every chosen dataset that a subscription holds, and every chosen one that none holds and that still has a table, in
 * order of id: the order in which tables get their names.
 */
export function knownDatasets(parts: Parts, held: Held): readonly Known[] {
  const { checkpoint, choices, log } = parts;
  const holds = standingHolds(parts);
  const failures = checkpoint.failures();
  const wanted = [...checkpoint.wants().values()].filter(
    ({ datasetId, members }) => members.size > 0 || held.datasets.has(datasetId),
  );
  const chosen = wanted.filter(({ datasetId }) =>
    isChosenDataset(datasetId, choices.include, choices.exclude),
  );
  if (chosen.length === 0 && wanted.length > 0) {
    log.warn({ datasets: wanted.length }, 'datasets.include and datasets.exclude leave no dataset.');
  }
  return chosen
    .sort((left, right) => (left.datasetId < right.datasetId ? -1 : 1))
    .map((want) => ({
      want,
      held: held.datasets.get(want.datasetId) ?? null,
      hold: holds.ofDataset(want.datasetId) ?? holdOfEveryMember(want.members.keys(), holds.ofSubscription),
      failure: failures.get(want.datasetId) ?? null,
    }));
}
