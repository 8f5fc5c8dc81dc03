/**
 * The statements that take change pages apart, as text. Pages are read as text and parsed there, which is several
 * times as fast as DuckDB's own reader of JSON files.
 *
 * Cells are named by position and taken out of their rows by position: names of columns may be equal but for case, or
 * mean something to DuckDB. A cell is the JSON text of its value as DuckDB writes it; a JSON null is a null.
 */

import { filePath, text, textList } from '../engine/quoting.ts';
import { MAX_SHOWN_VALUE } from '../snapshot/load-sql.ts';
import type { PlannedColumn } from '../snapshot/table-plan.ts';
import type { ChangesColumns } from './columns.ts';
import { decodeGeometry, type Forms, isForeign, isGeoJson, withGeometrySteps } from './geometry.ts';
import { netColumn, PRESENT } from './net.ts';
import type { Pages } from './pages.ts';
import { hasDoubles } from './rounded.ts';
import { DECODE, REFUSED } from './values.ts';

export interface Decoding {
  readonly pages: Pages;
  readonly columns: ChangesColumns;
}

const REMOVED = '\'"removed"\'';

/** Of a file that is read once, soon, and then removed: to compress it would take longer than to write it. */
export const AS_IT_IS = '(FORMAT parquet, COMPRESSION uncompressed)';

/** Writes every change into a file as `selectDecoded` gives it. */
export function writeDecoded(decoding: Decoding, forms: Forms, path: string): string {
  return `COPY (${selectDecoded(decoding, forms)}) TO ${text(path)} ${AS_IT_IS}`;
}

/**
 * Every change decoded: its place (the page among all and the line in it, from 1), the step that it belongs to, its operation,
 * the names it carries, and a column for each of the table. Raises an error where anything is not what it must be.
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

/** Whether the row has numbers that were read as doubles and must not be rounded. */
export const DOUBLES = 'doubles';

/** Whether a geometry was GeoJSON. */
export function geoJsonFlag(position: number): string {
  return `geojson_${position}`;
}

/** Whether there was a geometry that was not. */
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

/** One row for the first change that is refused: its place, why (a word), the position of the column, and its cell. */
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

/** One row for each change as it is written, with a cell for each column. `bare`: it has neither row nor key. */
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

/** The structures by which DuckDB takes a page apart: the cells of rows and keys, and the names in them. */
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

/** Of a removal, what its key says; where it has none, its row does. */
function keyOrRow(key: string, row: string): string {
  return `CASE WHEN taken.op::VARCHAR = ${REMOVED} AND taken."key" IS NOT NULL THEN ${key} ELSE ${row} END`;
}
