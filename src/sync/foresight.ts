/** A workshop in which nothing is done: each step is noted and taken for done, so that the plan goes on from there. */

import { type ForeseenStep, foresee } from './foresee.ts';
import type { MakeWorkshop } from './work/workshop.ts';

export interface Foresight {
  readonly makeWorkshop: MakeWorkshop;
  /** By dataset id, in order: what would be carried out. Complete when the catch-up has ended. */
  readonly steps: ReadonlyMap<string, readonly ForeseenStep[]>;
}

export function foresight(): Foresight {
  const steps = new Map<string, readonly ForeseenStep[]>();
  return {
    steps,
    makeWorkshop: ({ choices, clock }) => ({
      async open() {},
      async carryOut(work, ground) {
        const { step, outcome } = foresee(work, ground, choices.removedDatasets, clock.now());
        const { datasetId } = ground.known.want;
        steps.set(datasetId, [...(steps.get(datasetId) ?? []), step]);
        return outcome;
      },
      async discard() {},
      async ended() {},
      async storeProgress() {},
    }),
  };
}
