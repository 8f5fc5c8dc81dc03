import type { BenchCase, Size } from './case.ts';
import { catchUpBesideScript, catchUpContest, whyNoScript } from './catch-up.ts';
import { TWO_MILLION_POLYGONS } from './large-dataset.ts';
import type { Backlog } from './later-versions.ts';

const BACKLOGS: Readonly<Record<Size, Backlog>> = {
  full: { versions: 50, changedRows: 10_000 },
  quick: { versions: 5, changedRows: 100 },
};

const WHAT = 'catching up with 50 versions of 10,000 changed rows on 2 million polygons';

export const catchUpLarge: BenchCase = {
  name: 'catch-up-large',
  what: WHAT,
  reach: [{ measure: 'ratio', atMost: 1.5, moonshot: 1 }],
  validate: (size, workspace) => catchUpContest(TWO_MILLION_POLYGONS[size], BACKLOGS[size], workspace),
};

export const catchUpScript: BenchCase = {
  name: 'catch-up-script',
  what: `${WHAT}, beside a plain Python script`,
  reach: [{ measure: 'ratio', atMost: 1.1, moonshot: 0.8 }],
  whyNot: whyNoScript,
  validate: (size, workspace) => catchUpBesideScript(TWO_MILLION_POLYGONS[size], BACKLOGS[size], workspace),
};
