import type { BenchCase } from './case.ts';
import { catchUpContest } from './catch-up.ts';
import { THREE_THOUSAND_DATASETS } from './many-datasets.ts';

export const updateMany: BenchCase = {
  name: 'update-many',
  what: 'one version of 5 changed rows for each of 3,000 datasets',
  reach: [{ measure: 'seconds', atMost: 60, moonshot: 45 }],
  fewRuns: 3,
  validate: (size, workspace) =>
    catchUpContest(THREE_THOUSAND_DATASETS[size], { versions: 1, changedRows: 5 }, workspace),
};
