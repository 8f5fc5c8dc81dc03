/** What grows: each axis is data, a list of sizes and the contest of one of them. */

import { bootstrapContest } from '../bootstrap.ts';
import type { Contest, Size } from '../case.ts';
import { updateContest } from '../catch-up.ts';
import type { Recipe } from '../dataset-files.ts';
import { polygons } from '../large-dataset.ts';
import { catchUpContest, manyContest } from '../postgres-contests.ts';
import { whyNoServer } from '../postgres-server.ts';

export interface Axis {
  readonly name: string;
  /** Beside a number: "10,000 rows". */
  readonly job: string;
  readonly what: string;
  readonly sizes: readonly number[];
  /** Why it cannot run here, to the end of "not run: "; null where it can. Without this it runs everywhere. */
  readonly whyNot?: () => string | null;
  /** Only the subject of the contest is run. `quick` takes small tables for what does not grow. */
  readonly validate: (amount: number, size: Size, workspace: string) => Promise<Contest>;
}

/** All tables up to ten million rows begin with the same rows, and are written by the same writer. */
const WRITTEN_ROWS: Readonly<Record<Size, number>> = { full: 2_000_000, quick: 2_000 };
const ROWS_OF_BACKLOG: Readonly<Record<Size, number>> = { full: 100_000, quick: 1_000 };
const ROWS_OF_LARGE_TABLE: Readonly<Record<Size, number>> = { full: 2_000_000, quick: 2_000 };
const CHANGED_ROWS_OF_VERSION = 20;

const DUCKDB_AXES: readonly [Axis, Axis, Axis, Axis] = [
  {
    name: 'rows',
    job: 'rows',
    what: 'first start with one dataset of polygons in 8 files',
    sizes: [10_000, 30_000, 100_000, 300_000, 1_000_000, 3_000_000, 10_000_000],
    validate: (rows, size, workspace) =>
      bootstrapContest(
        { recipe: { ...polygons(rows), writtenRows: WRITTEN_ROWS[size] }, rawScript: null },
        workspace,
      ),
  },
  {
    name: 'datasets',
    job: 'datasets',
    what: 'first start with datasets of 500 polygons',
    sizes: [1, 3, 10, 30, 100, 300, 1_000, 3_000],
    validate: (datasets, _, workspace) =>
      bootstrapContest({ recipe: manyParcels(datasets), rawScript: null }, workspace),
  },
  {
    name: 'versions',
    job: 'versions',
    what: 'catching up with versions of 20 changed rows on 100,000 polygons',
    sizes: [1, 3, 10, 30, 100, 300, 1_000],
    validate: (versions, size, workspace) =>
      updateContest(
        { ...polygons(ROWS_OF_BACKLOG[size]), filesPerDataset: 1 },
        { versions, changedRows: CHANGED_ROWS_OF_VERSION },
        workspace,
      ),
  },
  {
    name: 'changed-rows',
    job: 'rows',
    what: 'catching up with one version of changed rows on 2 million polygons',
    sizes: [1, 10, 100, 1_000, 10_000, 100_000, 1_000_000],
    validate: (changedRows, size, workspace) =>
      updateContest(polygons(ROWS_OF_LARGE_TABLE[size]), { versions: 1, changedRows }, workspace),
  },
];

const [ROWS, DATASETS, VERSIONS, CHANGED_ROWS] = DUCKDB_AXES;

/** The same amounts, tables and versions. */
function inPostgres(axis: Axis, validate: Axis['validate']): Axis {
  const { name, what } = axis;
  return { ...axis, name: `postgres-${name}`, what: `${what}, in PostgreSQL`, whyNot: whyNoServer, validate };
}

export const AXES: readonly Axis[] = [
  ...DUCKDB_AXES,
  inPostgres(ROWS, (rows, size, workspace) =>
    manyContest({ ...polygons(rows), writtenRows: WRITTEN_ROWS[size] }, workspace),
  ),
  inPostgres(DATASETS, (datasets, _, workspace) => manyContest(manyParcels(datasets), workspace)),
  inPostgres(VERSIONS, (versions, size, workspace) =>
    catchUpContest(
      { ...polygons(ROWS_OF_BACKLOG[size]), filesPerDataset: 1 },
      { versions, changedRows: CHANGED_ROWS_OF_VERSION },
      workspace,
    ),
  ),
  inPostgres(CHANGED_ROWS, (changedRows, size, workspace) =>
    catchUpContest(polygons(ROWS_OF_LARGE_TABLE[size]), { versions: 1, changedRows }, workspace),
  ),
];

function manyParcels(counties: number): Recipe {
  return { seed: 1, counties, rowsPerDataset: 500, kinds: ['parcels'], filesPerDataset: 1 };
}
