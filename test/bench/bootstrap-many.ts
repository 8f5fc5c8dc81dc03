import { bootstrapContest } from './bootstrap.ts';
import type { BenchCase } from './case.ts';
import { REQUESTS_PER_DATASET, THREE_THOUSAND_DATASETS } from './many-datasets.ts';

export const bootstrapMany: BenchCase = {
  name: 'bootstrap-many',
  what: 'first start with 3,000 datasets of 500 rows',
  reach: [{ measure: 'ratio', atMost: 1.2, moonshot: 1 }, REQUESTS_PER_DATASET],
  validate: (size, workspace) =>
    bootstrapContest(
      { recipe: THREE_THOUSAND_DATASETS[size], rawScript: 'raw/bootstrap-small.mjs' },
      workspace,
    ),
};
