/**
 * Plans the table of a snapshot: its columns in the service's order, and their source in each file. Pure.
 *
 * Files are read in groups of the same layout, because DuckDB would convert all files to the types of the first one.
 */

import { present } from '../../lib/assert.ts';
import { plural } from '../../lib/units.ts';
import { DataError, UnknownColumnsError } from '../../model/errors.ts';
import { columnNames } from '../../model/naming.ts';
import type { Column, ColumnType } from '../../model/records.ts';
import type { SnapshotJob } from '../../model/write-jobs.ts';
import { isWgs84 } from '../coordinate-systems.ts';
import type { Engine } from '../engine/engine.ts';
import { DuckDbError } from '../engine/errors.ts';
import { textAt } from '../engine/sql.ts';
import { type Cast, castFor, castOfNothing, knownType } from './casts.ts';
import { type ParquetColumn, type ParquetFile, unreadableFile } from './parquet.ts';
import { findAnyValue, findFilled } from './scan-sql.ts';

/** The longest part of the name of a type or an encoding in an error, in characters. */
const MAX_SHOWN_FORM = 200;

export interface TablePlan {
  readonly columns: readonly PlannedColumn[];
  readonly groups: readonly FileGroup[];
}

export interface PlannedColumn {
  readonly column: Column;
  readonly type: ColumnType;
  /** The column's name in the mirror. */
  readonly columnName: string;
  readonly role: 'key' | 'data' | 'envelope';
  /** The coordinate system of a geometry; null when unknown, and for other columns. */
  readonly crs: string | null;
}

export interface FileGroup {
  readonly files: readonly ParquetFile[];
  /** The number of columns in the files. */
  readonly width: number;
  /** For each column of the plan: its position in the files and its cast. */
  readonly sources: readonly Source[];
}

export interface Source {
  readonly position: number;
  readonly cast: Cast;
}

interface Place extends Pick<FileGroup, 'files' | 'width'> {
  /** The position of the column in the files. */
  readonly position: number;
}

/** The error where no cast converts the column. Never leaves this folder: `refuseOtherFamily` makes the error for the operator. */
export class OtherFamilyError extends Error {
  override readonly name = 'OtherFamilyError';
  readonly planned: PlannedColumn;
  readonly physicalType: string;
  readonly place: Place;

  constructor(planned: PlannedColumn, physicalType: string, place: Place) {
    super(`${physicalType} is no ${planned.type}`);
    this.planned = planned;
    this.physicalType = physicalType;
    this.place = place;
  }
}

/**
 * Plans the table of a snapshot. @throws DataError when the files do not fit the schema, or the schema cannot become a table.
 * @throws OtherFamilyError
 */
export function planTable(job: SnapshotJob, files: readonly ParquetFile[]): TablePlan {
  const { datasetId, schema } = job;
  refuseRepeatedColumns(datasetId, files);
  const present = new Set(files.flatMap((file) => file.columns.map((column) => column.name)));
  const envelope = schema.envelopeColumns.filter((column) => present.has(column.name));
  const columns = [...schema.columns, ...envelope];
  refuseUnfitSchema(job, columns);
  refuseUnknownColumns(job, files);

  const names = columnNames(columns.map((column) => column.name));
  const keys = new Set(schema.keyColumns);
  const planned = columns.map((column, index): PlannedColumn => {
    const isEnvelope = index >= schema.columns.length;
    const type = knownType(datasetId, column);
    return {
      column,
      type,
      columnName: names[index] ?? column.name,
      role: keys.has(column.name) ? 'key' : isEnvelope ? 'envelope' : 'data',
      crs: type === 'geometry' ? commonCrs(datasetId, column, files) : null,
    };
  });
  return { columns: planned, groups: groupFiles(datasetId, planned, files) };
}

function groupFiles(
  datasetId: string,
  columns: readonly PlannedColumn[],
  files: readonly ParquetFile[],
): readonly FileGroup[] {
  // A file without rows may lack columns, and supplies none.
  const filled = files.filter(({ rowCount }) => rowCount > 0);
  const byLayout = Map.groupBy(filled, (file) =>
    JSON.stringify(
      file.columns.map(({ name, type, geometry, hasValue }) => [name, type, geometry, hasValue]),
    ),
  );
  return [...byLayout.values()].map((group) => ({
    files: group,
    width: group[0]?.columns.length ?? 0,
    sources: columns.map((column) => sourceOf(datasetId, column, group)),
  }));
}

function sourceOf(datasetId: string, planned: PlannedColumn, group: readonly ParquetFile[]): Source {
  const { column, type } = planned;
  const [first] = group;
  const position = first?.columns.findIndex((candidate) => candidate.name === column.name) ?? -1;
  const physical = first?.columns[position];
  if (first === undefined || physical === undefined) {
    throw new DataError(`The column ${quoted(column.name)} of ${datasetId} is missing in ${namesOf(group)}.`);
  }
  if (physical.hasValue) for (const file of group) refuseInexact(file, physical);
  const cast = castFor(physical, type) ?? (physical.hasValue ? null : castOfNothing(type));
  if (cast === null)
    throw new OtherFamilyError(planned, formOf(physical), {
      files: group,
      width: first.columns.length,
      position,
    });
  return { position, cast };
}

function refuseInexact(file: ParquetFile, { name }: ParquetColumn): void {
  const inexact = file.columns.find((column) => column.name === name)?.inexact ?? null;
  if (inexact === null) return;
  throw new DataError(
    `The file ${file.file.name} holds in the column ${quoted(name)} ${inexact}, which would be cut to microseconds.`,
    {
      hint: 'Ask the service for timestamps in microseconds: coerce_timestamps="us" in pandas, TIMESTAMP_MICROS in Spark.',
    },
  );
}

/** Describes a column of a file, for an error. */
function formOf({ type, geometry }: ParquetColumn): string {
  const encoding = geometry?.encoding ?? null;
  const shownType = type.slice(0, MAX_SHOWN_FORM);
  return encoding === null
    ? shownType
    : `${shownType} in the encoding ${quoted(encoding.slice(0, MAX_SHOWN_FORM))}`;
}

/**
 * When no file holds a value, WGS 84 is assumed if one names it: the first value with a coordinate system may be GeoJSON, which
 * is in WGS 84. Any other system would keep GeoJSON out.
 */
function commonCrs(datasetId: string, column: Column, files: readonly ParquetFile[]): string | null {
  const places = files.flatMap(({ columns }) => columns.filter(({ name }) => name === column.name));
  const statedIn = (some: readonly ParquetColumn[]) =>
    new Set(some.map(({ geometry }) => geometry?.crs ?? null));
  const filled = places.filter(({ hasValue }) => hasValue);
  if (filled.length === 0) return [...statedIn(places)].find(isWgs84) ?? null;
  const stated = statedIn(filled);
  if (stated.size === 1) return [...stated][0] ?? null;
  const list = [...stated].map((crs) => crs ?? 'an unknown one').join(', ');
  throw new DataError(
    `The files of ${datasetId} hold ${quoted(column.name)} in several coordinate systems: ${list}.`,
  );
}

function refuseRepeatedColumns(datasetId: string, files: readonly ParquetFile[]): void {
  for (const file of files) {
    const repeated = firstRepeated(file.columns.map((column) => column.name));
    if (repeated === null) continue;
    throw new DataError(
      `The file ${file.file.name} of ${datasetId} has the column ${quoted(repeated)} twice.`,
    );
  }
}

function refuseUnfitSchema(job: SnapshotJob, columns: readonly Column[]): void {
  const { datasetId, schema } = job;
  const names = columns.map((column) => column.name);
  if (names.length === 0) throw new DataError(`The schema of ${datasetId} has no columns.`);
  const repeated = firstRepeated(names);
  if (repeated !== null)
    throw new DataError(`The schema of ${datasetId} has the column ${quoted(repeated)} twice.`);
  const missing = schema.keyColumns.find((key) => !names.includes(key));
  if (missing !== undefined) {
    throw new DataError(
      `The key column ${quoted(missing)} of ${datasetId} is missing in its schema or files.`,
    );
  }
}

function refuseUnknownColumns(job: SnapshotJob, files: readonly ParquetFile[]): void {
  const { columns, envelopeColumns } = job.schema;
  const known = new Set([...columns, ...envelopeColumns].map((column) => column.name));
  for (const { file, columns: present, coverings } of files) {
    const unknown = present
      .map(({ name }) => name)
      .filter((name) => !known.has(name) && !coverings.has(name));
    if (unknown.length === 0) continue;
    throw new UnknownColumnsError(job.datasetId, unknown, `The file ${file.name} of ${job.datasetId}`);
  }
}

function firstRepeated(names: readonly string[]): string | null {
  const seen = new Set<string>();
  for (const name of names) {
    if (seen.has(name)) return name;
    seen.add(name);
  }
  return null;
}

function namesOf(group: readonly ParquetFile[]): string {
  const [first, ...others] = group.map((file) => file.file.name);
  return others.length === 0
    ? `the file ${first}`
    : `the file ${first} and ${plural(others.length, 'other')}`;
}

function quoted(name: string): string {
  return JSON.stringify(name);
}

/** Returns the files with `hasValue` false for the columns that hold no value. @throws InterruptedError */
export async function markValueless(
  engine: Engine,
  { schema }: SnapshotJob,
  files: readonly ParquetFile[],
): Promise<readonly ParquetFile[]> {
  const valueless = new Set<ParquetColumn>();
  for (const column of [...schema.columns, ...schema.envelopeColumns]) {
    for await (const found of findValueless(engine, column, files)) valueless.add(found);
  }
  if (valueless.size === 0) return files;
  return files.map((file) => ({
    ...file,
    columns: file.columns.map((column) => (valueless.has(column) ? { ...column, hasValue: false } : column)),
  }));
}

/** A column of one file. */
interface ColumnPlace {
  readonly file: ParquetFile;
  readonly column: ParquetColumn;
}

async function* findValueless(
  engine: Engine,
  { name, type }: Column,
  files: readonly ParquetFile[],
): AsyncGenerator<ParquetColumn> {
  if (typeof type !== 'string') return;
  const places = files.flatMap((file): readonly ColumnPlace[] =>
    file.columns.flatMap((column) => (column.name === name && column.hasValue ? { file, column } : [])),
  );
  const systems = [...new Set(places.map(({ column }) => column.geometry?.crs ?? null))];
  const isOne = systems.length === 1;
  // An unknown system and WGS 84 mean the same with and without a value (`commonCrs`).
  let isKnown = type !== 'geometry' || (isOne && systems.every((crs) => crs === null || isWgs84(crs)));
  for (const place of places) {
    if (isKnown && isReadable(place.column, type)) continue;
    const isFilled = await hasValue(engine, place);
    if (!isFilled) yield place.column;
    // When all files name the same system, one value is enough to prove that it counts.
    else if (isOne) isKnown = true;
  }
}

function isReadable(column: ParquetColumn, type: ColumnType): boolean {
  return column.inexact === null && castFor(column, type) !== null;
}

/** Returns true as well for an unreadable file: the load reports its fault. */
async function hasValue(engine: Engine, { file, column }: ColumnPlace): Promise<boolean> {
  try {
    return (await engine.rows(findFilled(file, file.columns.indexOf(column)))).length > 0;
  } catch (error) {
    if (error instanceof DuckDbError && error.fault === 'interrupted')
      throw await unreadableFile(engine, file, error);
    if (engine.invalidated) await engine.reopen();
    return true;
  }
}

/** Throws the error for the operator. */
export async function refuseOtherFamily(
  engine: Engine,
  datasetId: string,
  { planned: { column, type }, physicalType, place }: OtherFamilyError,
): Promise<unknown> {
  const first = present(place.files[0], 'a column of files has a file');
  try {
    const [row] = await engine.rows(findAnyValue(place, place.position));
    const found = present(row, 'a column without a value is of no family');
    const path = textAt(found, 0);
    const { file } = place.files.find((one) => one.file.path === path) ?? first;
    return new DataError(
      `The file ${file.name} of ${datasetId} holds in the column ${JSON.stringify(column.name)} ` +
        `the value ${JSON.stringify(found[1])} of type ${physicalType}, which is another family of types than ${type}.`,
    );
  } catch (error) {
    return await unreadableFile(engine, first, error);
  }
}
