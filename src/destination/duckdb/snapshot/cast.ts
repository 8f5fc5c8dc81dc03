/**
 * What a cast is: how the values of a physical column become those of a column of the mirror. A cast keeps every value as
 * it is, or can tell which one it would change.
 */

import type { ParquetColumn } from './parquet-file.ts';

export interface Cast {
  /** The value as SQL, from SQL for the physical value. Raises an error for a value that it cannot convert. */
  readonly convert: (value: string) => string;
  /** True for the values that `convert` keeps as they are; null where it changes none without raising. */
  readonly keeps: ((value: string) => string) | null;
  /** A cheaper test that most values pass, and the conversion of those. `keeps` and `convert` decide about the others. */
  readonly usual?: { readonly is: (value: string) => string; readonly convert: (value: string) => string };
  /** True for the values that `convert` turns into null; absent where it never does. */
  readonly vanishes?: (value: string) => string;
  /** Whether there can be values that are not converted. */
  readonly canFail: boolean;
  /** What a value must do or be, for an error about one that does not show it. */
  readonly must?: string;
}

/** What decides how a physical column is cast. */
export type Physical = Pick<ParquetColumn, 'type' | 'leaves' | 'geometry'>;

/** The cast from a physical form; null where it is another form. */
export type Rule = (physical: Physical) => Cast | null;

/** Physical types that several rules name, as DuckDB calls them. */
export const SMALL_INTEGERS = [
  'TINYINT',
  'SMALLINT',
  'INTEGER',
  'UTINYINT',
  'USMALLINT',
  'UINTEGER',
] as const;
export const LARGE_INTEGERS = ['UBIGINT', 'HUGEINT', 'UHUGEINT'] as const;
export const DECIMAL = /^DECIMAL\(\d+,\d+\)$/;

export const identity: Cast = { convert: (value) => value, keeps: null, canFail: false };

/** The conversion keeps every value. */
export function keeping(convert: Cast['convert']): Cast {
  return { convert, keeps: null, canFail: false };
}

/** So does DuckDB's own to the type. */
export function exact(type: string): Cast {
  return keeping((value) => `${value}::${type}`);
}

/** The conversion raises for every value that it would change. */
export function raising(convert: Cast['convert'], must?: string): Cast {
  return { convert, keeps: null, canFail: true, ...(must === undefined ? {} : { must }) };
}

/** The conversion would change some values without a word. */
export function guarded(convert: Cast['convert'], keeps: (value: string) => string, must?: string): Cast {
  return { ...raising(convert, must), keeps };
}

/** From one of the types, as DuckDB names them. */
export function from(types: readonly string[], cast: Cast): Rule {
  return ({ type }) => (types.includes(type) ? cast : null);
}

/** The value as SQL that raises an error rather than to change it. Null stays null. */
export function strict(cast: Cast, value: string): string {
  const { keeps, usual } = cast;
  if (keeps === null) return cast.convert(value);
  const first = usual === undefined ? '' : `WHEN ${usual.is(value)} THEN ${usual.convert(value)}`;
  return `CASE WHEN ${value} IS NULL THEN NULL ${first} WHEN ${keeps(value)} THEN ${cast.convert(value)}
    ELSE error('a value would be changed') END`;
}

/** True for the values that `strict` raises on. */
export function offends(cast: Cast, value: string): string {
  const kept = cast.keeps === null ? 'TRUE' : `coalesce(TRY(${cast.keeps(value)}), FALSE)`;
  const vanishes = cast.vanishes === undefined ? 'FALSE' : cast.vanishes(value);
  return `${value} IS NOT NULL AND (NOT ${kept} OR (TRY(${cast.convert(value)}) IS NULL AND NOT ${vanishes}))`;
}
