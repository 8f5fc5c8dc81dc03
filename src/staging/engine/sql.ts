/**
 * The one place where values become SQL text. Every identifier and literal goes through it, so no name from a service can be
 * executed.
 */

import { assert } from '../../lib/assert.ts';
import { DataError } from '../../model/errors.ts';
import type { ColumnType } from '../../model/records.ts';
import type { Row } from './engine.ts';
import { damagedBookkeeping } from './errors.ts';

/** The number of characters of a hostile name that an error shows. */
const SHOWN_CHARACTERS = 80;

/** Returns a quoted name of a table, column or schema. @throws DataError for a name that no database can hold. */
export function identifier(name: string): string {
  assert(name !== '', 'a name has at least one character');
  return `"${withoutNul(name).replaceAll('"', '""')}"`;
}

/** Returns a text literal, or NULL. @throws DataError when the text holds a NUL character. */
export function text(value: string | null): string {
  return value === null ? 'NULL' : `'${withoutNul(value).replaceAll("'", "''")}'`;
}

/** Returns an integer literal, or NULL. */
export function integer(value: number | bigint | null): string {
  if (value === null) return 'NULL';
  assert(typeof value === 'bigint' || Number.isSafeInteger(value), `${value} is a whole number`);
  return String(value);
}

/** Returns a timestamp literal in UTC, or NULL. */
export function timestamp(value: Date | null): string {
  return value === null ? 'NULL' : `make_timestamptz(${integer(value.getTime())} * 1000)`;
}

/** Returns a list of text literals, which may be empty. */
export function textList(values: readonly string[]): string {
  return `[${values.map(text).join(', ')}]::VARCHAR[]`;
}

/**
 * Returns a value as JSON for use in a text literal. Invalid Unicode is replaced as in `text`. @throws DataError when a text
 * holds a NUL character, which `text` could not detect afterwards.
 */
export function json(value: readonly unknown[]): string {
  return JSON.stringify(value, (_key, part: unknown) =>
    typeof part === 'string' ? withoutNul(part).toWellFormed() : part,
  );
}

/** The two sides of a part of a key, which are SQL already, and its type. */
export type KeyPair = readonly [left: string, right: string, type: ColumnType];

/** Returns the condition of a join by key. DuckDB silently treats equal geometries as different there. */
export function sameKey(pairs: readonly KeyPair[]): string {
  const conditions = pairs.map(([left, right, type]) =>
    type === 'geometry' ? `ST_AsWKB(${left}) = ST_AsWKB(${right})` : `${left} = ${right}`,
  );
  return conditions.join(' AND ');
}

/** Returns a row of values, which are SQL already. */
export function tuple(values: readonly string[]): string {
  return `(${values.join(', ')})`;
}

/** Returns the literal of a file's path. DuckDB's readers expand `*`, `?` and `[`; in brackets each stands for itself. */
export function filePath(path: string): string {
  return text(literalPattern(path));
}

/** Returns a pattern that matches only `path`. */
export function literalPattern(path: string): string {
  return path.replaceAll(/[*?[]/g, '[$&]');
}

/** DuckDB ends a statement at a NUL and would ignore the rest. */
function withoutNul(value: string): string {
  if (!value.includes('\0')) return value;
  const shown = JSON.stringify(value.slice(0, SHOWN_CHARACTERS));
  throw new DataError(
    `The text ${shown} holds a NUL character, which cannot be a part of a name or a description.`,
  );
}

export function textAt(row: Row, index: number): string {
  const value = cell(row, index);
  assert(typeof value === 'string', `column ${index} of the bookkeeping is of text`);
  return value;
}

export function textOrNullAt(row: Row, index: number): string | null {
  return (row[index] ?? null) === null ? null : textAt(row, index);
}

/** Parses a text of the bookkeeping that was written as JSON. */
export function storedJson(stored: string): unknown {
  try {
    return JSON.parse(stored);
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
    throw damagedBookkeeping('a text is not JSON');
  }
}

export function bigintAt(row: Row, index: number): bigint {
  const value = cell(row, index);
  assert(
    typeof value === 'bigint' || typeof value === 'number',
    `column ${index} of the bookkeeping is of numbers`,
  );
  return BigInt(value);
}

export function bigintOrNullAt(row: Row, index: number): bigint | null {
  return (row[index] ?? null) === null ? null : bigintAt(row, index);
}

export function numberAt(row: Row, index: number): number {
  const value = bigintAt(row, index);
  if (Number.isSafeInteger(Number(value))) return Number(value);
  throw damagedBookkeeping(`column ${index} is the number ${value}`);
}

export function numberOrNullAt(row: Row, index: number): number | null {
  return (row[index] ?? null) === null ? null : numberAt(row, index);
}

/** Reads a timestamp that was selected as milliseconds. */
export function dateAt(row: Row, index: number): Date {
  const date = new Date(numberAt(row, index));
  if (Number.isNaN(date.getTime())) throw damagedBookkeeping(`column ${index} is a time out of range`);
  return date;
}

export function dateOrNullAt(row: Row, index: number): Date | null {
  return (row[index] ?? null) === null ? null : dateAt(row, index);
}

export function textListAt(row: Row, index: number): readonly string[] {
  const value = cell(row, index);
  assert(Array.isArray(value), `column ${index} of the bookkeeping is of lists`);
  return value.map((item) => {
    assert(typeof item === 'string', `the list in column ${index} of the bookkeeping holds text`);
    return item;
  });
}

export function booleanAt(row: Row, index: number): boolean {
  const value = cell(row, index);
  assert(typeof value === 'boolean', `column ${index} of the bookkeeping is of truth values`);
  return value;
}

/** The statement decides how many columns there are and of which types, the file what they hold. */
function cell(row: Row, index: number): Row[number] {
  const value = row[index];
  assert(value !== undefined, `the statement reads a column ${index} of the bookkeeping`);
  if (value === null) throw damagedBookkeeping(`column ${index} is empty`);
  return value;
}
