import type { BenchCase, Size } from './case.ts';
import { catchUpContest } from './catch-up.ts';
import type { Recipe } from './dataset-files.ts';
import type { Backlog } from './later-versions.ts';

const RECIPES: Readonly<Record<Size, Recipe>> = { full: recipe(100_000), quick: recipe(1_000) };
const BACKLOGS: Readonly<Record<Size, Backlog>> = {
  full: { versions: 600, changedRows: 20 },
  quick: { versions: 30, changedRows: 5 },
};

export const catchUpMany: BenchCase = {
  name: 'catch-up-many',
  what: 'catching up with 600 versions of 20 changed rows on 100,000 polygons',
  reach: [{ measure: 'seconds', atMost: 1.5, moonshot: 1 }],
  validate: (size, workspace) => catchUpContest(RECIPES[size], BACKLOGS[size], workspace),
};

function recipe(rowsPerDataset: number): Recipe {
  return { seed: 1, counties: 1, rowsPerDataset, kinds: ['parcels'], filesPerDataset: 1 };
}
