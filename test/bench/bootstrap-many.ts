import { bootstrapContest } from './bootstrap.ts';
import type { BenchCase } from './case.ts';
import { THREE_THOUSAND_DATASETS } from './many-datasets.ts';

export const bootstrapMany: BenchCase = {
  name: 'bootstrap-many',
  what: 'first start with 3,000 datasets of 500 rows',
  reach: [
    { measure: 'ratio', atMost: 2.5, moonshot: 1.5 },
    { measure: 'requestsPerDataset', atMost: 3 },
  ],
  validate: (size, workspace) =>
    bootstrapContest(
      { recipe: THREE_THOUSAND_DATASETS[size], rawScript: 'raw/bootstrap-small.mjs' },
      workspace,
    ),
};
