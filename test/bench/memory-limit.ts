import { bootstrapContest } from './bootstrap.ts';
import type { BenchCase, Size } from './case.ts';
import type { Recipe } from './dataset-files.ts';
import { polygons } from './large-dataset.ts';

/** Each of the files repeats what the generator wrote for the case of 2 million polygons. */
const RECIPES: Readonly<Record<Size, Recipe>> = {
  full: repeated(2_000_000, 15),
  quick: repeated(2_000, 3),
};

export const memoryLimit: BenchCase = {
  name: 'memory-limit',
  what: 'first start with 4 GB of Parquet, 30 million polygons in 15 files, and a DuckDB limit of 512 MB',
  reach: [{ measure: 'peakMegabytes', atMost: 650, moonshot: 550 }],
  fewRuns: 1,
  validate: (size, workspace) =>
    bootstrapContest(
      {
        recipe: RECIPES[size],
        rawScript: null,
        settings: { FEED_SYNC_DUCKDB_MEMORY_LIMIT: '512MB' },
      },
      workspace,
    ),
};

function repeated(writtenRows: number, times: number): Recipe {
  return {
    ...polygons(writtenRows * times),
    filesPerDataset: times,
    writtenRows,
  };
}
