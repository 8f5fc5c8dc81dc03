/**
 * A cast converts the values of a physical column to the type of a column in the mirror. A cast keeps every value exact, or
 * names the value that it would change.
 */

import { DataError } from '../../model/errors.ts';
import { COLUMN_TYPES, type Column, type ColumnType } from '../../model/records.ts';
import { isInOtherSystem, sridBytes } from '../coordinate-systems.ts';
import { text } from '../engine/sql.ts';
import { canonicalJson, isJson, isJsonNull, isPlainJson } from '../json-text.ts';
import type { ParquetColumn } from './parquet.ts';

export interface Cast {
  /**
   * Builds the SQL of the value from the SQL of the physical value. The SQL raises an error for a value that cannot be
   * converted.
   */
  readonly convert: (value: string) => string;
  /**
   * True for the values that `convert` keeps exact; null when `convert` raises an error instead of changing a value. `converted` is the
   * value of `convert`, where that was computed already.
   */
  readonly keeps: ((value: string, converted?: string) => string) | null;
  /** True when `keeps` compares what `convert` returns. Whoever reads many rows computes that once for both. */
  readonly keepsByResult?: true;
  /** A cheaper test that most values pass, and their conversion to JSON. `keeps` and `convert` decide about the other values. */
  readonly usual?: { readonly is: (value: string) => string; readonly convert: (value: string) => string };
  /** True for the values that `convert` turns into null; absent when there are none. */
  readonly vanishes?: (value: string) => string;
  /** True when some values of the physical type may be refused. */
  readonly canFail: boolean;
  /** The condition on a value, for an error about a value that does not show the condition itself. */
  readonly must?: string;
}

/** The properties of a physical column that decide about its cast. */
type Physical = Pick<ParquetColumn, 'type' | 'leaves' | 'geometry'>;

/** Returns the cast of a physical form; null for any other form. */
type Rule = (physical: Physical) => Cast | null;

/** Physical types that several rules name, as DuckDB calls them. */
const SMALL_INTEGERS = ['TINYINT', 'SMALLINT', 'INTEGER', 'UTINYINT', 'USMALLINT', 'UINTEGER'] as const;
const LARGE_INTEGERS = ['UBIGINT', 'HUGEINT', 'UHUGEINT'] as const;
const DECIMAL = /^DECIMAL\(\d+,\d+\)$/;

const identity: Cast = { convert: (value) => value, keeps: null, canFail: false };

/** A conversion that keeps every value. */
function keeping(convert: Cast['convert']): Cast {
  return { convert, keeps: null, canFail: false };
}

/** DuckDB's own cast to the type, which keeps every value. */
function exact(type: string): Cast {
  return keeping((value) => `${value}::${type}`);
}

/** A conversion that raises an error for every value that it would change. */
function raising(convert: Cast['convert'], must?: string): Cast {
  return { convert, keeps: null, canFail: true, ...(must === undefined ? {} : { must }) };
}

/** A conversion that would silently change some values, guarded by a test. */
function guarded(convert: Cast['convert'], keeps: NonNullable<Cast['keeps']>, must?: string): Cast {
  return { ...raising(convert, must), keeps };
}

/** A rule for physical types, as DuckDB names them. */
function from(types: readonly string[], cast: Cast): Rule {
  return ({ type }) => (types.includes(type) ? cast : null);
}

/**
 * Returns SQL that raises an error instead of changing a value. Null stays null. `converted` is SQL for the value of `convert`, where
 * that was computed already.
 */
export function strict(cast: Cast, value: string, converted = cast.convert(value)): string {
  const { keeps, usual } = cast;
  if (keeps === null) return converted;
  const first = usual === undefined ? '' : `WHEN ${usual.is(value)} THEN ${usual.convert(value)}`;
  return `CASE WHEN ${value} IS NULL THEN NULL ${first} WHEN ${keeps(value, converted)} THEN ${converted}
    ELSE error('a value would be changed') END`;
}

/**
 * Stands for the values that are not usual, in a column of JSON. Where a value of the file has the same text, its column is only taken to
 * hold values that are not usual.
 */
const NOT_USUAL = text('"feed-sync: a value that is not usual"');

/**
 * Returns SQL that is `strict` for usual values, and `isNotUsual` for all others; null for a cast without usual values. DuckDB takes
 * longer to prepare the conversion of other values than to convert thousands of usual ones.
 */
export function strictIfUsual({ usual }: Cast, value: string): string | null {
  if (usual === undefined) return null;
  return `CASE WHEN ${value} IS NULL THEN NULL WHEN ${usual.is(value)} THEN ${usual.convert(value)} ELSE ${NOT_USUAL}::JSON END`;
}

/** Returns SQL that is true where `strictIfUsual` has left out a value. `value` is what it returned. */
export function isNotUsual(value: string): string {
  return `${value}::VARCHAR IS NOT DISTINCT FROM ${NOT_USUAL}`;
}

/** Returns SQL that is true for the values on which `strict` raises an error. */
export function offends(cast: Cast, value: string): string {
  const kept = cast.keeps === null ? 'TRUE' : `coalesce(TRY(${cast.keeps(value)}), FALSE)`;
  const vanishes = cast.vanishes === undefined ? 'FALSE' : cast.vanishes(value);
  return `${value} IS NOT NULL AND (NOT ${kept} OR (TRY(${cast.convert(value)}) IS NULL AND NOT ${vanishes}))`;
}

const WELL_KNOWN_BINARY = 'wkb';

/** Returns `WKB`, `point` and so on, also for `geoarrow.wkb` and `geoarrow.point` of earlier writers. */
function encodingName(stated: string | null): string {
  return (stated ?? WELL_KNOWN_BINARY).toLowerCase().replace(/^geoarrow\./, '');
}

const fromWkb: Rule = ({ type, geometry }) => {
  if (type !== 'BLOB' || encodingName(geometry?.encoding ?? null) !== WELL_KNOWN_BINARY) return null;
  const crs = geometry?.crs ?? null;
  const read = (value: string): string => `ST_GeomFromWKB(${value})`;
  const must = `be WKB that names no coordinate system${crs === null ? '' : ` but ${crs}`}`;
  return {
    ...guarded(read, (value, converted = read(value)) => isWhollyRead(value, converted, crs), must),
    keepsByResult: true,
  };
};

/**
 * DuckDB ignores the number of a coordinate system in WKB (EWKB) and in its parts. The geometry that it has read is then
 * shorter. The number of the column's own system is allowed.
 */
function isWhollyRead(value: string, geometry: string, crs: string | null): string {
  const digits = `hex(${value})`;
  return `CASE octet_length(${value}) - octet_length(ST_AsWKB(${geometry})) WHEN 0 THEN TRUE
    WHEN 4 THEN ${sridBytes(digits)} = 4 AND NOT ${isInOtherSystem(digits, crs)} ELSE FALSE END`;
}

/** The type may carry a coordinate system: GEOMETRY('OGC:CRS84'). */
const fromNative: Rule = ({ type }) => (/^GEOMETRY(?:\(|$)/.test(type) ? exact('GEOMETRY') : null);

const fromGeoArrow: Rule = ({ type, geometry }) => {
  if (geometry === null) return null;
  const wkb = geoArrowWkb(encodingName(geometry.encoding), type, geometry.dimensions);
  return wkb === null
    ? null
    : raising(
        (value) => `ST_GeomFromWKB(${wkb(value)})`,
        'have no null inside, and at every position the numbers that the file states',
      );
};

const GEOMETRY_RULES: readonly Rule[] = [fromWkb, fromNative, fromGeoArrow];

/** The number of lists around the positions, and the geometry's number in well-known binary. */
interface Encoding {
  readonly depth: number;
  readonly code: number;
  /** The members of the outermost list when they are geometries themselves. */
  readonly member?: string;
}

/** LINESTRING and MULTIPOINT have the same layout in a file, and so do POLYGON and MULTILINESTRING. */
const ENCODINGS: ReadonlyMap<string, Encoding> = new Map([
  ['point', { depth: 0, code: 1 }],
  ['linestring', { depth: 1, code: 2 }],
  ['polygon', { depth: 2, code: 3 }],
  ['multipoint', { depth: 1, code: 4, member: 'point' }],
  ['multilinestring', { depth: 2, code: 5, member: 'linestring' }],
  ['multipolygon', { depth: 3, code: 6, member: 'polygon' }],
]);

/** The possible coordinates of a position in order, and the offset that they add to the number of a geometry. */
const DIMENSIONS: ReadonlyMap<string, number> = new Map([
  ['xy', 0],
  ['xyz', 1_000],
  ['xym', 2_000],
  ['xyzm', 3_000],
]);

/** Positions as structs (`separated`), or as lists of numbers (`interleaved`). */
const TYPE = /^(?:STRUCT\(([^()]*)\)|DOUBLE\[\])((?:\[\])*)$/;

interface Positions {
  /** A key of `DIMENSIONS`. */
  readonly dimensions: string;
  readonly areSeparated: boolean;
}

/** Stands for a missing number. It is not a digit, so decoding the bytes fails. */
const MISSING = text('?');

/**
 * Returns SQL for the well-known binary of a value: null for a null, and no bytes for a value with a null inside or a position
 * of another length. Returns null when the encoding does not fit the column's type.
 *
 * @param encoding in lower case and without `geoarrow.`
 * @param type of the column, as DuckDB names it
 * @param stated the coordinates of each position by the file's metadata, when the type does not state them
 */
function geoArrowWkb(
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

/** Accepts `x DOUBLE, y DOUBLE` in any order, because fields are read by name. */
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

/** Writes the number of items and the items. A null item is filled in, because it would silently be left out. */
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

const MUST = 'be JSON, which has no NaN, no Infinity and no comma behind the last item';

/** `written` builds SQL for the JSON text of a value. */
function fromWritten(written: (value: string) => string): Cast {
  const of = (sql: (text: string) => string) => (value: string) => sql(written(value));
  return {
    ...guarded(of(canonicalJson), of(isJson), MUST),
    usual: { is: of(isPlainJson), convert: of((text) => `json(${text})`) },
    vanishes: of(isJsonNull),
  };
}

/** A file's claim that its text is JSON is not a proof. */
const fromText = from(
  ['VARCHAR', 'JSON'],
  fromWritten((value) => `${value}::VARCHAR`),
);

/** The types inside structs, lists and maps that JSON represents exactly. */
const LEAVES: ReadonlySet<string> = new Set([
  ...['VARCHAR', 'UUID', 'BOOLEAN', 'DATE', 'FLOAT', 'DOUBLE', 'BIGINT'],
  ...SMALL_INTEGERS,
  ...LARGE_INTEGERS,
]);

const NESTED = fromWritten((value) => `to_json(${value})::VARCHAR`);

const fromNested: Rule = ({ type, leaves }) => {
  const isNested = type.endsWith(']') || /^(?:STRUCT|MAP)\(/.test(type);
  return isNested && leaves.every((leaf) => LEAVES.has(leaf) || DECIMAL.test(leaf)) ? NESTED : null;
};

const JSON_RULES: readonly Rule[] = [fromText, fromNested];

/** The types of the mirror. */
export const DUCKDB_TYPES: Readonly<Record<ColumnType, string>> = {
  string: 'VARCHAR',
  integer: 'BIGINT',
  number: 'DOUBLE',
  boolean: 'BOOLEAN',
  date: 'DATE',
  timestamp: 'TIMESTAMPTZ',
  geometry: 'GEOMETRY',
  json: 'JSON',
};

/** The same types under DuckDB's own names: DuckDB accepts short names that it does not return. */
export const TYPE_NAMES: Readonly<Record<ColumnType, string>> = {
  ...DUCKDB_TYPES,
  timestamp: 'TIMESTAMP WITH TIME ZONE',
};

const BIGINT_LIMIT = '9223372036854775808::DOUBLE';

const toBigint = raising((value) => `${value}::BIGINT`);
const floatToBigint = guarded(
  toBigint.convert,
  (value) => `${value} = trunc(${value}) AND ${value} >= -${BIGINT_LIMIT} AND ${value} < ${BIGINT_LIMIT}`,
);
const decimalToBigint = guarded(toBigint.convert, (value) => `${value} = trunc(${value})`);
const integerToDouble = guarded(
  (value) => `${value}::DOUBLE`,
  (value) => `${value}::DOUBLE::HUGEINT = ${value}`,
);
const midnightToDate = guarded(
  (value) => `${value}::DATE`,
  (value) => `isfinite(${value}) AND ${value} = date_trunc('day', ${value})`,
);
/** DuckDB's own cast goes through a calendar and takes twenty times as long. Infinite values need it. */
const fromUtc = keeping((value) => `coalesce(make_timestamptz(epoch_us(${value})), ${value}::TIMESTAMPTZ)`);
const nanosecondsToTimestamp = guarded(
  (value) => `${value}::TIMESTAMP::TIMESTAMPTZ`,
  (value) => `epoch_ns(${value}) % 1000 = 0`,
);
function fromDecimal(cast: (type: string) => Cast): Rule {
  return ({ type }) => (DECIMAL.test(type) ? cast(type) : null);
}

const RULES: Readonly<Record<ColumnType, readonly Rule[]>> = {
  string: [from(['VARCHAR'], identity), from(['JSON', 'UUID'], exact('VARCHAR'))],
  integer: [
    from(['BIGINT'], identity),
    from(SMALL_INTEGERS, exact('BIGINT')),
    from(LARGE_INTEGERS, toBigint),
    from(['FLOAT', 'DOUBLE'], floatToBigint),
    fromDecimal(() => decimalToBigint),
  ],
  number: [
    from(['DOUBLE'], identity),
    from(['FLOAT', ...SMALL_INTEGERS], exact('DOUBLE')),
    from(['BIGINT', ...LARGE_INTEGERS], integerToDouble),
    fromDecimal((type) =>
      guarded(
        (value) => `${value}::DOUBLE`,
        (value) => `${value}::DOUBLE::${type} = ${value}`,
      ),
    ),
  ],
  boolean: [from(['BOOLEAN'], identity)],
  date: [from(['DATE'], identity), from(['TIMESTAMP'], midnightToDate)],
  timestamp: [
    from(['TIMESTAMP WITH TIME ZONE'], identity),
    // A timestamp without a zone is in UTC, and so is every connection.
    from(['TIMESTAMP', 'TIMESTAMP_S', 'TIMESTAMP_MS'], fromUtc),
    from(['TIMESTAMP_NS'], nanosecondsToTimestamp),
  ],
  geometry: GEOMETRY_RULES,
  json: JSON_RULES,
};

/** Returns the cast of a column without values, whatever its physical type. */
export function castOfNothing(type: ColumnType): Cast {
  return guarded(
    () => `NULL::${DUCKDB_TYPES[type]}`,
    () => 'FALSE',
    'be null, as the file says that all of the column is',
  );
}

/** Returns the cast from a physical column to a type of the service; null when there is none. */
export function castFor(physical: Physical, type: ColumnType): Cast | null {
  for (const rule of RULES[type]) {
    const cast = rule(physical);
    if (cast !== null) return cast;
  }
  return null;
}

/** Returns the type of a column. @throws DataError naming the column and its type. */
export function knownType(datasetId: string, column: Column): ColumnType {
  const type = COLUMN_TYPES.find((known) => known === column.type);
  if (type !== undefined) return type;
  const stated = typeof column.type === 'string' ? column.type : column.type.unknown;
  throw new DataError(
    `The column ${JSON.stringify(column.name)} of ${datasetId} has the type ${JSON.stringify(stated)}, which this version does not know.`,
    { hint: 'A newer version of feed-sync may know it.' },
  );
}
