/**
 * Finds the numbers in the cells of a page as they are written. JSON.parse would hide some: of a repeated member DuckDB keeps
 * every value, JSON.parse only the last. Pure.
 */

import { readFile } from 'node:fs/promises';
import { filePath } from '../engine/sql.ts';
import { MAX_DIGITS } from '../json-text.ts';
import type { ChangesColumns } from './columns.ts';
import { netColumn } from './columns.ts';
import type { Page } from './pages.ts';

interface WrittenNumber {
  /** The change with the number, from 1. */
  readonly line: number;
  /** The name of the column in the row or the key. */
  readonly column: string;
  readonly written: string;
}

/** A quote begins a text, which is skipped with everything in it. */
const MARK = /["{}[\],]|-?\d[-+.\deE]*/g;
const COLON = /\s*:/y;

/** The depth of the members of a page, of its changes, of a change's members, and of the cells of its row or key. */
const [IN_PAGE, IN_CHANGES, IN_CHANGE, IN_ROW] = [1, 2, 3, 4] as const;
const CELLS = ['row', 'key'];

/** Yields the numbers for which `isSought` is true. The page must be valid JSON. */
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

/** The place of a mark in a page. */
class Place {
  #depth = 0;
  #line = 1;
  /** The last names at each depth, as written. */
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

/** Returns the position behind the last quote of the text that begins at `start`. */
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

/** A double holds a decimal number exactly if the number has fewer digits than this and no large exponent. */
const MAY_BE_ROUNDED = '[0-9][0-9.]{15}|[eE]-[0-9]{3}';

/**
 * Returns SQL that is true when a cell of the row was read as a double and must not be rounded. Most rows have none, and need no further
 * check.
 */
export function hasDoubles({ columns }: ChangesColumns): string {
  const tests = columns.flatMap(({ type }, position) => {
    const cell = netColumn(position);
    if (type === 'integer') return [`coalesce(ends_with(${cell}, '.0'), FALSE)`];
    return type === 'json' ? [`coalesce(regexp_matches(${cell}, '[0-9][.eE]'), FALSE)`] : [];
  });
  return tests.length === 0 ? 'FALSE' : tests.join(' OR ');
}

/** Returns the paths of the pages in which a number may have been rounded. */
export function findRoundedPages(pages: readonly Page[]): string {
  const paths = pages.map(({ path }) => filePath(path));
  return `SELECT filename FROM read_text([${paths.join(', ')}]) WHERE regexp_matches(content, '${MAY_BE_ROUNDED}')`;
}

export interface RoundedNumber {
  /** From 1. */
  readonly line: number;
  readonly column: string;
  readonly type: 'integer' | 'json';
  /** The number as written. */
  readonly number: string;
}

/** Returns the first number in the page that a double has changed; null when there is none. */
export async function findRounded(page: Page, { columns }: ChangesColumns): Promise<RoundedNumber | null> {
  const types = new Map(columns.map(({ column, type }) => [column.name, type]));
  for (const { line, column, written } of writtenNumbers(await readFile(page.path, 'utf8'), isRounded)) {
    const type = types.get(column);
    if (type === 'integer' || type === 'json') return { line, column, type, number: written };
  }
  return null;
}

/**
 * Returns whether a double does not hold the number to its last digit; json-text.ts has the same rule for numbers in files. DuckDB keeps a
 * number as text when it has no fraction and no exponent, or is too large for a double.
 */
export function isRounded(written: string): boolean {
  const number = Number(written);
  if (!/[.eE]/.test(written) || !Number.isFinite(number)) return false;
  const digits = digitsOf(written);
  if (digits === '' || digits === digitsOf(String(number))) return false;
  if (digits.length >= MAX_DIGITS) return true;
  return digitsOf(number.toPrecision(digits.length)) !== digits || isHalfway(number, digits);
}

/** For a double halfway between two numbers of as many digits, other programs write the other number. */
function isHalfway(number: number, { length }: string): boolean {
  const all = digitsOf(number.toPrecision(MAX_DIGITS));
  return all.length === length + 1 && all.endsWith('5');
}

/** Returns the digits of a decimal number without leading and trailing zeros. */
function digitsOf(decimal: string): string {
  return decimal
    .replace(/[eE].*$/, '')
    .replaceAll(/[-.]/g, '')
    .replace(/^0+/, '')
    .replace(/0+$/, '');
}
