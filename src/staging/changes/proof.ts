/** Proves that the listed changes have the counts that the service states, and the coordinate systems of the table. */

import { present } from '../../lib/assert.ts';
import { formatCount, plural } from '../../lib/units.ts';
import { InapplicableChangesError } from '../../model/errors.ts';
import type { Counts } from '../../model/records.ts';
import type { ChangesJob } from '../../model/write-jobs.ts';
import type { Row } from '../engine/engine.ts';
import { numberAt } from '../engine/sql.ts';
import type { PlannedColumn } from '../snapshot/table-plan.ts';
import type { ChangesColumns } from './columns.ts';
import { netColumn } from './columns.ts';
import { DOUBLES, geoJsonFlag, otherFlag } from './decode.ts';
import type { FirstValues, NetChange } from './net-change.ts';

/** The coordinate system of GeoJSON, as recorded in the mirror. */
const GEOJSON_CRS = 'OGC:CRS84';

/**
 * Returns for each step and operation: the number of changes; the number of distinct key hashes (as many hashes as changes
 * prove that no key repeats); whether any row has numbers that may be rounded; for each column of `elsewhere`, whether any
 * value is GeoJSON, and whether any has another form. `decoded` stands after FROM; `tables` maps each step to its table,
 * because keys of two tables may be equal.
 */
export function countOperations(
  decoded: string,
  { keys, elsewhere }: ChangesColumns,
  tables: readonly number[],
): string {
  const from = `FROM ${decoded}`;
  const key = [`[${tables.join(', ')}][step + 1]`, ...keys.map(netColumn)];
  const different = `(SELECT count(DISTINCT hash(${key.join(', ')})) ${from})`;
  const flags = elsewhere.flatMap((position) =>
    [geoJsonFlag(position), otherFlag(position)].map((flag) => `bool_or(${flag})`),
  );
  return `SELECT ${['step', 'op', 'count(*)', different, `bool_or(${DOUBLES})`, ...flags].join(', ')} ${from} GROUP BY step, op`;
}

/** Returns whether every key occurs only once. `rows` are the results of `countOperations`. */
export function areKeysDifferent(rows: readonly Row[]): boolean {
  const changes = rows.reduce((sum, row) => sum + numberAt(row, 2), 0);
  return rows.every((row) => numberAt(row, 3) === changes);
}

/** Returns whether any number may have been rounded. `rows` are the results of `countOperations`. */
export function haveDoubles(rows: readonly Row[]): boolean {
  return rows.some((row) => row[4] === true);
}

/** Returns the counts of the job's versions, in order. `rows` are the results of `countOperations`. */
export function listedCounts({ versions }: ChangesJob, rows: readonly Row[]): readonly Counts[] {
  const countOf = (step: number, op: keyof Counts): number => {
    const row = rows.find((candidate) => numberAt(candidate, 0) === step && candidate[1] === op);
    return row === undefined ? 0 : numberAt(row, 2);
  };
  return versions.map((_, step) => ({
    added: countOf(step, 'added'),
    changed: countOf(step, 'changed'),
    removed: countOf(step, 'removed'),
  }));
}

/**
 * Refuses a catalog without the key columns. A catalog that has lost columns is damage of the mirror, and says nothing about the changes.
 * @throws InapplicableChangesError
 */
export function refuseUnlistedKeys(job: ChangesJob): void {
  const listed = new Set(job.plannedFrom.columns.flatMap(({ name, role }) => (role === 'key' ? [name] : [])));
  const { tableName, keyColumns } = job.plannedFrom;
  if (keyColumns.every((name) => listed.has(name))) return;
  throw inapplicableNet(job, `feed_sync.columns does not list the key columns of the table ${tableName}`);
}

/**
 * Proves the counts of versions. `listed` are the counts of the job's versions, in order.
 *
 * @throws InapplicableChangesError naming the first version whose counts or row count differ.
 */
export function proveCounts(job: ChangesJob, listed: readonly Counts[]): void {
  job.versions.reduce((rowsBefore, { version, counts, rowCount }, step) => {
    const found = present(listed[step], 'every version has counts');
    if (counts !== null && !areSame(counts, found)) {
      throw inapplicable(
        job,
        version,
        `they are ${inWords(found)}, and the service counted ${inWords(counts)}`,
      );
    }
    const rows = rowsBefore + found.added - found.removed;
    if (rowCount !== null && rowCount !== rows) {
      throw inapplicable(
        job,
        version,
        `${plural(rowsBefore, 'row')} with ${inWords(found)} are ${formatCount(rows)}, and the service states ${formatCount(rowCount)}`,
      );
    }
    return rows;
  }, job.plannedFrom.rowCount);
}

/** The columns of the net change, and the conditions on the table for their coordinate systems. */
export type Located = Pick<NetChange, 'columns' | 'firstValues'>;

/**
 * Returns the columns with their coordinate systems afterwards. A column without values takes the system of the first GeoJSON
 * in it: an added column, or any column of an empty table. For another column of unknown system the write session asks the
 * table. `rows` are the results of `countOperations`.
 *
 * @throws InapplicableChangesError when GeoJSON comes into a column of another system.
 */
export function locate(
  job: ChangesJob,
  { columns, elsewhere }: ChangesColumns,
  rows: readonly Row[],
): Located {
  const { rowCount, columns: before } = job.plannedFrom;
  const observed = new Map(before.map(({ name, columnName }) => [name, columnName]));
  const firstValues: FirstValues[] = [];
  const after = columns.map((planned, position) => {
    const { geoJson, other } = firstSteps(elsewhere.indexOf(position), rows);
    if (geoJson === null) return planned;
    const refusal = inOtherSystem(job, geoJson, planned);
    if (other !== null && other < geoJson) throw refusal;
    const columnName = observed.get(planned.column.name);
    if (rowCount > 0 && columnName !== undefined) {
      if (planned.crs !== null) throw refusal;
      firstValues.push({ columnName, refusal });
    }
    return { ...planned, crs: GEOJSON_CRS };
  });
  return { columns: after, firstValues };
}

/** Returns the first step with GeoJSON, and the first with another form, in the column at `index` of `elsewhere`. */
function firstSteps(
  index: number,
  rows: readonly Row[],
): { readonly geoJson: number | null; readonly other: number | null } {
  const first = (flag: number): number | null => {
    const steps = rows.filter((row) => row[flag] === true).map((row) => numberAt(row, 0));
    return index < 0 || steps.length === 0 ? null : Math.min(...steps);
  };
  return { geoJson: first(5 + 2 * index), other: first(6 + 2 * index) };
}

function inOtherSystem(
  job: ChangesJob,
  step: number,
  { column, crs }: PlannedColumn,
): InapplicableChangesError {
  const { version } = present(job.versions[step], 'a step is that of a version');
  const there = crs === null ? 'an unknown coordinate system' : `the coordinate system ${crs}`;
  const name = JSON.stringify(column.name);
  return inapplicable(
    job,
    version,
    `they hold GeoJSON, which is in WGS 84, and the column ${name} is in ${there}`,
  );
}

function areSame(left: Counts, right: Counts): boolean {
  return left.added === right.added && left.changed === right.changed && left.removed === right.removed;
}

function inWords({ added, changed, removed }: Counts): string {
  return `${formatCount(added)} added, ${formatCount(changed)} changed and ${formatCount(removed)} removed`;
}

function inapplicable({ datasetId }: ChangesJob, version: number, why: string): InapplicableChangesError {
  return new InapplicableChangesError(datasetId, version, why);
}

/**
 * Returns the row count that the service states for the last version. Without one, starts from the newest stated count (of a
 * version or of the table) and adds the later counts of changes. Returns null when no count is known.
 */
export function statedRowCount({
  versions,
  plannedFrom,
}: Pick<ChangesJob, 'versions' | 'plannedFrom'>): number | null {
  return versions.reduce<number | null>((rows, { counts, rowCount }) => {
    if (rowCount !== null || rows === null || counts === null) return rowCount;
    return rows + counts.added - counts.removed;
  }, plannedFrom.rowCount);
}

/** Proves the rows that a table would have. @throws InapplicableChangesError where the service states another number of them */
export function proveStatedRowCount(job: ChangesJob, rowCount: number): void {
  const stated = statedRowCount(job);
  if (stated === null || stated === rowCount) return;
  throw inapplicableNet(
    job,
    `the table would have ${plural(rowCount, 'row')}, and the service states ${formatCount(stated)} for version ${job.version}`,
  );
}

/**
 * Returns the error of a net change that cannot be applied as a whole. It names the first version: the faulty one is unknown, and
 * a snapshot at or past the first one helps in any case.
 */
export function inapplicableNet(job: ChangesJob, why: string): InapplicableChangesError {
  const { version } = present(job.versions[0], 'changes are those of at least one version');
  return inapplicable(job, version, why);
}
