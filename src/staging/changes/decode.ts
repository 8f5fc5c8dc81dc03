/**
 * Decodes changes into Parquet files: all versions of a job at once, or in parts as the versions arrive. A part numbers its
 * pages and steps from its own beginning, so it does not depend on earlier parts.
 */

import { assert } from '../../lib/assert.ts';
import { durable } from '../../lib/files.ts';
import type { ColumnType } from '../../model/records.ts';
import type { ChangesJob, ReadAhead, VersionChanges } from '../../model/write-jobs.ts';
import type { Engine } from '../engine/engine.ts';
import { DuckDbError } from '../engine/errors.ts';
import { filePath, text, textList } from '../engine/sql.ts';
import { isJson } from '../json-text.ts';
import { readParquet } from '../snapshot/parquet.ts';
import { MAX_SHOWN_VALUE } from '../snapshot/scan-sql.ts';
import type { PlannedColumn } from '../snapshot/table-plan.ts';
import { type ChangesColumns, changesColumns, netColumn, PRESENT } from './columns.ts';
import { decodeGeometry, type Forms, isForeign, isGeoJson, withGeometrySteps } from './geometry.ts';
import { hasDoubles } from './numbers.ts';
import { besidePages, type Pages, spooledPages } from './pages.ts';

interface DecodedPart extends ReadAhead {
  readonly path: string;
  /** The number of pages and parts of pages that were read. */
  readonly pages: number;
  readonly forms: Forms;
  /** The settings that decide how the part was decoded, as text. */
  readonly decodedAs: string;
}

/** Returns null when the changes cannot be decoded ahead. */
export async function readAhead(engine: Engine, job: ChangesJob): Promise<DecodedPart | null> {
  try {
    return await decodeVersions(engine, job.versions, changesColumns(job));
  } catch {
    // The error is ignored here: validating the job meets and reports it again.
    if (engine.invalidated) await engine.reopen();
    return null;
  }
}

/** Decodes the changes of versions. @throws DuckDbError */
export async function decodeVersions(
  engine: Engine,
  versions: readonly VersionChanges[],
  columns: ChangesColumns,
): Promise<DecodedPart> {
  const pages = await spooledPages(versions);
  const path = besidePages(versions, 'decoded.parquet');
  const forms = await asFile(() => decode(engine, { pages, columns }, path));
  const decodedAs = JSON.stringify(columns);
  return { path, versions: versions.length, pages: pages.all.length, forms, decodedAs };
}

/**
 * Returns the parts that were read ahead and decoded with the same settings as the job. The settings differ when the version
 * chain was cut before the schema changed.
 */
export function readBefore({ ahead = [] }: ChangesJob, columns: ChangesColumns): readonly DecodedPart[] {
  const decodedAs = JSON.stringify(columns);
  const parts = ahead.map(ownPart);
  return parts.every((part) => part.decodedAs === decodedAs) ? parts : [];
}

/** Returns all changes of the parts for use after FROM, with their pages and steps renumbered. */
export function decodedRows(parts: readonly DecodedPart[]): string {
  let pages = 0;
  let steps = 0;
  const selects = parts.map((part) => {
    const select = `SELECT * REPLACE (page + ${pages} AS page, step + ${steps} AS step) FROM ${readParquet([part.path])}`;
    pages += part.pages;
    steps += part.versions;
    return select;
  });
  return `(${selects.join(' UNION ALL ')})`;
}

/** Runs `write`, which writes decoded changes into a file of their job. */
export function asFile<T>(write: () => Promise<T>): Promise<T> {
  return durable('staging.decode-changes', write);
}

/** Tries the usual form of geometries first, because most services write it. */
async function decode(engine: Engine, decoding: Decoding, path: string): Promise<Forms> {
  try {
    await engine.run(writeDecoded(decoding, 'usual', path));
    return 'usual';
  } catch (error) {
    const hasGeometry = decoding.columns.columns.some(({ type }) => type === 'geometry');
    if (!hasGeometry || !(error instanceof DuckDbError) || error.fault !== 'statement') throw error;
    await engine.run(writeDecoded(decoding, 'every', path));
    return 'every';
  }
}

function ownPart(ahead: ReadAhead): DecodedPart {
  assert('decodedAs' in ahead, 'what was read ahead is prepared by the destination that read it');
  return ahead as DecodedPart;
}

export interface Decoding {
  readonly pages: Pages;
  readonly columns: ChangesColumns;
}

const REMOVED = '\'"removed"\'';

/** The file is soon read once and then removed. Compressing it would take longer than writing it. */
export const AS_IT_IS = '(FORMAT parquet, COMPRESSION uncompressed)';

/** Writes every change into a file, as selected by `selectDecoded`. */
function writeDecoded(decoding: Decoding, forms: Forms, path: string): string {
  return `COPY (${selectDecoded(decoding, forms)}) TO ${text(path)} ${AS_IT_IS}`;
}

/**
 * Decodes every change: its place (the page among all pages and the line in it, from 1), its step, its operation, the column
 * names it carries, and a column for each column of the table. Raises an error for any invalid value.
 */
export function selectDecoded(decoding: Decoding, forms: Forms): string {
  const { columns, keys, elsewhere } = decoding.columns;
  const values = columns.map(
    (column, position) =>
      `${valueAt(column, position, keys.includes(position), forms)} AS ${netColumn(position)}`,
  );
  const flags = elsewhere.flatMap((position) => [
    `coalesce(${isGeoJson(netColumn(position))}, FALSE) AS ${geoJsonFlag(position)}`,
    `coalesce(NOT ${isGeoJson(netColumn(position))}, FALSE) AS ${otherFlag(position)}`,
  ]);
  const op = `CASE WHEN ${IS_CHANGE} THEN op->>'$' ELSE error('no change') END AS op`;
  const rest = [
    `to_json(names)::VARCHAR AS names, op <> ${REMOVED} AS ${PRESENT}`,
    `${hasDoubles(decoding.columns)} AS ${DOUBLES}`,
    ...flags,
    ...values,
  ];
  return `SELECT page, line, step, ${op}, ${rest.join(', ')} FROM (${selectCells(decoding, forms)})`;
}

const IS_CHANGE = `op IN ('"added"', '"changed"', ${REMOVED}) AND NOT bare`;

/** True when the row has numbers that were read as doubles and must not be rounded. */
export const DOUBLES = 'doubles';

/** Returns the flag that is true when a geometry was GeoJSON. */
export function geoJsonFlag(position: number): string {
  return `geojson_${position}`;
}

/** Returns the flag that is true when a geometry had another form than GeoJSON. */
export function otherFlag(position: number): string {
  return `not_geojson_${position}`;
}

function valueAt(column: PlannedColumn, position: number, isKey: boolean, forms: Forms): string {
  const cell = netColumn(position);
  const value = decoded(column, cell, forms);
  return isKey
    ? `CASE WHEN ${cell} IS NULL THEN error('no key') ELSE ${value} END`
    : `CASE WHEN ${cell} IS NOT NULL THEN ${value} END`;
}

function decoded({ type, crs }: PlannedColumn, cell: string, forms: Forms, refused = REFUSED): string {
  return type === 'geometry' ? decodeGeometry(cell, { forms, crs, refused }) : DECODE[type](cell, refused);
}

/** Returns one row for the first refused change: its place, the reason (a word), the position of the column, and its cell. */
export function findRefused(decoding: Decoding): string {
  const { columns, keys } = decoding.columns;
  const found = (why: string, position: number | null, shown: string) =>
    `{'why': '${why}', 'position': ${position ?? 'NULL::INTEGER'}, 'shown': left(${shown}, ${MAX_SHOWN_VALUE})}`;
  const cases = columns.flatMap((column, position) => {
    const cell = netColumn(position);
    const isRefused = `TRY(${decoded(column, cell, 'every', 'NULL')}) IS NULL`;
    const value = `WHEN ${cell} IS NOT NULL AND ${isRefused} THEN ${found('value', position, cell)}`;
    const isNull = `WHEN ${cell} IS NULL THEN ${found('null', position, "''")}`;
    const foreign = `WHEN ${isForeign(cell, column.crs)} THEN ${found('foreign', position, cell)}`;
    return [
      ...(keys.includes(position) ? [isNull] : []),
      ...(column.type === 'geometry' ? [foreign] : []),
      value,
    ];
  });
  return `SELECT page, line, found.why, found.position, found.shown FROM (SELECT page, line, CASE
      WHEN NOT coalesce(${IS_CHANGE}, FALSE) THEN CASE WHEN bare AND op IN ('"added"', '"changed"', ${REMOVED})
        THEN ${found('bare', null, 'op')} ELSE ${found('operation', null, "coalesce(op, 'null')")} END
      ${cases.join(' ')} END AS found FROM (${selectCells(decoding, 'every')}))
    WHERE found IS NOT NULL ORDER BY page, line LIMIT 1`;
}

/**
 * Returns one row for each change with its undecoded cells, one for each column. `bare`: the change has neither row nor key.
 */
function selectCells({ pages, columns }: Decoding, forms: Forms): string {
  const [cells, names] = structures(columns).map(text);
  const reads = pages.batches.map((batch) => {
    const paths = batch.map(({ path }) => path);
    return `SELECT ${(batch[0]?.position ?? 1) - 1} + list_position(${textList(paths)}, filename) AS page,
      from_json(content, ${cells}).changes AS taken, from_json(content, ${names}).changes AS named
      FROM read_text([${paths.map(filePath).join(', ')}])`;
  });
  const changes = `SELECT page, unnest(range(1, coalesce(len(taken), error('no changes')) + 1)) AS line,
    unnest(taken) AS taken, unnest(named) AS named FROM (${reads.join(' UNION ALL ')})`;
  const values = columns.columns.map(
    (_, position) => `${cellAt(columns, position)}::VARCHAR AS ${netColumn(position)}`,
  );
  const select = `SELECT page, line, [${pages.all.map(({ step }) => step).join(', ')}][page]::INTEGER AS step,
    taken.op::VARCHAR AS op, ${keyOrRow('map_keys(named."key")', 'map_keys(named."row")')} AS names,
    ${keyOrRow('FALSE', 'taken."row" IS NULL')} AS bare, ${values.join(', ')} FROM (${changes})`;
  const geometries = columns.columns.flatMap(({ type }, position) =>
    type === 'geometry' ? [netColumn(position)] : [],
  );
  return withGeometrySteps(select, geometries, forms);
}

/** The structures by which DuckDB parses a page: the cells of rows and keys, and the names in them. */
function structures({ columns, keys }: ChangesColumns): readonly string[] {
  const cellsOf = (some: readonly (PlannedColumn | undefined)[]) =>
    some.map((column) => `${JSON.stringify(column?.column.name)}:"JSON"`).join(',');
  const key = cellsOf(keys.map((position) => columns[position]));
  return [
    `{"changes":[{"op":"JSON","row":{${cellsOf(columns)}},"key":{${key}}}]}`,
    '{"changes":[{"row":"MAP(VARCHAR, BOOLEAN)","key":"MAP(VARCHAR, BOOLEAN)"}]}',
  ];
}

function cellAt({ keys }: ChangesColumns, position: number): string {
  const inRow = `struct_extract_at(taken."row", ${position + 1})`;
  const inKey = keys.indexOf(position);
  if (inKey >= 0) return keyOrRow(`struct_extract_at(taken."key", ${inKey + 1})`, inRow);
  return `CASE WHEN taken.op::VARCHAR <> ${REMOVED} THEN ${inRow} END`;
}

/** A removal is identified by its key, or by its row when it has no key. */
function keyOrRow(key: string, row: string): string {
  return `CASE WHEN taken.op::VARCHAR = ${REMOVED} AND taken."key" IS NOT NULL THEN ${key} ELSE ${row} END`;
}

/** Builds SQL for the value from SQL for its non-null JSON text. `refused` is the SQL for a value that is refused. */
type Decode = (cell: string, refused: string) => string;

/** This error ends the statement. `TRY` cannot catch it, so the search for the refused value uses null instead. */
const REFUSED = "error('not of its type')";

/** A decimal text, or a number that DuckDB reads as a fraction (`1.0`, `1e3`). numbers.ts finds the rounded ones. */
const OTHER_INTEGER = '"-?[0-9]+"|-?[0-9]+\\.0';
const DATE = '"[0-9]{4}-[0-9]{2}-[0-9]{2}"';
const HOUR_AND_MINUTE = '(?:[01][0-9]|2[0-3]):[0-5][0-9]';
/** RFC 3339 with an offset. Digits below the microsecond must be zeros. */
const TIMESTAMP =
  `"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt]${HOUR_AND_MINUTE}:[0-5][0-9]` +
  `(?:\\.[0-9]{1,6}0*)?(?:[Zz]|[-+]${HOUR_AND_MINUTE})"`;

/** Geometries take more than one step; geometry.ts decodes them. */
const DECODE: Readonly<Record<Exclude<ColumnType, 'geometry'>, Decode>> = {
  string: (cell, refused) => `CASE WHEN starts_with(${cell}, '"') THEN ${unquoted(cell)} ELSE ${refused} END`,
  // DuckDB also accepts a leading blank and a fraction that it rounds. Writing the integer again reveals both.
  integer: (cell, refused) => `CASE WHEN TRY_CAST(${cell} AS BIGINT)::VARCHAR = ${cell} THEN ${cell}::BIGINT
    WHEN regexp_full_match(${cell}, '${OTHER_INTEGER}') THEN ${unquoted(cell)}::BIGINT ELSE ${refused} END`,
  number: (cell, refused) =>
    `CASE WHEN isfinite(TRY_CAST(${cell} AS DOUBLE)) THEN ${cell}::DOUBLE ELSE ${refused} END`,
  boolean: (cell, refused) =>
    `CASE ${cell} WHEN 'true' THEN TRUE WHEN 'false' THEN FALSE ELSE ${refused} END`,
  date: (cell, refused) =>
    `CASE WHEN regexp_full_match(${cell}, '${DATE}') THEN ${unquoted(cell)}::DATE ELSE ${refused} END`,
  timestamp: (
    cell,
    refused,
  ) => `CASE WHEN regexp_full_match(${cell}, '${TIMESTAMP}') THEN upper(${unquoted(cell)})::TIMESTAMPTZ
    ELSE ${refused} END`,
  json: (cell, refused) => `CASE WHEN ${isJson(cell)} THEN ${cell}::JSON ELSE ${refused} END`,
};

/** Names a value of the type in the message `which is no …`. */
export const TYPE_WORDS: Readonly<Record<ColumnType, string>> = {
  string: 'string',
  integer: 'integer of 64 bits',
  number: 'number that a double can hold',
  boolean: 'boolean',
  date: 'date of the form YYYY-MM-DD',
  timestamp: 'timestamp with an offset and no more than microseconds',
  geometry: 'geometry that can be read',
  json: 'JSON',
};

function unquoted(cell: string): string {
  return `(${cell}->>'$')`;
}
