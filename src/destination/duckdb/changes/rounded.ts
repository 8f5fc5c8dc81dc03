/**
 * Numbers that DuckDB rounds as it reads them: those of JSON that have a fraction or an exponent pass through a double.
 * A column of numbers holds doubles anyway; but an integer, and a number inside a JSON value, must be what was written.
 *
 * DuckDB does not tell, so the few pages in question are read again, here, where a number still shows its own text.
 */

import { readFile } from 'node:fs/promises';
import { filePath } from '../engine/quoting.ts';
import { pageCells, valuesIn } from './cells.ts';
import type { ChangesColumns } from './columns.ts';
import { netColumn } from './net.ts';
import type { Page } from './pages.ts';

/** With fewer digits and larger exponents, a decimal number comes out of a double as it went in. */
const MAY_BE_ROUNDED = '[0-9][0-9.]{15}|[eE]-[0-9]{3}';
/** The most digits that JavaScript writes of a double. */
const MAX_DIGITS = 100;

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
  for (const { line, column, cell } of pageCells(parseMarking(await readFile(page.path, 'utf8')))) {
    const type = types.get(column);
    if (type !== 'integer' && type !== 'json') continue;
    for (const value of valuesIn(cell)) {
      if (value instanceof Rounded) return { line, column, type, number: value.written };
    }
  }
  return null;
}

class Rounded {
  readonly written: string;

  constructor(written: string) {
    this.written = written;
  }
}

type Reviver = (key: string, value: unknown, context: { readonly source?: string }) => unknown;

/** The compiler's library does not know yet that JSON.parse tells what a value was read from. */
const parse = JSON.parse as unknown as (text: string, reviver: Reviver) => unknown;

function parseMarking(text: string): unknown {
  return parse(text, (_key, value, { source = '' }) =>
    typeof value === 'number' && isRounded(value, source) ? new Rounded(source) : value,
  );
}

/** A number without fraction and exponent, and one that no double can hold, DuckDB keeps as text. */
function isRounded(number: number, written: string): boolean {
  if (!/[.eE]/.test(written) || !Number.isFinite(number)) return false;
  const digits = digitsOf(written);
  if (digits.length > MAX_DIGITS) return true;
  return digits !== '' && digitsOf(number.toPrecision(digits.length)) !== digits;
}

/** The digits of a decimal number without the zeros before and after them. */
function digitsOf(decimal: string): string {
  return decimal
    .replace(/[eE].*$/, '')
    .replaceAll(/[-.]/g, '')
    .replace(/^0+/, '')
    .replace(/0+$/, '');
}
