/**
 * Numbers that DuckDB rounds as it reads them: those of JSON that have a fraction or an exponent pass through a double.
 * A column of numbers holds doubles anyway; but an integer, and a number inside a JSON value, must be what was written.
 *
 * DuckDB does not tell, so the few pages in question are read again, here, where a number still shows its own text.
 */

import { readFile } from 'node:fs/promises';
import { filePath } from '../engine/quoting.ts';
import { MAX_DIGITS } from '../json-text.ts';
import type { ChangesColumns } from './columns.ts';
import { netColumn } from './net.ts';
import { writtenNumbers } from './numbers.ts';
import type { Page } from './pages.ts';

/** With fewer digits and larger exponents, a decimal number comes out of a double as it went in. */
const MAY_BE_ROUNDED = '[0-9][0-9.]{15}|[eE]-[0-9]{3}';

/** Whether any cell of a row was read as a double and must not be: for most rows, and then nothing more is asked. */
export function hasDoubles({ columns }: ChangesColumns): string {
  const tests = columns.flatMap(({ type }, position) => {
    const cell = netColumn(position);
    if (type === 'integer') return [`coalesce(ends_with(${cell}, '.0'), FALSE)`];
    return type === 'json' ? [`coalesce(regexp_matches(${cell}, '[0-9][.eE]'), FALSE)`] : [];
  });
  return tests.length === 0 ? 'FALSE' : tests.join(' OR ');
}

/** The paths of those pages in which a number may have been rounded. */
export function findRoundedPages(pages: readonly Page[]): string {
  const paths = pages.map(({ path }) => filePath(path));
  return `SELECT filename FROM read_text([${paths.join(', ')}]) WHERE regexp_matches(content, '${MAY_BE_ROUNDED}')`;
}

export interface RoundedNumber {
  /** From 1. */
  readonly line: number;
  readonly column: string;
  readonly type: 'integer' | 'json';
  /** As it is written. */
  readonly number: string;
}

/** The first number in the page that is not what was written any more; null where there is none. */
export async function findRounded(page: Page, { columns }: ChangesColumns): Promise<RoundedNumber | null> {
  const types = new Map(columns.map(({ column, type }) => [column.name, type]));
  for (const { line, column, written } of writtenNumbers(await readFile(page.path, 'utf8'), isRounded)) {
    const type = types.get(column);
    if (type === 'integer' || type === 'json') return { line, column, type, number: written };
  }
  return null;
}

/**
 * Whether a double does not hold the number to its last digit; json-text.ts asks the same of numbers in files. A number without
 * fraction and exponent, and one that is too large for a double, DuckDB keeps as text.
 */
export function isRounded(written: string): boolean {
  const number = Number(written);
  if (!/[.eE]/.test(written) || !Number.isFinite(number)) return false;
  const digits = digitsOf(written);
  if (digits === '' || digits === digitsOf(String(number))) return false;
  if (digits.length >= MAX_DIGITS) return true;
  return digitsOf(number.toPrecision(digits.length)) !== digits || isHalfway(number, digits);
}

/** Of a double that lies halfway between two numbers of as many digits, other programs write the other one. */
function isHalfway(number: number, { length }: string): boolean {
  const all = digitsOf(number.toPrecision(MAX_DIGITS));
  return all.length === length + 1 && all.endsWith('5');
}

/** The digits of a decimal number without the zeros before and after them. */
function digitsOf(decimal: string): string {
  return decimal
    .replace(/[eE].*$/, '')
    .replaceAll(/[-.]/g, '')
    .replace(/^0+/, '')
    .replace(/0+$/, '');
}
