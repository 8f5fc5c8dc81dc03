/**
 * Which physical columns of files become which columns of the mirror. A rule is in the table only if its cast keeps every
 * value as it is, or can tell which one it would change: a fraction, a number out of range, a fraction of a microsecond.
 * Everything else is refused, text that looks like a number included.
 */

import type { ColumnType } from '../../../model/column.ts';
import {
  type Cast,
  DECIMAL,
  exact,
  from,
  guarded,
  identity,
  keeping,
  LARGE_INTEGERS,
  type Physical,
  type Rule,
  raising,
  SMALL_INTEGERS,
} from './cast.ts';
import { GEOMETRY_RULES } from './casts-geometry.ts';
import { JSON_RULES } from './casts-json.ts';

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
/** By way of a calendar, as DuckDB casts it, takes twenty times as long; what is infinite has no other way. */
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
    // A timestamp without zone is one in UTC; every connection has that zone.
    from(['TIMESTAMP', 'TIMESTAMP_S', 'TIMESTAMP_MS'], fromUtc),
    from(['TIMESTAMP_NS'], nanosecondsToTimestamp),
  ],
  geometry: GEOMETRY_RULES,
  json: JSON_RULES,
};

/** The cast of a column that holds no value, whatever its physical type. */
export function castOfNothing(type: ColumnType): Cast {
  return guarded(
    () => `NULL::${DUCKDB_TYPES[type]}`,
    () => 'FALSE',
    'be null, as the file says that all of the column is',
  );
}

/** The cast from a physical column to a type of the service; null where there is none. */
export function castFor(physical: Physical, type: ColumnType): Cast | null {
  for (const rule of RULES[type]) {
    const cast = rule(physical);
    if (cast !== null) return cast;
  }
  return null;
}
