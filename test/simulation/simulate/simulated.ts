/** How histories are simulated: on the model stage, which takes milliseconds, so they are long and many. */

import { modelStage } from '../model/model-stage.ts';
import type { Play } from '../play.ts';

export const SIMULATED: Play = {
  extent: {
    fewestSteps: 20,
    mostSteps: 25,
    fewestFaults: 3,
    shareOfCatchUps: 0.3,
    shareOfCalm: 0.05,
    rowsPerDataset: 5,
  },
  makeStage: modelStage,
  commandFor: (seed) => `npm run simulate -- --seed ${seed} --histories 1`,
};
