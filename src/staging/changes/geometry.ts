/**
 * Geometries of change rows as SQL that makes them well-known binary: a GeoJSON geometry object, WKT, or WKB in
 * hexadecimal digits. DuckDB reads WKT and WKB itself; GeoJSON becomes WKT by rewriting its text.
 *
 * Invariant: what is not wholly understood is refused. DuckDB's reader of WKT stops where the first geometry ends, and
 * takes numbers that are too large for infinite ones, so the shape of every text is compared before or after it is read.
 */

import { readFile } from 'node:fs/promises';
import { isInOtherSystem, sridBytes } from '../coordinate-systems.ts';
import { text } from '../engine/sql.ts';
import type { ChangesColumns } from './columns.ts';
import { type Page, pageCells } from './pages.ts';

/** Collections may hold collections, to this depth: each is one more passage over the text. */
const MAX_COLLECTION_DEPTH = 8;

/**
 * - `usual`: single geometries of GeoJSON with their type, their coordinates and nothing else, in this order.
 * - `every`: all forms. It takes DuckDB longer to prepare than to read a small version.
 */
export type Forms = 'usual' | 'every';

/** As DuckDB writes the numbers of JSON, and none that a double cannot hold. */
const EXPONENT = '[eE](?:-[0-9]{1,3}|[+]?(?:[0-9]{1,2}|[12][0-9]{2}|30[0-7]))';
const NUMBER = `-?(?:[0-9]{1,30}(?:\\.[0-9]+)?|[0-9](?:\\.[0-9]+)?${EXPONENT})`;
const POSITION = `\\[${NUMBER},${NUMBER}(?:,${NUMBER})?\\]`;

/** A list of these, of which each may be empty. Commas are where they must be, for it is JSON. */
function listOf(member: string): string {
  return `\\[(?:(?:${member}|\\[\\]),?)*\\]`;
}

const LINE = listOf(POSITION);
const LINES = listOf(LINE);
const COORDINATES = '","coordinates":';
/**
 * A usual geometry. It makes sure that the lists are of even depth and hold nothing but finite numbers; the rest, as
 * which list may be empty, is seen by the reader of WKT.
 */
const USUAL = `\\{"type":"(?:${[
  `Point${COORDINATES}(?:${POSITION}|\\[\\])`,
  `(?:LineString|MultiPoint)${COORDINATES}${LINE}`,
  `(?:Polygon|MultiLineString)${COORDINATES}${LINES}`,
  `MultiPolygon${COORDINATES}${listOf(LINES)}`,
].join('|')})\\}`;

/** The first position that is there has three numbers. The reader of WKT counts those of the others. */
const HAS_HEIGHT = '^[^\\[]*[\\[\\],]+[^\\[\\],]+,[^\\[\\],]+,[^\\[\\],]';
/** Any position in the text of a collection has. */
const HAS_HEIGHT_INSIDE = '\\[[^\\[\\],]+,[^\\[\\],]+,[^\\[\\],]+\\]';

/** What is taken out of a GeoJSON object. `crs` was a member of it before there was a standard. */
const MEMBERS = '{"type":"VARCHAR","crs":"JSON"}';
const USUAL_MEMBERS = '{"type":"VARCHAR","coordinates":"JSON"}';
const WGS_84 = 'CRS84|4326';

const HEXADECIMAL = '(?:[0-9A-Fa-f]{2})+';

/** True where the cell, as JSON text, is GeoJSON, whose coordinates are longitude and latitude in WGS 84. */
export function isGeoJson(cell: string): string {
  return `starts_with(${cell}, '{')`;
}

/**
 * The rows of `select` with more columns, from which `decodeGeometry` makes the geometries of the cells named. Each
 * step is a select of its own: DuckDB computes what stands in a column once, and an expression as often as it occurs.
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

/** Of the cell that is decoded: its forms, the coordinate system of its column, and what it is to be where it is refused. */
interface GeometryCell {
  readonly forms: Forms;
  readonly crs: string | null;
  readonly refused: string;
}

/** The WKB of a cell that is not null, in a select from `withGeometrySteps`. Raises an error where it is no geometry. */
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

/** True where the cell says of itself that it is in a coordinate system which is not that of its column. */
export function isForeign(cell: string, crs: string | null): string {
  return `(${isWkb(cell)} AND ${isInOtherSystem(other(cell), crs)})`;
}

function isWkb(cell: string): string {
  return `regexp_full_match(${other(cell)}, '${HEXADECIMAL}')`;
}

function geometryOfWkb(digits: string): string {
  return `ST_GeomFromWKB(unhex(${digits}))`;
}

/** Parts that carry a coordinate system of their own would lose it without a word. */
function isWkbWhollyRead(digits: string): string {
  return `strlen(${digits}) // 2 = octet_length(ST_AsWKB(${geometryOfWkb(digits)})) + ${sridBytes(digits)}`;
}

/** In the form that is usual; null where it has none. */
function usual(cell: string, forms: Forms): string {
  return forms === 'usual' ? cell : `usual_${cell}`;
}

/** The members of a GeoJSON object beside its geometry. */
const head = (cell: string) => `head_${cell}`;
/** The coordinates as WKT has them. */
const listed = (cell: string) => `listed_${cell}`;
/** What is no single geometry of GeoJSON: a text, or a collection as WKT. */
const other = (cell: string) => `other_${cell}`;

/** The positions lose their brackets when they are rewritten, so the outermost ones go and those inside stand for them. */
function withoutOutermost(given: string): string {
  const marked = `CASE WHEN contains(${given}, '[]') THEN ${replaced(given, '[]', '[EMPTY]')} ELSE ${given} END`;
  return `CASE WHEN ends_with(${given}, ':[]}') THEN 'EMPTY'
    WHEN starts_with(${given}, '{"type":"Point"') THEN substring(${given}, instr(${given}, '['), strlen(${given}) - instr(${given}, '['))
    ELSE substring(${marked}, instr(${given}, '[') + 1, strlen(${marked}) - instr(${given}, '[') - 2) END`;
}

/** Between numbers of a position comes a blank, between positions a comma, and parentheses are round. */
function rewritten(coordinates: string): string {
  const separated = replaced(replaced(coordinates, ',', ' '), '] [', ',');
  return replaced(replaced(separated, '[', '('), ']', ')');
}

/** The same as `replace`, and three times as fast. */
function replaced(value: string, search: string, replacement: string): string {
  return `list_aggregate(string_split(${value}, ${text(search)}), 'string_agg', ${text(replacement)})`;
}

/** What is taken out of a collection: what else stands in it, and collections that are nested deeper, are left out. */
function membersOf(depth: number): string {
  const inside = depth === 0 ? '' : `,"geometries":[${membersOf(depth - 1)}]`;
  return `{"type":"VARCHAR","coordinates":"JSON"${inside}}`;
}

/**
 * What becomes of the parts of the text of a collection, one after another. A `~` holds the place of the height, a `;`
 * that of a comma between geometries. An end of a collection is seen once those inside it are.
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

/** Whether what DuckDB reads of the text has every word, parenthesis and comma of it, and as many numbers. */
function isWhollyRead(given: string): string {
  const read = outline(`ST_AsText(${given}::GEOMETRY)`);
  return `NOT regexp_matches(${given}, '(?i)nan|inf') AND ${outline(given)} = ${read}`;
}

/** Without white space, with `#` for each number, and without the parentheses around the points of a MULTIPOINT, of one too. */
function outline(value: string): string {
  const numbers = `regexp_replace(upper(${value}), '[-+]?[0-9.]+(?:E[-+]?[0-9]+)?', '#', 'g')`;
  const bare = `regexp_replace(${numbers}, '\\s+', '', 'g')`;
  const ofOne = `regexp_replace(${bare}, '\\(\\((#+)\\)\\)', '(\\1)', 'g')`;
  return `regexp_replace(${ofOne}, '\\((#+)\\)', '\\1', 'g')`;
}

/** Parts in parts: DuckDB writes no geometry as text that is nested deeper. */
const MAX_PART_DEPTH = 15;

const HEXADECIMAL_WKB = /^(?:[\da-f]{2})+$/i;

export interface OddGeometry {
  /** From 1. */
  readonly line: number;
  readonly column: string;
  /** As it is written, in JSON. */
  readonly written: string;
}

/** The first geometry of the page in well-known binary that is not one; null where there is none. */
export async function findOddGeometry(page: Page, { columns }: ChangesColumns): Promise<OddGeometry | null> {
  const names = new Set(columns.flatMap(({ column, type }) => (type === 'geometry' ? [column.name] : [])));
  for (const { line, column, cell } of pageCells(JSON.parse(await readFile(page.path, 'utf8')))) {
    if (!names.has(column) || typeof cell !== 'string' || !HEXADECIMAL_WKB.test(cell)) continue;
    if (!isOneGeometry(Buffer.from(cell, 'hex'))) return { line, column, written: JSON.stringify(cell) };
  }
  return null;
}

/** Of ISO or EWKB, in any order of bytes. A coordinate system may stand with the whole, and with no part. Pure. */
export function isOneGeometry(wkb: Buffer): boolean {
  try {
    return endOf(wkb, 0, null, MAX_PART_DEPTH) === wkb.length;
  } catch (error) {
    // Node says so where there are fewer bytes than are asked for.
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

/** Where the geometry ends that begins at `start`. @throws RangeError where none ends. */
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

/** Null where the number means nothing. */
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
