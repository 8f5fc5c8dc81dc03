/** Commits units through the port, and gives their outcomes in the order of the units. */

import type { Destination, Outcome, Prepared } from '../../src/destination/destination.ts';

export async function commitAll(
  destination: Pick<Destination, 'commit'>,
  units: readonly Prepared[],
): Promise<readonly Outcome[]> {
  const outcomes = new Map<Prepared, Outcome>();
  let waiting = units;
  await destination.commit({
    take() {
      const taken = waiting;
      waiting = [];
      return taken;
    },
    arrival: () => new Promise(() => {}),
    tell(unit, outcome) {
      if (outcomes.has(unit)) throw new Error(`${unit.unit.datasetId} was told twice what became of it`);
      outcomes.set(unit, outcome);
    },
  });
  return units.map((unit) => {
    const outcome = outcomes.get(unit);
    if (outcome === undefined) throw new Error(`${unit.unit.datasetId} was not told what became of it`);
    return outcome;
  });
}
