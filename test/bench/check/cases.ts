/** The small cases whose ratios are watched: one or more for every row of what is to be reached. */

import { bootstrapContest } from '../bootstrap.ts';
import type { BenchCase, Size } from '../case.ts';
import { catchUpContest } from '../catch-up.ts';
import { compactContest } from '../compact.ts';
import { downloadContest } from '../download.ts';
import { polygons } from '../large-dataset.ts';
import { manyDatasets } from '../many-datasets.ts';
import { nothingNewContest } from '../nothing-new.ts';
import { scriptCase } from '../peers.ts';
import { firstLoadContest, catchUpContest as postgresCatchUpContest } from '../postgres-contests.ts';
import { whyNoServer } from '../postgres-server.ts';
import { reloadContest } from '../reload.ts';
import { recordedName } from './judge.ts';

/** `reach` is empty: what was recorded is the bound. */
export interface CheckedCase extends BenchCase {
  /** As in `Goal`. The ratio of seconds where it says nothing; the others are hardly moved by other work of the machine. */
  readonly measures?: readonly string[];
}

const LARGE = 'raw/bootstrap-large.mjs';
const SMALL = 'raw/bootstrap-small.mjs';

function always<T>(value: T): Readonly<Record<Size, T>> {
  return { full: value, quick: value };
}

function besideScript(...work: Parameters<typeof scriptCase>): CheckedCase {
  return { ...scriptCase(...work), measures: ['cpuRatio'] };
}

export const CHECKED_CASES: readonly CheckedCase[] = [
  {
    name: 'many-datasets',
    what: 'first start with 39 datasets of 500 rows',
    reach: [],
    measures: ['ratio', 'requestsPerDataset'],
    validate: (_, workspace) =>
      bootstrapContest({ recipe: manyDatasets(13, 500), rawScript: SMALL }, workspace),
  },
  {
    name: 'large-dataset',
    what: 'first start with 200,000 polygons in 8 files',
    reach: [],
    validate: (_, workspace) => bootstrapContest({ recipe: polygons(200_000), rawScript: LARGE }, workspace),
  },
  {
    name: 'unordered',
    what: 'first start with 200,000 polygons in 8 files, beside raw DuckDB that keeps no order either',
    reach: [],
    measures: ['cpuRatio', 'mirrorMegabytesRatio'],
    validate: (_, workspace) =>
      bootstrapContest({ recipe: polygons(200_000), rawScript: LARGE, rawValues: ['unordered'] }, workspace),
  },
  {
    name: 'memory-limit',
    what: 'first start with 200,000 polygons in 8 files and a DuckDB limit of 64 MB, beside raw DuckDB without one',
    reach: [],
    measures: ['peakMegabytesRatio'],
    validate: (_, workspace) =>
      bootstrapContest(
        {
          recipe: polygons(200_000),
          rawScript: LARGE,
          settings: { FEED_SYNC_DUCKDB_MEMORY_LIMIT: '64MB' },
        },
        workspace,
      ),
  },
  {
    name: 'changes',
    what: 'catching up with 10 versions of 1,000 changed rows on 200,000 polygons',
    reach: [],
    validate: (_, workspace) =>
      catchUpContest(polygons(200_000), { versions: 10, changedRows: 1_000 }, workspace),
  },
  {
    name: 'versions',
    what: 'catching up with 60 versions of 20 changed rows on 20,000 polygons',
    reach: [],
    validate: (_, workspace) =>
      catchUpContest(polygons(20_000), { versions: 60, changedRows: 20 }, workspace),
  },
  {
    name: 'one-version',
    what: 'catching up with one version of 100 changed rows on 200,000 polygons',
    reach: [],
    measures: ['cpuRatio'],
    validate: (_, workspace) =>
      catchUpContest(polygons(200_000), { versions: 1, changedRows: 100 }, workspace),
  },
  {
    name: 'version-of-each',
    what: 'catching up with one version of 5 changed rows for each of 39 datasets',
    reach: [],
    measures: ['cpuRatio'],
    validate: (_, workspace) =>
      catchUpContest(manyDatasets(13, 500), { versions: 1, changedRows: 5 }, workspace),
  },
  {
    name: 'nothing-new',
    what: 'catching up with nothing new in 39 datasets, beside a reading of their versions',
    reach: [],
    validate: (_, workspace) => nothingNewContest(manyDatasets(13, 500), workspace),
  },
  {
    name: 'history',
    what: 'a reload of 200,000 polygons of which 1 % differs, with history, beside a swap without it',
    reach: [],
    measures: ['cpuRatio', 'lockMsRatio'],
    validate: (_, workspace) => reloadContest(polygons(200_000), { oneIn: 100, reloads: 1 }, workspace),
  },
  {
    name: 'compact-compress',
    what: '`compact --compress` of a mirror of 200,000 polygons, beside raw DuckDB, which copies the same file',
    reach: [],
    measures: ['cpuRatio', 'mirrorMegabytesRatio'],
    validate: (_, workspace) => compactContest(polygons(200_000), workspace),
  },
  {
    name: 'download',
    what: '100 MB in one file from loopback, with its sha256, beside curl and then node:crypto',
    reach: [],
    measures: ['cpuRatio'],
    validate: (_, workspace) => downloadContest(100_000_000, workspace),
  },
  besideScript('script-many', {
    name: 'many',
    what: 'first start with 39 datasets of 500 rows',
    recipe: always(manyDatasets(13, 500)),
    begins: 'empty',
    reach: [],
  }),
  besideScript('script-changes', {
    name: 'catch-up',
    what: 'catching up with 10 versions of 1,000 changed rows on 200,000 polygons',
    recipe: always(polygons(200_000)),
    begins: 'loaded',
    backlog: always({ versions: 10, changedRows: 1_000 }),
    reach: [],
  }),
  {
    name: 'postgres-first-load',
    what: 'first start with 50,000 polygons into PostgreSQL, beside \\copy, key and indexes',
    reach: [],
    whyNot: whyNoServer,
    validate: (_, workspace) => firstLoadContest(polygons(50_000), workspace),
  },
  {
    name: 'postgres-changes',
    what: 'catching up with 10 versions of 100 changed rows on 50,000 polygons in PostgreSQL, beside COPY, UPDATE and INSERT',
    reach: [],
    whyNot: whyNoServer,
    validate: (_, workspace) =>
      postgresCatchUpContest(polygons(50_000), { versions: 10, changedRows: 100 }, workspace),
  },
];

/** What is recorded and judged of a case. */
export function measuresOf({ measures = ['ratio'] }: CheckedCase): readonly string[] {
  return measures;
}

/** The names under which that is recorded. */
export function recordedNames(checked: CheckedCase): readonly string[] {
  return measuresOf(checked).map((measure) => recordedName(checked.name, measure));
}
