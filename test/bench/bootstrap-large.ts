import { bootstrapContest } from './bootstrap.ts';
import type { BenchCase } from './case.ts';
import { TWO_MILLION_POLYGONS } from './large-dataset.ts';

const RAW_SCRIPT = 'raw/bootstrap-large.mjs';

export const bootstrapLarge: BenchCase = {
  name: 'bootstrap-large',
  what: 'first start with one dataset of 2 million polygons in 8 files',
  reach: [{ measure: 'ratio', atMost: 1.25, moonshot: 1.1 }],
  validate: (size, workspace) =>
    bootstrapContest({ recipe: TWO_MILLION_POLYGONS[size], rawScript: RAW_SCRIPT }, workspace),
};

/** The program loads without order, too; a load that keeps it writes such tables twice. */
export const bootstrapUnordered: BenchCase = {
  name: 'bootstrap-unordered',
  what: `${bootstrapLarge.what}, beside raw DuckDB that does not keep the order of rows either`,
  reach: [
    { measure: 'ratio', atMost: 1, moonshot: 0.9 },
    { measure: 'mirrorMegabytesRatio', atMost: 1.1, moonshot: 1 },
  ],
  validate: (size, workspace) =>
    bootstrapContest(
      { recipe: TWO_MILLION_POLYGONS[size], rawScript: RAW_SCRIPT, rawValues: ['unordered'] },
      workspace,
    ),
};
