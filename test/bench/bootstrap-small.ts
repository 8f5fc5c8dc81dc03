import { bootstrapContest } from './bootstrap.ts';
import type { BenchCase, Size } from './case.ts';
import type { Recipe } from './dataset-files.ts';

/** Parcels, permits and ordinances of every county: two kinds of geometry, and none. */
const RECIPES: Readonly<Record<Size, Recipe>> = {
  full: recipe(100, 500),
  quick: recipe(2, 50),
};

export const bootstrapSmall: BenchCase = {
  name: 'bootstrap-small',
  what: 'first start with 300 datasets of 500 rows',
  reach: [
    { measure: 'ratio', atMost: 2.5, moonshot: 1.5 },
    { measure: 'requestsPerDataset', atMost: 3 },
  ],
  prepare: (size, workspace) => bootstrapContest(RECIPES[size], workspace, 'raw/bootstrap-small.mjs'),
};

function recipe(counties: number, rowsPerDataset: number): Recipe {
  return {
    seed: 1,
    counties,
    rowsPerDataset,
    kinds: ['parcels', 'permits', 'ordinances'],
    filesPerDataset: 1,
  };
}
