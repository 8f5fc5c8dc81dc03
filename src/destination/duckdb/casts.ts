/**
 * How a physical column of a file becomes a column of the mirror. A cast is in the table only if it keeps every value
 * as it is, or can tell which one it would change: a fraction, a number out of range, a fraction of a microsecond.
 * Everything else is refused, text that looks like a number included.
 */

import type { ColumnType } from '../../model/column.ts';

export interface Cast {
  /** The value as SQL, from SQL for the physical value. Raises an error for a value that it cannot convert. */
  readonly convert: (value: string) => string;
  /** True for the values that `convert` keeps as they are; null where it changes none without raising. */
  readonly keeps: ((value: string) => string) | null;
  /** Whether there can be values that are not converted. */
  readonly canFail: boolean;
}

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

/** The same as DuckDB names them: it takes short names that it does not give. */
export const TYPE_NAMES: Readonly<Record<ColumnType, string>> = {
  ...DUCKDB_TYPES,
  timestamp: 'TIMESTAMP WITH TIME ZONE',
};

const BIGINT_LIMIT = '9223372036854775808::DOUBLE';

const identity: Cast = { convert: (value) => value, keeps: null, canFail: false };
const exact = (type: string): Cast => ({
  convert: (value) => `${value}::${type}`,
  keeps: null,
  canFail: false,
});
/** The conversion raises for every value that it would change. */
const raising = (convert: Cast['convert']): Cast => ({ convert, keeps: null, canFail: true });
/** The conversion would change some values without a word. */
const guarded = (convert: Cast['convert'], keeps: (value: string) => string): Cast => ({
  convert,
  keeps,
  canFail: true,
});

const toBigint = raising((value) => `${value}::BIGINT`);
const floatToBigint = guarded(
  toBigint.convert,
  (value) => `${value} = trunc(${value}) AND ${value} >= -${BIGINT_LIMIT} AND ${value} < ${BIGINT_LIMIT}`,
);
const integerToDouble = guarded(
  (value) => `${value}::DOUBLE`,
  (value) => `${value}::DOUBLE::HUGEINT = ${value}`,
);
/** A timestamp without zone is one in UTC; every connection has that zone. */
const toTimestamp = exact('TIMESTAMPTZ');

const SMALL_INTEGERS = ['TINYINT', 'SMALLINT', 'INTEGER', 'UTINYINT', 'USMALLINT', 'UINTEGER'] as const;
const LARGE_INTEGERS = ['UBIGINT', 'HUGEINT', 'UHUGEINT'] as const;

function forEach(types: readonly string[], cast: Cast): readonly (readonly [string, Cast])[] {
  return types.map((type) => [type, cast] as const);
}

const CASTS: Readonly<Record<ColumnType, ReadonlyMap<string, Cast>>> = {
  string: new Map([
    ['VARCHAR', identity],
    ['JSON', exact('VARCHAR')],
    ['UUID', exact('VARCHAR')],
  ]),
  integer: new Map([
    ['BIGINT', identity],
    ...forEach(SMALL_INTEGERS, exact('BIGINT')),
    ...forEach(LARGE_INTEGERS, toBigint),
    ...forEach(['FLOAT', 'DOUBLE'], floatToBigint),
  ]),
  number: new Map([
    ['DOUBLE', identity],
    ...forEach(['FLOAT', ...SMALL_INTEGERS], exact('DOUBLE')),
    ...forEach(['BIGINT', ...LARGE_INTEGERS], integerToDouble),
  ]),
  boolean: new Map([['BOOLEAN', identity]]),
  date: new Map([
    ['DATE', identity],
    [
      'TIMESTAMP',
      guarded(
        (value) => `${value}::DATE`,
        (value) => `isfinite(${value}) AND ${value} = date_trunc('day', ${value})`,
      ),
    ],
  ]),
  timestamp: new Map([
    ['TIMESTAMP WITH TIME ZONE', identity],
    ...forEach(['TIMESTAMP', 'TIMESTAMP_S', 'TIMESTAMP_MS'], toTimestamp),
    [
      'TIMESTAMP_NS',
      guarded(
        (value) => `${value}::TIMESTAMP::TIMESTAMPTZ`,
        (value) => `epoch_ns(${value}) % 1000 = 0`,
      ),
    ],
  ]),
  geometry: new Map([
    ['BLOB', raising((value) => `ST_GeomFromWKB(${value})`)],
    ['GEOMETRY', exact('GEOMETRY')],
  ]),
  json: new Map([
    ['VARCHAR', raising((value) => `${value}::JSON`)],
    // A file's word that its text is JSON is not proof.
    [
      'JSON',
      guarded(
        (value) => value,
        (value) => `json_valid(${value})`,
      ),
    ],
  ]),
};

/** The cast from a physical type, as DuckDB names it, to a type of the service; null where there is none. */
export function castFor(physicalType: string, type: ColumnType): Cast | null {
  const decimal = /^DECIMAL\(\d+,(\d+)\)$/.exec(physicalType);
  if (decimal !== null) return decimalCast(physicalType, Number(decimal[1]), type);
  // A geometry's type may carry its coordinate system: GEOMETRY('OGC:CRS84').
  const plain = physicalType.startsWith('GEOMETRY(') ? 'GEOMETRY' : physicalType;
  return CASTS[type].get(plain) ?? null;
}

function decimalCast(physicalType: string, scale: number, type: ColumnType): Cast | null {
  if (type === 'integer') {
    return scale === 0 ? toBigint : guarded(toBigint.convert, (value) => `${value} = trunc(${value})`);
  }
  if (type !== 'number') return null;
  return guarded(
    (value) => `${value}::DOUBLE`,
    (value) => `${value}::DOUBLE::${physicalType} = ${value}`,
  );
}

/** The value as SQL that raises an error rather than to change it. Null stays null. */
export function strict(cast: Cast, value: string): string {
  if (cast.keeps === null) return cast.convert(value);
  return `CASE WHEN ${value} IS NULL THEN NULL WHEN ${cast.keeps(value)} THEN ${cast.convert(value)}
    ELSE error('a value would be changed') END`;
}

/** True for the values that `strict` raises on. */
export function offends(cast: Cast, value: string): string {
  const kept = cast.keeps === null ? 'TRUE' : `coalesce(TRY(${cast.keeps(value)}), FALSE)`;
  return `${value} IS NOT NULL AND (NOT ${kept} OR TRY(${cast.convert(value)}) IS NULL)`;
}
