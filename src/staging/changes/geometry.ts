/**
 * Decodes the geometries of change rows to well-known binary in SQL, from a GeoJSON geometry object, from WKT, or from WKB in
 * hexadecimal digits. DuckDB reads WKT and WKB itself; GeoJSON is rewritten to WKT.
 *
 * Invariant: a geometry that is not understood completely is refused. DuckDB's WKT reader stops at the end of the first
 * geometry and reads numbers that are too large as infinite, so the shape of every text is compared before or after reading.
 */

import { readFile } from 'node:fs/promises';
import { isInOtherSystem, sridBytes } from '../coordinate-systems.ts';
import { text } from '../engine/sql.ts';
import type { ChangesColumns } from './columns.ts';
import { type Page, pageCells } from './pages.ts';

/** Collections may nest to this depth. Each level costs one more pass over the text. */
const MAX_COLLECTION_DEPTH = 8;

/**
 * The forms of geometries that a statement decodes:
 * - `usual`: single GeoJSON geometries with type and coordinates and nothing else, in this order.
 * - `every`: all forms. Preparing this statement takes DuckDB longer than reading a small version.
 */
export type Forms = 'usual' | 'every';

/** As DuckDB writes JSON numbers, without numbers that a double cannot hold. */
const EXPONENT = '[eE](?:-[0-9]{1,3}|[+]?(?:[0-9]{1,2}|[12][0-9]{2}|30[0-7]))';
const NUMBER = `-?(?:[0-9]{1,30}(?:\\.[0-9]+)?|[0-9](?:\\.[0-9]+)?${EXPONENT})`;
const POSITION = `\\[${NUMBER},${NUMBER}(?:,${NUMBER})?\\]`;

/** A list of members, which may be empty. The text is valid JSON, so the commas are where they must be. */
function listOf(member: string): string {
  return `\\[(?:(?:${member}|\\[\\]),?)*\\]`;
}

const LINE = listOf(POSITION);
const LINES = listOf(LINE);
const COORDINATES = '","coordinates":';
/**
 * A geometry of the usual form. The pattern checks that lists have even depth and hold only finite numbers. The WKT reader
 * checks the rest, such as which list may be empty.
 */
const USUAL = `\\{"type":"(?:${[
  `Point${COORDINATES}(?:${POSITION}|\\[\\])`,
  `(?:LineString|MultiPoint)${COORDINATES}${LINE}`,
  `(?:Polygon|MultiLineString)${COORDINATES}${LINES}`,
  `MultiPolygon${COORDINATES}${listOf(LINES)}`,
].join('|')})\\}`;

/** The first position has three numbers. The WKT reader counts the numbers of the others. */
const HAS_HEIGHT = '^[^\\[]*[\\[\\],]+[^\\[\\],]+,[^\\[\\],]+,[^\\[\\],]';
/** Any position in the text of a collection has three numbers. */
const HAS_HEIGHT_INSIDE = '\\[[^\\[\\],]+,[^\\[\\],]+,[^\\[\\],]+\\]';

/** The members read from a GeoJSON object. Drafts before the standard had the member `crs`. */
const MEMBERS = '{"type":"VARCHAR","crs":"JSON"}';
const USUAL_MEMBERS = '{"type":"VARCHAR","coordinates":"JSON"}';
const WGS_84 = 'CRS84|4326';

const HEXADECIMAL = '(?:[0-9A-Fa-f]{2})+';

/** Returns SQL that is true when the cell, as JSON text, is GeoJSON. GeoJSON coordinates are longitude and latitude in WGS 84. */
export function isGeoJson(cell: string): string {
  return `starts_with(${cell}, '{')`;
}

/**
 * Adds columns to the rows of `select`, from which `decodeGeometry` computes the geometries of the given cells. Each step is a
 * separate select: DuckDB computes a column once, but an expression as often as it occurs.
 */
export function withGeometrySteps(select: string, cells: readonly string[], forms: Forms): string {
  const forEvery = [
    (cell: string) =>
      `from_json(CASE WHEN ${isGeoJson(cell)} THEN ${cell} END, ${text(MEMBERS)}) AS ${head(cell)}`,
    (cell: string) => `CASE WHEN ${head(cell)}.type <> 'GeometryCollection'
        AND coalesce(regexp_matches(${head(cell)}.crs, '${WGS_84}'), TRUE)
      THEN to_json(from_json(${cell}, ${text(USUAL_MEMBERS)}))::VARCHAR END AS ${usual(cell, forms)},
      CASE WHEN ${head(cell)}.type = 'GeometryCollection' THEN ${collection(cell)}
        WHEN starts_with(${cell}, '"') THEN ${cell}->>'$' END AS ${other(cell)}`,
  ];
  const steps = [
    ...(forms === 'every' ? forEvery : []),
    (cell: string) => `${rewritten(withoutOutermost(usual(cell, forms)))} AS ${listed(cell)}`,
  ];
  if (cells.length === 0) return select;
  return steps.reduce((from, step) => `SELECT *, ${cells.map(step).join(', ')} FROM (${from})`, select);
}

/** How to decode a cell: its forms, the coordinate system of its column, and the SQL for a refused value. */
interface GeometryCell {
  readonly forms: Forms;
  readonly crs: string | null;
  readonly refused: string;
}

/**
 * Returns the WKB of a non-null cell, in a select from `withGeometrySteps`. Raises an error for a cell without a valid
 * geometry.
 */
export function decodeGeometry(cell: string, { forms, crs, refused }: GeometryCell): string {
  const given = usual(cell, forms);
  const type = `substring(${given}, 10, instr(${given}, '${COORDINATES}') - 10)`;
  const height = `CASE WHEN regexp_matches(${given}, ${text(HAS_HEIGHT)}) THEN ' Z ' ELSE ' ' END`;
  const others = `WHEN ${isForeign(cell, crs)} THEN ${refused}
    WHEN ${isWkb(cell)} THEN CASE WHEN ${isWkbWhollyRead(other(cell))} THEN ${geometryOfWkb(other(cell))} ELSE ${refused} END
    WHEN ${isWhollyRead(other(cell))} THEN ${other(cell)}::GEOMETRY`;
  return `ST_AsWKB(CASE WHEN regexp_full_match(${given}, ${text(USUAL)})
    THEN (upper(${type}) || ${height} || ${listed(cell)})::GEOMETRY
    ${forms === 'every' ? others : ''} ELSE ${refused} END)`;
}

/** Returns SQL that is true when the cell names a coordinate system other than its column's. */
export function isForeign(cell: string, crs: string | null): string {
  return `(${isWkb(cell)} AND ${isInOtherSystem(other(cell), crs)})`;
}

function isWkb(cell: string): string {
  return `regexp_full_match(${other(cell)}, '${HEXADECIMAL}')`;
}

function geometryOfWkb(digits: string): string {
  return `ST_GeomFromWKB(unhex(${digits}))`;
}

/** Parts with a coordinate system of their own would silently lose it. */
function isWkbWhollyRead(digits: string): string {
  return `strlen(${digits}) // 2 = octet_length(ST_AsWKB(${geometryOfWkb(digits)})) + ${sridBytes(digits)}`;
}

/** The cell in the usual form; null when it has another form. */
function usual(cell: string, forms: Forms): string {
  return forms === 'usual' ? cell : `usual_${cell}`;
}

/** The members of a GeoJSON object beside its geometry. */
const head = (cell: string) => `head_${cell}`;
/** The coordinates in WKT's notation. */
const listed = (cell: string) => `listed_${cell}`;
/** Any other form than a single GeoJSON geometry: a text, or a collection as WKT. */
const other = (cell: string) => `other_${cell}`;

/** Rewriting removes the brackets of positions. The outermost brackets go as well, so that the inner ones take their place. */
function withoutOutermost(given: string): string {
  const marked = `CASE WHEN contains(${given}, '[]') THEN ${replaced(given, '[]', '[EMPTY]')} ELSE ${given} END`;
  return `CASE WHEN ends_with(${given}, ':[]}') THEN 'EMPTY'
    WHEN starts_with(${given}, '{"type":"Point"') THEN substring(${given}, instr(${given}, '['), strlen(${given}) - instr(${given}, '['))
    ELSE substring(${marked}, instr(${given}, '[') + 1, strlen(${marked}) - instr(${given}, '[') - 2) END`;
}

/** Separates the numbers of a position by blanks, positions by commas, and turns brackets into parentheses. */
function rewritten(coordinates: string): string {
  const separated = replaced(replaced(coordinates, ',', ' '), '] [', ',');
  return replaced(replaced(separated, '[', '('), ']', ')');
}

/** Equals `replace`, and is three times as fast. */
function replaced(value: string, search: string, replacement: string): string {
  return `list_aggregate(string_split(${value}, ${text(search)}), 'string_agg', ${text(replacement)})`;
}

/** Extracts the members of a collection. Other members and collections nested more deeply are left out. */
function membersOf(depth: number): string {
  const inside = depth === 0 ? '' : `,"geometries":[${membersOf(depth - 1)}]`;
  return `{"type":"VARCHAR","coordinates":"JSON"${inside}}`;
}

/**
 * The replacements for the parts of a collection's text, in order. A `~` stands for the height, a `;` for a comma between
 * geometries. The end of a collection is found only after the collections inside it.
 */
const COLLECTION_STEPS: readonly (readonly [search: string, replacement: string])[] = [
  [',"geometries":null', ''],
  ['"coordinates":null,', ''],
  ['","coordinates":[]}', '~EMPTY}'],
  ['","geometries":[]}', '~EMPTY}'],
  ['[]', '[EMPTY]'],
  ['Point","coordinates":[', 'Point~['],
  ['MultiPoint~[', 'MultiPoint~'],
  ['","coordinates":[', '~'],
  ['","geometries":[', '~('],
  ['{"type":"', ''],
  ...Array.from({ length: MAX_COLLECTION_DEPTH }, (): readonly [string, string] => ['}]}', '})}']),
  [']]}', ']}'],
  ['},', ';'],
  ['}', ''],
];

function collection(cell: string): string {
  const plain = `to_json(from_json(${cell}, ${text(membersOf(MAX_COLLECTION_DEPTH))}))::VARCHAR`;
  const steps = COLLECTION_STEPS.reduce(
    (result, [search, replacement]) => replaced(result, search, replacement),
    plain,
  );
  const height = `CASE WHEN regexp_matches(${cell}, ${text(HAS_HEIGHT_INSIDE)}) THEN ' Z ' ELSE ' ' END`;
  return `replace(${replaced(rewritten(steps), ';', ',')}, '~', ${height})`;
}

/** True when the geometry that DuckDB has read contains every word, parenthesis and comma of the text, and as many numbers. */
function isWhollyRead(given: string): string {
  const read = outline(`ST_AsText(${given}::GEOMETRY)`);
  return `NOT regexp_matches(${given}, '(?i)nan|inf') AND ${outline(given)} = ${read}`;
}

/**
 * Returns the text without white space, with `#` for each number, and without the parentheses around single points of a
 * MULTIPOINT.
 */
function outline(value: string): string {
  const numbers = `regexp_replace(upper(${value}), '[-+]?[0-9.]+(?:E[-+]?[0-9]+)?', '#', 'g')`;
  const bare = `regexp_replace(${numbers}, '\\s+', '', 'g')`;
  const ofOne = `regexp_replace(${bare}, '\\(\\((#+)\\)\\)', '(\\1)', 'g')`;
  return `regexp_replace(${ofOne}, '\\((#+)\\)', '\\1', 'g')`;
}

/** The most levels of parts: DuckDB writes no geometry with deeper nesting as text. */
const MAX_PART_DEPTH = 15;

const HEXADECIMAL_WKB = /^(?:[\da-f]{2})+$/i;

export interface OddGeometry {
  /** From 1. */
  readonly line: number;
  readonly column: string;
  /** The JSON text of the geometry. */
  readonly written: string;
}

/** Returns the first invalid WKB geometry of the page; null when all are valid. */
export async function findOddGeometry(page: Page, { columns }: ChangesColumns): Promise<OddGeometry | null> {
  const names = new Set(columns.flatMap(({ column, type }) => (type === 'geometry' ? [column.name] : [])));
  for (const { line, column, cell } of pageCells(JSON.parse(await readFile(page.path, 'utf8')))) {
    if (!names.has(column) || typeof cell !== 'string' || !HEXADECIMAL_WKB.test(cell)) continue;
    if (!isOneGeometry(Buffer.from(cell, 'hex'))) return { line, column, written: JSON.stringify(cell) };
  }
  return null;
}

/** Accepts ISO WKB and EWKB in any byte order. Only the whole geometry may carry a coordinate system, not its parts. Pure. */
export function isOneGeometry(wkb: Buffer): boolean {
  try {
    return endOf(wkb, 0, null, MAX_PART_DEPTH) === wkb.length;
  } catch (error) {
    // Node throws RangeError when the buffer has too few bytes.
    if (error instanceof RangeError) return false;
    throw error;
  }
}

const POINT = 1;
const LINE_STRING = 2;
const POLYGON = 3;
const MULTI_POINT = 4;
const COLLECTION = 7;

const HEIGHT = 0x8000_0000;
const MEASURE = 0x4000_0000;
const SRID = 0x2000_0000;

interface Head {
  /** 1 to 7, in the order of the standard. */
  readonly kind: number;
  readonly hasHeight: boolean;
  readonly hasMeasure: boolean;
}

/** Returns the end of the geometry that begins at `start`. @throws RangeError when no geometry ends. */
function endOf(wkb: Buffer, start: number, whole: Head | null, depth: number): number {
  const order = wkb.readUInt8(start);
  const wordAt = (at: number): number => (order === 1 ? wkb.readUInt32LE(at) : wkb.readUInt32BE(at));
  const type = wordAt(start + 1);
  const head = headOf(type);
  const hasSystem = (type & SRID) !== 0;
  if (order > 1 || head === null || !isPartOf(head, whole) || (hasSystem && whole !== null))
    throw new RangeError();

  const body = start + (hasSystem ? 9 : 5);
  const positionBytes = 8 * (2 + Number(head.hasHeight) + Number(head.hasMeasure));
  if (head.kind === POINT) return body + positionBytes;
  if (head.kind === LINE_STRING) return body + 4 + wordAt(body) * positionBytes;
  if (head.kind >= MULTI_POINT && depth === 0) throw new RangeError();
  let end = body + 4;
  for (let parts = wordAt(body); parts > 0; parts -= 1) {
    if (head.kind === POLYGON) end += 4 + wordAt(end) * positionBytes;
    else end = endOf(wkb, end, head, depth - 1);
  }
  return end;
}

/** Returns null for a number without a meaning. */
function headOf(type: number): Head | null {
  const code = (type & ~(HEIGHT | MEASURE | SRID)) >>> 0;
  const dimensions = Math.trunc(code / 1_000);
  const kind = code % 1_000;
  if (kind < POINT || kind > COLLECTION || dimensions > 3) return null;
  return {
    kind,
    hasHeight: (type & HEIGHT) !== 0 || dimensions % 2 === 1,
    hasMeasure: (type & MEASURE) !== 0 || dimensions >= 2,
  };
}

function isPartOf(part: Head, whole: Head | null): boolean {
  if (whole === null) return true;
  const isKind = whole.kind === COLLECTION || part.kind === whole.kind - (MULTI_POINT - POINT);
  return isKind && part.hasHeight === whole.hasHeight && part.hasMeasure === whole.hasMeasure;
}
