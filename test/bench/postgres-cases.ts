/** The cases of PostgreSQL. `--rows` makes them smaller: of one large dataset, and of the number of datasets in proportion. */

import type { BenchCase, Size } from './case.ts';
import { LARGE_BACKLOG } from './catch-up-large.ts';
import type { Recipe } from './dataset-files.ts';
import { polygons } from './large-dataset.ts';
import { manyDatasets } from './many-datasets.ts';
import {
  catchUpContest,
  distributedLoadContest,
  firstLoadContest,
  manyContest,
  reloadContest,
} from './postgres-contests.ts';
import { idleContest, updateContest } from './postgres-daemon.ts';
import { whyNoCitus, whyNoServer } from './postgres-server.ts';

const ROWS: Readonly<Record<Size, number>> = { full: 2_000_000, quick: 2_000 };
const COUNTIES = 1_000;

function large(size: Size, rows = ROWS[size]): Recipe {
  return polygons(rows);
}

/** Three datasets of each county. */
function many(size: Size, rows = ROWS[size]): Recipe {
  return manyDatasets(Math.max(3, Math.round((COUNTIES * rows) / ROWS.full)), size === 'full' ? 500 : 50);
}

const common = { group: 'postgres', whyNot: whyNoServer, fewRuns: 3 } as const;

export const POSTGRES_CASES: readonly BenchCase[] = [
  {
    ...common,
    name: 'postgres-first-load',
    what: 'first start with 2 million polygons, beside \\copy of the same rows from a ready file, key and indexes',
    reach: [{ measure: 'ratio', atMost: 1.25, moonshot: 1.05 }],
    validate: (size, workspace, rows) => firstLoadContest(large(size, rows), workspace),
  },
  {
    ...common,
    name: 'postgres-update-small',
    what: 'one version of 100 changed rows on 2 million polygons, in a running daemon, from poll to commit',
    reach: [{ measure: 'updateMs', atMost: 150, moonshot: 100 }],
    validate: (size, workspace, rows) => updateContest(large(size, rows), size, workspace),
  },
  {
    ...common,
    name: 'postgres-catch-up',
    what: 'catching up with 50 versions of 10,000 changed rows on 2 million polygons, beside COPY, UPDATE and INSERT of the net change',
    reach: [{ measure: 'ratio', atMost: 1.5 }],
    validate: (size, workspace, rows) => catchUpContest(large(size, rows), LARGE_BACKLOG[size], workspace),
  },
  {
    ...common,
    name: 'postgres-reload-few',
    what: 'a reload of 2 million polygons of which 1 % differs, beside \\copy of the whole into an indexed table',
    reach: [{ measure: 'ratio', atMost: 1.5 }],
    validate: (size, workspace, rows) => reloadContest(large(size, rows), 100, workspace),
  },
  {
    ...common,
    name: 'postgres-many',
    what: 'first start with 3,000 datasets of 500 rows',
    reach: [],
    fewRuns: 1,
    validate: (size, workspace, rows) => manyContest(many(size, rows), workspace),
  },
  {
    ...common,
    name: 'postgres-idle-poll',
    what: 'a poll with nothing new, in a daemon with one subscription of 3,000 datasets',
    reach: [
      { measure: 'requestsPerPoll', atMost: 1 },
      { measure: 'cpuMsPerPoll', atMost: 5 },
    ],
    validate: (size, workspace, rows) => idleContest(many(size, rows), size, workspace),
  },
  {
    ...common,
    whyNot: whyNoCitus,
    name: 'citus-first-load',
    what: 'first start with 2 million polygons on a node of a coordinator with two workers, beside the same in PostgreSQL alone',
    reach: [],
    validate: (size, workspace, rows) => distributedLoadContest(large(size, rows), workspace),
  },
  {
    ...common,
    whyNot: whyNoCitus,
    name: 'citus-update-small',
    what: 'one version of 100 changed rows on 2 million polygons there, in a running daemon, from poll to commit',
    reach: [],
    validate: (size, workspace, rows) => updateContest(large(size, rows), size, workspace, 'citus'),
  },
];
