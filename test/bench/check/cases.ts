/** The few small cases whose ratios are watched: together they take about a minute on two cores. */

import { bootstrapContest } from '../bootstrap.ts';
import type { BenchCase } from '../case.ts';
import { catchUpContest } from '../catch-up.ts';
import { polygons } from '../large-dataset.ts';
import { manyDatasets } from '../many-datasets.ts';
import { nothingNewContest } from '../nothing-new.ts';

export const CHECKED_CASES: readonly BenchCase[] = [
  {
    name: 'many-datasets',
    what: 'first start with 39 datasets of 500 rows',
    reach: [],
    validate: (_, workspace) =>
      bootstrapContest({ recipe: manyDatasets(13, 500), rawScript: 'raw/bootstrap-small.mjs' }, workspace),
  },
  {
    name: 'large-dataset',
    what: 'first start with 200,000 polygons in 8 files',
    reach: [],
    validate: (_, workspace) =>
      bootstrapContest({ recipe: polygons(200_000), rawScript: 'raw/bootstrap-large.mjs' }, workspace),
  },
  {
    name: 'changes',
    what: 'catching up with 10 versions of 1,000 changed rows on 200,000 polygons',
    reach: [],
    validate: (_, workspace) =>
      catchUpContest(polygons(200_000), { versions: 10, changedRows: 1_000 }, workspace),
  },
  {
    name: 'versions',
    what: 'catching up with 60 versions of 20 changed rows on 20,000 polygons',
    reach: [],
    validate: (_, workspace) =>
      catchUpContest(polygons(20_000), { versions: 60, changedRows: 20 }, workspace),
  },
  {
    name: 'nothing-new',
    what: 'catching up with nothing new in 39 datasets, beside a reading of their versions',
    reach: [],
    validate: (_, workspace) => nothingNewContest(manyDatasets(13, 500), workspace),
  },
];
