import type { BenchCase, Size } from './case.ts';
import { catchUpContest } from './catch-up.ts';
import type { Recipe } from './dataset-files.ts';
import type { Backlog } from './later-versions.ts';

const RECIPES: Readonly<Record<Size, Recipe>> = { full: recipe(2_000_000), quick: recipe(2_000) };
const BACKLOGS: Readonly<Record<Size, Backlog>> = {
  full: { versions: 50, changedRows: 10_000 },
  quick: { versions: 5, changedRows: 100 },
};

export const catchUpLarge: BenchCase = {
  name: 'catch-up-large',
  what: 'catching up with 50 versions of 10,000 changed rows on 2 million polygons',
  reach: [{ measure: 'ratio', atMost: 1.5, moonshot: 1 }],
  prepare: (size, workspace) => catchUpContest(RECIPES[size], BACKLOGS[size], workspace),
};

function recipe(rowsPerDataset: number): Recipe {
  return { seed: 1, counties: 1, rowsPerDataset, kinds: ['parcels'], filesPerDataset: 8 };
}
