import type { BenchCase, Size } from './case.ts';
import { catchUpContest } from './catch-up.ts';
import { TWO_MILLION_POLYGONS } from './large-dataset.ts';
import type { Backlog } from './later-versions.ts';

/** The backlog of the large catch-up. */
export const LARGE_BACKLOG: Readonly<Record<Size, Backlog>> = {
  full: { versions: 50, changedRows: 10_000 },
  quick: { versions: 5, changedRows: 100 },
};

export const catchUpLarge: BenchCase = {
  name: 'catch-up-large',
  what: 'catching up with 50 versions of 10,000 changed rows on 2 million polygons',
  reach: [{ measure: 'ratio', atMost: 1.5, moonshot: 1 }],
  validate: (size, workspace) => catchUpContest(TWO_MILLION_POLYGONS[size], LARGE_BACKLOG[size], workspace),
};
