/** What a workspace of the size that is promised has: parcels, permits and ordinances of a thousand counties. */

import type { Goal, Size } from './case.ts';
import type { Recipe } from './dataset-files.ts';

export const THREE_THOUSAND_DATASETS: Readonly<Record<Size, Recipe>> = {
  full: manyDatasets(1_000, 500),
  quick: manyDatasets(3, 50),
};

/** Its versions and its schemas, and the few requests of every start; beside the files. */
export const REQUESTS_PER_DATASET: Goal = { measure: 'requestsPerDataset', atMost: 2.05 };

/** Two kinds of geometry, and none; three datasets of each county. */
export function manyDatasets(counties: number, rowsPerDataset: number): Recipe {
  return {
    seed: 1,
    counties,
    rowsPerDataset,
    kinds: ['parcels', 'permits', 'ordinances'],
    filesPerDataset: 1,
  };
}
