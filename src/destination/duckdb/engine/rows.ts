/** Values of our own bookkeeping as DuckDB gives them to JavaScript. What does not fit is a mirror changed by others. */

import { assert } from '../../../lib/assert.ts';
import type { Row } from './engine.ts';

export function textAt(row: Row, index: number): string {
  const value = row[index];
  assert(typeof value === 'string', `column ${index} of the bookkeeping holds text`);
  return value;
}

export function textOrNullAt(row: Row, index: number): string | null {
  return (row[index] ?? null) === null ? null : textAt(row, index);
}

export function bigintAt(row: Row, index: number): bigint {
  const value = row[index];
  assert(
    typeof value === 'bigint' || typeof value === 'number',
    `column ${index} of the bookkeeping holds a number`,
  );
  return BigInt(value);
}

export function bigintOrNullAt(row: Row, index: number): bigint | null {
  return (row[index] ?? null) === null ? null : bigintAt(row, index);
}

export function numberAt(row: Row, index: number): number {
  const value = Number(bigintAt(row, index));
  assert(Number.isSafeInteger(value), `column ${index} of the bookkeeping holds a number below 2^53`);
  return value;
}

export function numberOrNullAt(row: Row, index: number): number | null {
  return (row[index] ?? null) === null ? null : numberAt(row, index);
}

/** A moment that was selected as milliseconds. */
export function dateAt(row: Row, index: number): Date {
  return new Date(numberAt(row, index));
}

export function dateOrNullAt(row: Row, index: number): Date | null {
  return (row[index] ?? null) === null ? null : dateAt(row, index);
}

export function textListAt(row: Row, index: number): readonly string[] {
  const value = row[index];
  assert(Array.isArray(value), `column ${index} of the bookkeeping holds a list`);
  return value.map((item) => {
    assert(typeof item === 'string', `the list in column ${index} of the bookkeeping holds text`);
    return item;
  });
}

export function booleanAt(row: Row, index: number): boolean {
  const value = row[index];
  assert(typeof value === 'boolean', `column ${index} of the bookkeeping holds a truth value`);
  return value;
}
