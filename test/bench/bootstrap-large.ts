import { bootstrapContest } from './bootstrap.ts';
import type { BenchCase } from './case.ts';
import { TWO_MILLION_POLYGONS } from './large-dataset.ts';

export const bootstrapLarge: BenchCase = {
  name: 'bootstrap-large',
  what: 'first start with one dataset of 2 million polygons in 8 files',
  reach: [{ measure: 'ratio', atMost: 1.25, moonshot: 1.1 }],
  validate: (size, workspace) =>
    bootstrapContest({ recipe: TWO_MILLION_POLYGONS[size], rawScript: 'raw/bootstrap-large.mjs' }, workspace),
};
