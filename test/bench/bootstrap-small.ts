import { bootstrapContest } from './bootstrap.ts';
import type { BenchCase, Size } from './case.ts';
import type { Recipe } from './dataset-files.ts';
import { manyDatasets, REQUESTS_PER_DATASET } from './many-datasets.ts';

/** Three datasets of each of a hundred counties. */
export const THREE_HUNDRED_DATASETS: Readonly<Record<Size, Recipe>> = {
  full: manyDatasets(100, 500),
  quick: manyDatasets(2, 50),
};

/** The small sibling of bootstrap-many: the same work in a tenth of the time. */
export const bootstrapSmall: BenchCase = {
  name: 'bootstrap-small',
  what: 'first start with 300 datasets of 500 rows',
  reach: [{ measure: 'ratio', atMost: 1.2, moonshot: 1 }, REQUESTS_PER_DATASET],
  validate: (size, workspace) =>
    bootstrapContest(
      { recipe: THREE_HUNDRED_DATASETS[size], rawScript: 'raw/bootstrap-small.mjs' },
      workspace,
    ),
};
