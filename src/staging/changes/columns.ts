/**
 * Decides from the schema and the table which columns of change rows are read, which may occur, and which must. The columns are
 * those of the table afterwards. Pure.
 */

import { present } from '../../lib/assert.ts';
import { DataError, InapplicableChangesError, UnknownColumnsError } from '../../model/errors.ts';
import { columnNames } from '../../model/naming.ts';
import type { Column, Schema } from '../../model/records.ts';
import type { ChangesJob } from '../../model/write-jobs.ts';
import { isWgs84 } from '../coordinate-systems.ts';
import type { Row } from '../engine/engine.ts';
import { numberAt, textList, textListAt } from '../engine/sql.ts';
import { knownType } from '../snapshot/casts.ts';
import type { PlannedColumn } from '../snapshot/table-plan.ts';
import type { Decoding } from './decode.ts';
import { bad, pageAt, placeOf } from './pages.ts';

export interface ChangesColumns {
  readonly columns: readonly PlannedColumn[];
  /** The positions of the key columns in `columns`, in the order of the schema's key columns. */
  readonly keys: readonly number[];
  /** Every column name of the schema. */
  readonly known: readonly string[];
  /** Columns that the schema has and the table lacks. Rows with such a column need the snapshot. */
  readonly lacking: readonly string[];
  /** The table's envelope columns. Rows without them need the snapshot. */
  readonly required: readonly string[];
  /** The positions of geometry columns that are not known to be in longitude and latitude of WGS 84, as GeoJSON is. */
  readonly elsewhere: readonly number[];
}

/**
 * Returns the columns of changes. @throws DataError when the schema cannot become a table.
 * @throws InapplicableChangesError when the schema is neither the table's nor the table's with added columns.
 */
export function changesColumns(job: ChangesJob): ChangesColumns {
  const { schema } = job;
  const all = [...schema.columns, ...schema.envelopeColumns];
  const names = all.map((column) => column.name);
  const repeated = names.find((name, index) => names.indexOf(name) !== index);
  if (repeated !== undefined) {
    throw new DataError(`The schema of ${job.datasetId} has the column ${quoted(repeated)} twice.`);
  }
  refuseOtherTable(job, all);

  const columns = columnsAfter(job);
  const there = new Set(columns.map(({ column }) => column.name));
  return {
    columns,
    keys: schema.keyColumns.map((key) => columns.findIndex(({ column }) => column.name === key)),
    known: names,
    lacking: names.filter((name) => !there.has(name)),
    required: columns.flatMap(({ column, role }) => (role === 'envelope' ? [column.name] : [])),
    elsewhere: columns.flatMap(({ type, crs }, position) =>
      type === 'geometry' && !isWgs84(crs) ? [position] : [],
    ),
  };
}

function columnsAfter(job: ChangesJob): readonly PlannedColumn[] {
  const { schema, plannedFrom, datasetId } = job;
  const observed = new Map(plannedFrom.columns.map((column) => [column.name, column]));
  const all = [...schema.columns, ...schema.envelopeColumns];
  if (!job.addsColumns) {
    const byName = new Map(all.map((column) => [column.name, column]));
    return plannedFrom.columns.map(({ name, ...rest }) => ({
      ...rest,
      column: present(byName.get(name), 'the schema has every column of the table'),
    }));
  }
  const usable = all.filter(({ name }, index) => index < schema.columns.length || observed.has(name));
  const given = columnNames(usable.map(({ name }) => name));
  return usable.map((column, index) => ({
    column,
    type: knownType(datasetId, column),
    columnName: given[index] ?? column.name,
    role: roleOf(schema, column, index),
    crs: observed.get(column.name)?.crs ?? null,
  }));
}

function refuseOtherTable(job: ChangesJob, columns: readonly Column[]): void {
  const { schema, plannedFrom } = job;
  const sameKeys = JSON.stringify(schema.keyColumns) === JSON.stringify(plannedFrom.keyColumns);
  if (!sameKeys || schema.keyColumns.length === 0)
    throw inapplicable(job, 'its key columns are not those of the table');
  const byName = new Map(columns.map((column) => [column.name, column]));
  for (const { name, type } of plannedFrom.columns) {
    const column = byName.get(name);
    if (column === undefined)
      throw inapplicable(job, `its schema lacks the column ${quoted(name)} of the table`);
    if (column.type !== type)
      throw inapplicable(job, `its schema has another type for the column ${quoted(name)}`);
  }
}

function roleOf(schema: Schema, column: Column, index: number): PlannedColumn['role'] {
  if (schema.keyColumns.includes(column.name)) return 'key';
  return index < schema.columns.length ? 'data' : 'envelope';
}

function inapplicable(job: ChangesJob, why: string): InapplicableChangesError {
  return new InapplicableChangesError(job.datasetId, job.version, why);
}

function quoted(name: string): string {
  return JSON.stringify(name);
}

/** The number of different name lists that an error examines. */
const MAX_NAME_LISTS = 20;

/**
 * Returns invalid lists of names, each with the page and line of its first occurrence: a name is repeated, or a row that exists
 * afterwards has an unknown name, one that the table lacks, or lacks a required one. `decoded` stands after FROM.
 */
export function findNames(decoded: string, { known, lacking, required }: ChangesColumns): string {
  const lists = `SELECT from_json(names, '["VARCHAR"]') AS names, ${PRESENT}, place FROM (
    SELECT names, ${PRESENT}, min([page, line]) AS place FROM ${decoded} GROUP BY names, ${PRESENT})`;
  return `SELECT names, ${PRESENT}, place[1], place[2] FROM (${lists})
    WHERE len(list_distinct(names)) < len(names) OR (${PRESENT} AND (NOT list_has_all(${textList(known)}, names)
      OR list_has_any(names, ${textList(lacking)}) OR NOT list_has_all(names, ${textList(required)})))
    ORDER BY place LIMIT ${MAX_NAME_LISTS}`;
}

/** Refuses unknown names. `rows` are the results of `findNames`. @throws UnknownColumnsError, BadChangesError, InapplicableChangesError */
export function refuseNames(job: ChangesJob, { pages, columns }: Decoding, rows: readonly Row[]): void {
  const known = new Set(columns.known);
  for (const row of rows) {
    const unknown = row[1] === true ? textListAt(row, 0).filter((name) => !known.has(name)) : [];
    if (unknown.length === 0) continue;
    const place = placeOf(job, pageAt(pages, numberAt(row, 2)), numberAt(row, 3));
    throw new UnknownColumnsError(job.datasetId, [...new Set(unknown)], place);
  }
  for (const row of rows) {
    const names = textListAt(row, 0);
    const page = pageAt(pages, numberAt(row, 2));
    const repeated = names.find((name, index) => names.indexOf(name) !== index);
    if (repeated !== undefined) {
      throw bad(job, page, numberAt(row, 3), `the column ${JSON.stringify(repeated)} is there twice`);
    }
    throw new InapplicableChangesError(job.datasetId, page.version, whyInapplicable(columns, names));
  }
}

function whyInapplicable({ lacking, required }: ChangesColumns, names: readonly string[]): string {
  const carried = names.find((name) => lacking.includes(name));
  if (carried !== undefined) return `rows carry the column ${JSON.stringify(carried)}, which the table lacks`;
  const missing = required.find((name) => !names.includes(name));
  return `rows do not carry the column ${JSON.stringify(missing)} of the table`;
}

/** A column of the net change: true when the key has a row afterwards, false when the key is removed. */
export const PRESENT = 'present';

/** Returns the name, in the net change, of the column at this position (from 0) of `NetChange.columns`. */
export function netColumn(position: number): string {
  return `c${position}`;
}
