/**
 * The net change of a backlog: for each key that the versions touch, its row afterwards, or its removal. It is computed before
 * the mirror is opened and stored in Parquet files beside the pages; the write session reads these files in one statement.
 *
 * Invariant of the files: no key is repeated or contains a null, and every value is exactly the value of the table afterwards.
 */

import { present } from '../../lib/assert.ts';
import { durable } from '../../lib/files.ts';
import type { InapplicableChangesError } from '../../model/errors.ts';
import type { Counts } from '../../model/records.ts';
import type { ChangesJob } from '../../model/write-jobs.ts';
import type { Engine, Row } from '../engine/engine.ts';
import { identifier, numberAt, text, textAt } from '../engine/sql.ts';
import { readParquet } from '../snapshot/parquet.ts';
import { MAX_SHOWN_VALUE } from '../snapshot/scan-sql.ts';
import type { PlannedColumn } from '../snapshot/table-plan.ts';
import {
  type ChangesColumns,
  changesColumns,
  findNames,
  netColumn,
  PRESENT,
  refuseNames,
} from './columns.ts';
import {
  AS_IT_IS,
  asFile,
  type Decoding,
  decodedRows,
  decodeVersions,
  readBefore,
  selectDecoded,
} from './decode.ts';
import { findOddGeometry } from './geometry.ts';
import { findRounded, findRoundedPages } from './numbers.ts';
import {
  bad,
  besidePages,
  MAX_BYTES_AT_ONCE,
  type Pages,
  pageAt,
  spooledBytes,
  spooledPages,
} from './pages.ts';
import {
  areKeysDifferent,
  countOperations,
  haveDoubles,
  type Located,
  listedCounts,
  locate,
  proveCounts,
  refuseUnlistedKeys,
} from './proof.ts';
import { oddGeometry, refusal, roundedNumber } from './refusals.ts';

export interface NetChange {
  /** The Parquet files. They lie in the folders of the pages and are removed with them. */
  readonly paths: readonly string[];
  /** The number of keys with a row afterwards. */
  readonly rows: number;
  /** The number of keys without a row afterwards, whether or not the table has one now. */
  readonly removals: number;
  /**
   * The columns of the table afterwards, in the order in which loading a snapshot with this schema would create them. They
   * equal the table's columns unless the job adds some.
   */
  readonly columns: readonly PlannedColumn[];
  /** Columns that take the coordinate system of the changes if the table holds no value in them. */
  readonly firstValues: readonly FirstValues[];
}

/** The first GeoJSON for a geometry column of the table whose coordinate system is unknown. */
export interface FirstValues {
  readonly columnName: string;
  /** The error if the table already holds a value in the column. */
  readonly refusal: InapplicableChangesError;
}

/**
 * Returns the rows of the net change, for use after FROM with an alias: the columns `c0`, `c1`, … in the order of
 * `NetChange.columns` with the types of the mirror, then `present`. Unselected columns cost nothing.
 */
export function netRows({ paths, columns }: Pick<NetChange, 'paths' | 'columns'>): string {
  const values = columns.map(({ type }, position) => {
    const name = netColumn(position);
    return type === 'geometry' ? `ST_GeomFromWKB(${name}) AS ${name}` : name;
  });
  return `(SELECT ${[...values, PRESENT].join(', ')} FROM ${readParquet(paths)})`;
}

/**
 * Coalesces the changes of all versions of the job to the net change per key, in a file beside the first page.
 *
 * @throws BadChangesError for an invalid value, key or operation, naming version, page, row and column.
 * @throws UnknownColumnsError when rows have columns that the schema does not know.
 * @throws InapplicableChangesError when the snapshot has to be loaded instead: counts that do not add up, GeoJSON for a table
 * in another coordinate system, columns that rows or table lack, key columns that the catalog has lost.
 */
export async function coalesceChanges(engine: Engine, job: ChangesJob): Promise<NetChange> {
  refuseUnlistedKeys(job);
  const columns = changesColumns(job);
  const pages = await spooledPages(job.versions);
  try {
    return await coalesce(engine, job, { pages, columns });
  } catch (error) {
    throw await refusal(engine, job, { pages, columns }, error);
  }
}

async function coalesce(engine: Engine, job: ChangesJob, decoding: Decoding): Promise<NetChange> {
  const { columns } = decoding;
  const before = readBefore(job, columns);
  const rest = job.versions.slice(before.reduce((sum, { versions }) => sum + versions, 0));
  const parts = rest.length === 0 ? before : [...before, await decodeVersions(engine, rest, columns)];
  const rowsOf = decodedRows(parts);
  refuseNames(job, decoding, await engine.rows(findNames(rowsOf, columns)));
  if (parts.some(({ forms }) => forms === 'every')) await refuseOddGeometries(job, decoding);
  const oneTable = job.versions.map(() => 0);
  const operations = await engine.rows(countOperations(rowsOf, columns, oneTable));
  const counts = listedCounts(job, operations);
  proveCounts(job, counts);
  const located = locate(job, columns, operations);
  if (haveDoubles(operations)) await refuseRounded(engine, job, decoding);

  if (areKeysDifferent(operations))
    return netOf(
      counts,
      parts.map(({ path }) => path),
      located,
    );
  const [repeated] = await engine.rows(findRepeatedKey(rowsOf, columns));
  refuseRepeatedKey(job, decoding, repeated);
  const path = besidePages(job.versions, 'net.parquet');
  await durable('staging.coalesce-changes', () => engine.run(writeCoalesced(rowsOf, columns, path)));
  const [present = []] = await engine.rows(countPresent(path));
  return { ...located, paths: [path], rows: numberAt(present, 0), removals: numberAt(present, 1) };
}

/** Returns the net change of changes with distinct keys, which need no coalescing. */
function netOf(counts: readonly Counts[], paths: readonly string[], located: Located): NetChange {
  const rows = counts.reduce((sum, { added, changed }) => sum + added + changed, 0);
  const removals = counts.reduce((sum, { removed }) => sum + removed, 0);
  return { ...located, paths, rows, removals };
}

async function refuseOddGeometries(job: ChangesJob, { pages, columns }: Decoding): Promise<void> {
  for (const page of pages.all) {
    const found = await findOddGeometry(page, columns);
    if (found !== null) throw oddGeometry(job, page, found);
  }
}

async function refuseRounded(engine: Engine, job: ChangesJob, { pages, columns }: Decoding): Promise<void> {
  for (const batch of pages.batches) {
    const paths = (await engine.rows(findRoundedPages(batch))).map((row) => textAt(row, 0));
    for (const page of batch.filter(({ path }) => paths.includes(path))) {
      const found = await findRounded(page, columns);
      if (found !== null) throw roundedNumber(job, page, found);
    }
  }
}

/**
 * Returns the first key that a version lists twice with a row: the second place, and the key's values as text. `decoded` stands
 * after FROM.
 */
function findRepeatedKey(decoded: string, columns: ChangesColumns): string {
  const shown = columns.keys.map((position) => `left(${netColumn(position)}::VARCHAR, ${MAX_SHOWN_VALUE})`);
  return `SELECT place[1], place[2], ${shown.join(', ')} FROM (
    SELECT list_sort(list([page, line]))[2] AS place, ${keyList(columns)} FROM ${decoded}
      WHERE ${PRESENT} GROUP BY step, ${keyList(columns)} HAVING count(*) > 1)
    ORDER BY place LIMIT 1`;
}

/** `row` is the result of `findRepeatedKey`. @throws BadChangesError when there is one. */
function refuseRepeatedKey(job: ChangesJob, { pages, columns }: Decoding, row: Row | undefined): void {
  if (row === undefined) return;
  const key = columns.keys.map(
    (position, index) => `${columns.columns[position]?.column.name} = ${JSON.stringify(row[index + 2])}`,
  );
  const why = `the key ${key.join(', ')} has a row in this version already`;
  throw bad(job, pageAt(pages, numberAt(row, 0)), numberAt(row, 1), why);
}

/**
 * Writes the last change of each key into a file. Within one version the change with a row is the last: the key was removed and
 * added again. `decoded` stands after FROM.
 */
function writeCoalesced(decoded: string, columns: ChangesColumns, path: string): string {
  const values = columns.columns.map((_, position) => netColumn(position));
  const last = `SELECT page, line FROM ${decoded}
    QUALIFY row_number() OVER (PARTITION BY ${keyList(columns)} ORDER BY step DESC, ${PRESENT} DESC, page, line) = 1`;
  return `COPY (SELECT ${[...values, PRESENT].join(', ')} FROM ${decoded}
    SEMI JOIN (${last}) USING (page, line)) TO ${text(path)} ${AS_IT_IS}`;
}

/** Returns one row: the number of keys with a row, and of keys without one. */
function countPresent(path: string): string {
  return `SELECT count(*) FILTER (${PRESENT}), count(*) FILTER (NOT ${PRESENT}) FROM ${readParquet([path])}`;
}

function keyList({ keys }: ChangesColumns): string {
  return keys.map(netColumn).join(', ');
}

/** The most jobs that are coalesced together. When any of them fails, each is coalesced again alone. */
export const MAX_JOBS_TOGETHER = 32;

const DECODED = `temp.${identifier('feed-sync: decoded')}`;

/**
 * Returns everything that the statements depend on, as text: jobs with the same text can be coalesced together. Null means only
 * alone.
 */
export async function coalescedAlike(job: ChangesJob): Promise<string | null> {
  if ((await spooledBytes(job.versions)) * MAX_JOBS_TOGETHER > MAX_BYTES_AT_ONCE) return null;
  return JSON.stringify(changesColumns(job));
}

/** Returns the net changes of the jobs, in order. Null means that each job has to be coalesced alone. */
export async function coalesceTogether(
  engine: Engine,
  jobs: readonly ChangesJob[],
): Promise<readonly NetChange[] | null> {
  try {
    for (const job of jobs) refuseUnlistedKeys(job);
    return await coalesceOrdinary(engine, jobs);
  } catch {
    // The error is ignored here: coalescing each job alone meets and reports it again.
    if (engine.invalidated) await engine.reopen();
    return null;
  }
}

async function coalesceOrdinary(
  engine: Engine,
  jobs: readonly ChangesJob[],
): Promise<readonly NetChange[] | null> {
  const columns = changesColumns(present(jobs[0], 'there are jobs'));
  const pages = await spooledPages(jobs.flatMap(({ versions }) => versions));
  const select = selectDecoded({ pages, columns }, 'usual');
  await engine.run(`CREATE OR REPLACE TEMP TABLE ${DECODED} AS ${select}`);
  try {
    if ((await engine.rows(findNames(DECODED, columns))).length > 0) return null;
    const tables = jobs.flatMap(({ versions }, table) => versions.map(() => table));
    const operations = await engine.rows(countOperations(DECODED, columns, tables));
    if (!areKeysDifferent(operations)) return null;
    if (haveDoubles(operations) && (await mayBeRounded(engine, pages))) return null;
    const nets = [];
    let firstStep = 0;
    for (const job of jobs) {
      const end = firstStep + job.versions.length;
      nets.push(await writeNetOf(engine, job, columns, { operations, firstStep, end }));
      firstStep = end;
    }
    return nets;
  } finally {
    await engine.finish(`DROP TABLE ${DECODED}`);
  }
}

async function mayBeRounded(engine: Engine, { batches }: Pages): Promise<boolean> {
  for (const batch of batches) {
    if ((await engine.rows(findRoundedPages(batch))).length > 0) return true;
  }
  return false;
}

/** The steps of a job: from the first one to the one before the end. */
interface Share {
  readonly operations: readonly Row[];
  readonly firstStep: number;
  readonly end: number;
}

async function writeNetOf(
  engine: Engine,
  job: ChangesJob,
  columns: ChangesColumns,
  { operations, firstStep, end }: Share,
): Promise<NetChange> {
  const own = operations.flatMap((row): readonly Row[] => {
    const step = numberAt(row, 0);
    return step >= firstStep && step < end ? [[step - firstStep, ...row.slice(1)]] : [];
  });
  const counts = listedCounts(job, own);
  proveCounts(job, counts);
  const located = locate(job, columns, own);
  const path = besidePages(job.versions, 'net.parquet');
  const values = columns.columns.map((_, position) => netColumn(position));
  await asFile(() =>
    engine.run(`COPY (SELECT ${[...values, PRESENT].join(', ')} FROM ${DECODED}
      WHERE step >= ${firstStep} AND step < ${end}) TO ${text(path)} ${AS_IT_IS}`),
  );
  return netOf(counts, [path], located);
}
