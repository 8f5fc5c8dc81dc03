/** Whether the changes that were listed are those that the service counted, and lie where the table does. */

import { present } from '../../../lib/assert.ts';
import { formatCount } from '../../../lib/units.ts';
import { UnusableChangesError } from '../../../model/errors.ts';
import type { Counts } from '../../../model/version.ts';
import type { ChangesUnit } from '../../destination.ts';
import type { Row } from '../engine/engine.ts';
import { numberAt } from '../engine/rows.ts';
import type { PlannedColumn } from '../snapshot/table-plan.ts';
import type { ChangesColumns } from './columns.ts';
import { netColumn } from './net.ts';
import { DOUBLES, flag } from './sql.ts';

/** The coordinate system of GeoJSON, as the mirror writes it down. */
const GEOJSON_CRS = 'OGC:CRS84';

/**
 * For each step and operation: how many changes; the different hashes of the keys of all (as many as changes prove that
 * no key repeats); whether any has numbers that may be rounded; for each column of `elsewhere` whether any is GeoJSON.
 * `decoded` is what comes after FROM; `tables` says of each step which table it changes, because keys of two of them may be equal.
 */
export function countOperations(
  decoded: string,
  { keys, elsewhere }: ChangesColumns,
  tables: readonly number[],
): string {
  const from = `FROM ${decoded}`;
  const key = [`[${tables.join(', ')}][step + 1]`, ...keys.map(netColumn)];
  const different = `(SELECT count(DISTINCT hash(${key.join(', ')})) ${from})`;
  const flags = elsewhere.map((position) => `bool_or(${flag(position)})`);
  return `SELECT ${['step', 'op', 'count(*)', different, `bool_or(${DOUBLES})`, ...flags].join(', ')} ${from} GROUP BY step, op`;
}

/** Whether every key occurs once only. `rows` are those of `countOperations`. */
export function areKeysDifferent(rows: readonly Row[]): boolean {
  const changes = rows.reduce((sum, row) => sum + numberAt(row, 2), 0);
  return rows.every((row) => numberAt(row, 3) === changes);
}

/** Whether any number may have been rounded. `rows` are those of `countOperations`. */
export function haveDoubles(rows: readonly Row[]): boolean {
  return rows.some((row) => row[4] === true);
}

/** The counts of the versions of the unit, in their order. `rows` are those of `countOperations`. */
export function listedCounts({ versions }: ChangesUnit, rows: readonly Row[]): readonly Counts[] {
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
 * `listed` are the counts of the versions of the unit, in their order.
 *
 * @throws UnusableChangesError naming the first version whose counts, or whose number of rows, are others.
 */
export function proveCounts(unit: ChangesUnit, listed: readonly Counts[]): void {
  unit.versions.reduce((rowsBefore, { version, counts, rowCount }, step) => {
    const found = present(listed[step], 'every version has counts');
    if (counts !== null && !areSame(counts, found)) {
      throw unusable(unit, version, `they are ${inWords(found)}, and the service counted ${inWords(counts)}`);
    }
    const rows = rowsBefore + found.added - found.removed;
    if (rowCount !== null && rowCount !== rows) {
      throw unusable(
        unit,
        version,
        `${formatCount(rowsBefore)} rows with ${inWords(found)} are ${formatCount(rows)}, and the service states ${formatCount(rowCount)}`,
      );
    }
    return rows;
  }, unit.plannedFrom.rowCount);
}

/**
 * The columns with their coordinate systems afterwards: an empty table, and a column that is added, take that of the
 * GeoJSON which comes into them. `rows` are those of `countOperations`.
 *
 * @throws UnusableChangesError where GeoJSON comes into a column that is in another system, or in an unknown one.
 */
export function locate(
  unit: ChangesUnit,
  { columns, elsewhere }: ChangesColumns,
  rows: readonly Row[],
): readonly PlannedColumn[] {
  const held = new Set(unit.plannedFrom.columns.map(({ name }) => name));
  return columns.map((planned, position) => {
    const index = elsewhere.indexOf(position);
    const steps =
      index < 0 ? [] : rows.filter((row) => row[index + 5] === true).map((row) => numberAt(row, 0));
    if (steps.length === 0) return planned;
    const isFree =
      planned.crs === null && (unit.plannedFrom.rowCount === 0 || !held.has(planned.column.name));
    if (isFree) return { ...planned, crs: GEOJSON_CRS };
    const first = present(unit.versions[Math.min(...steps)], 'a step is that of a version');
    const there =
      planned.crs === null ? 'an unknown coordinate system' : `the coordinate system ${planned.crs}`;
    throw unusable(
      unit,
      first.version,
      `they hold GeoJSON, which is in WGS 84, and the column ${JSON.stringify(planned.column.name)} is in ${there}`,
    );
  });
}

function areSame(left: Counts, right: Counts): boolean {
  return left.added === right.added && left.changed === right.changed && left.removed === right.removed;
}

function inWords({ added, changed, removed }: Counts): string {
  return `${formatCount(added)} added, ${formatCount(changed)} changed and ${formatCount(removed)} removed`;
}

function unusable({ datasetId }: ChangesUnit, version: number, why: string): UnusableChangesError {
  return new UnusableChangesError(datasetId, version, why);
}
