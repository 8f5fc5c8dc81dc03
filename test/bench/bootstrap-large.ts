import { bootstrapContest } from './bootstrap.ts';
import type { BenchCase, Size } from './case.ts';
import type { Recipe } from './dataset-files.ts';

const RECIPES: Readonly<Record<Size, Recipe>> = {
  full: recipe(2_000_000),
  quick: recipe(2_000),
};

export const bootstrapLarge: BenchCase = {
  name: 'bootstrap-large',
  what: 'first start with one dataset of 2 million polygons in 8 files',
  reach: [{ measure: 'ratio', atMost: 1.25, moonshot: 1.1 }],
  prepare: (size, workspace) => bootstrapContest(RECIPES[size], workspace, 'raw/bootstrap-large.mjs'),
};

function recipe(rowsPerDataset: number): Recipe {
  return { seed: 1, counties: 1, rowsPerDataset, kinds: ['parcels'], filesPerDataset: 8 };
}
