/**
 * GeoArrow, geometries as structs and lists of coordinates, as SQL that makes well-known binary of them: digit by digit in
 * hexadecimal, because DuckDB joins text but no bytes. The bits of every coordinate are those of the file. Pure.
 */

import { text } from '../engine/quoting.ts';

/** How many lists are around the positions, and the number of the geometry in well-known binary. */
interface Encoding {
  readonly depth: number;
  readonly code: number;
  /** What the list of the highest level holds where that is geometries of their own. */
  readonly member?: string;
}

/** LINESTRING and MULTIPOINT are alike in a file, and so are POLYGON and MULTILINESTRING. */
const ENCODINGS: ReadonlyMap<string, Encoding> = new Map([
  ['point', { depth: 0, code: 1 }],
  ['linestring', { depth: 1, code: 2 }],
  ['polygon', { depth: 2, code: 3 }],
  ['multipoint', { depth: 1, code: 4, member: 'point' }],
  ['multilinestring', { depth: 2, code: 5, member: 'linestring' }],
  ['multipolygon', { depth: 3, code: 6, member: 'polygon' }],
]);

/** The coordinates that a position can have, in their order, and what they add to the number of a geometry. */
const DIMENSIONS: ReadonlyMap<string, number> = new Map([
  ['xy', 0],
  ['xyz', 1_000],
  ['xym', 2_000],
  ['xyzm', 3_000],
]);

/** Positions as structs (`separated`), or as lists of numbers (`interleaved`). */
const TYPE = /^(?:STRUCT\(([^()]*)\)|DOUBLE\[\])((?:\[\])*)$/;

interface Positions {
  /** Of `DIMENSIONS`. */
  readonly dimensions: string;
  readonly areSeparated: boolean;
}

/** Stands for what is not there; as it is no digit, the bytes are refused. */
const MISSING = text('?');

/**
 * SQL for the well-known binary of a value, null for a null, and no bytes for a value that has a null inside or a position
 * of another length; or null where the column's type is not that of the encoding.
 *
 * @param encoding in lower case and without `geoarrow.`
 * @param type of the column, as DuckDB names it
 * @param stated the coordinates of each position as the file has them in its metadata, where its type does not tell
 */
export function geoArrowWkb(
  encoding: string,
  type: string,
  stated: string | null,
): ((value: string) => string) | null {
  const known = ENCODINGS.get(encoding);
  const match = TYPE.exec(type);
  if (known === undefined || match === null) return null;
  const [, fields, lists = ''] = match;
  const areSeparated = fields !== undefined;
  const dimensions = areSeparated ? dimensionsOfFields(fields) : stated;
  if (dimensions === null || lists.length !== known.depth * '[]'.length) return null;
  const positions = { dimensions, areSeparated };
  return (value) =>
    `CASE WHEN ${value} IS NOT NULL THEN unhex(coalesce(${geometry(value, known, positions)}, ${MISSING})) END`;
}

/** From `x DOUBLE, y DOUBLE`, in any order, for fields are taken by their names. */
function dimensionsOfFields(fields: string): string | null {
  const names = fields.split(', ').map((field) => /^([xyzm]) DOUBLE$/.exec(field)?.[1] ?? '?');
  const name = [...DIMENSIONS.keys()].find(
    (known) => known.length === names.length && [...known].every((letter) => names.includes(letter)),
  );
  return name ?? null;
}

function geometry(value: string, { code, depth, member }: Encoding, positions: Positions): string {
  const inside = member === undefined ? undefined : ENCODINGS.get(member);
  const header = `${text(`00${digits(code + (DIMENSIONS.get(positions.dimensions) ?? 0))}`)}`;
  const content =
    inside === undefined
      ? nested(value, depth, positions)
      : list(value, depth, (item) => geometry(item, inside, positions));
  return `${header} || ${content}`;
}

function nested(value: string, depth: number, positions: Positions): string {
  if (depth === 0) return position(value, positions);
  return list(value, depth, (item) => nested(item, depth - 1, positions));
}

/** The number of the items, and the items. A null among them would be left out without a word, so it is filled. */
function list(value: string, depth: number, write: (item: string) => string): string {
  const item = `item${depth}`;
  const written = `list_transform(${value}, lambda ${item} : coalesce(${write(item)}, ${MISSING}))`;
  return `format('{:08x}', len(${value})) || coalesce(list_aggregate(${written}, 'string_agg', ''), '')`;
}

function position(value: string, { dimensions, areSeparated }: Positions): string {
  const numbers = [...dimensions].map((name, index) =>
    areSeparated ? `${value}.${name}` : `${value}[${index + 1}]`,
  );
  const bytes = `hex(${numbers.map((number) => `${number}::BIT::BLOB`).join(' || ')})`;
  return areSeparated ? bytes : `CASE len(${value}) WHEN ${dimensions.length} THEN ${bytes} END`;
}

function digits(code: number): string {
  return code.toString(16).padStart(8, '0');
}
