/**
 * Finds the numbers in the cells of a page as they are written. JSON.parse would hide some: where an object has a member twice, DuckDB
 * keeps both values and JSON.parse only the last. Pure.
 */

import { readFile } from 'node:fs/promises';
import { filePath } from '../engine/sql.ts';
import { MAX_DIGITS } from '../json-text.ts';
import type { ChangesColumns } from './columns.ts';
import { netColumn } from './net-change.ts';
import type { Page } from './pages.ts';

interface WrittenNumber {
  /** Of the change that it belongs to, from 1. */
  readonly line: number;
  /** The name of the column, as the row or the key has it. */
  readonly column: string;
  readonly written: string;
}

/** A quote begins a text, which is skipped: what stands in it is none of these. */
const MARK = /["{}[\],]|-?\d[-+.\deE]*/g;
const COLON = /\s*:/y;

/** How many lists and objects are around the members of a page, its changes, the members of a change, and the cells of its row or key. */
const [IN_PAGE, IN_CHANGES, IN_CHANGE, IN_ROW] = [1, 2, 3, 4] as const;
const CELLS = ['row', 'key'];

/** Yields the numbers for which `isSought` is true. The page is valid JSON. */
function* writtenNumbers(page: string, isSought: (written: string) => boolean): Generator<WrittenNumber> {
  const mark = new RegExp(MARK);
  const place = new Place();
  for (let found = mark.exec(page); found !== null; found = mark.exec(page)) {
    const [token] = found;
    if (token === '"') {
      mark.lastIndex = endOfText(page, found.index);
      if (isName(page, mark.lastIndex)) place.name(page.slice(found.index, mark.lastIndex));
    } else if ('{}[],'.includes(token)) place.pass(token);
    else if (isSought(token) && place.isInCell()) yield { ...place.cell(), written: token };
  }
}

/** Where in a page a mark is. */
class Place {
  #depth = 0;
  #line = 1;
  /** By depth, the names that were last, as they are written. */
  readonly #names: string[] = [];

  name(written: string): void {
    if (this.#depth <= IN_ROW) this.#names[this.#depth] = written;
  }

  /** Passes a bracket or a comma. */
  pass(token: string): void {
    if (token === ',') {
      if (this.#depth === IN_CHANGES) this.#line += 1;
    } else this.#depth += token === '{' || token === '[' ? 1 : -1;
    if (this.#depth === IN_PAGE) this.#line = 1;
  }

  isInCell(): boolean {
    if (this.#depth < IN_ROW || this.#nameAt(IN_PAGE) !== 'changes') return false;
    return CELLS.includes(this.#nameAt(IN_CHANGE));
  }

  cell(): Pick<WrittenNumber, 'line' | 'column'> {
    return { line: this.#line, column: this.#nameAt(IN_ROW) };
  }

  #nameAt(depth: number): string {
    return String(JSON.parse(this.#names[depth] ?? '""'));
  }
}

/** Where the text ends that begins at `start`: behind its last quote. */
function endOfText(page: string, start: number): number {
  for (let end = page.indexOf('"', start + 1); end >= 0; end = page.indexOf('"', end + 1)) {
    let backslashes = 0;
    while (page[end - 1 - backslashes] === '\\') backslashes += 1;
    if (backslashes % 2 === 0) return end + 1;
  }
  return page.length;
}

function isName(page: string, end: number): boolean {
  COLON.lastIndex = end;
  return COLON.test(page);
}

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
