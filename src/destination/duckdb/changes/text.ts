/**
 * Why DuckDB cannot read a page. JSON can say what no database can hold, half of a character (a lone surrogate): the
 * whole page is unreadable then, without a word about where. Only for the message, once a page is refused. Pure.
 */

import { isUtf8 } from 'node:buffer';
import { MAX_SHOWN_VALUE } from '../snapshot/load-sql.ts';
import { pageCells, valuesIn } from './cells.ts';

export interface Unreadable {
  /** From 1; null where the whole page is meant. */
  readonly line: number | null;
  readonly why: string;
}

/** Null where nothing is wrong with the page. */
export function whyUnreadable(bytes: Buffer): Unreadable | null {
  if (!isUtf8(bytes)) return { line: null, why: 'it is not in UTF-8' };
  const page = parse(bytes.toString('utf8'));
  if (page === null) return { line: null, why: 'it is not in JSON' };
  if (!Array.isArray(Object(page).changes)) return { line: null, why: 'it has no list of changes' };
  for (const { line, column, cell } of pageCells(page)) {
    for (const value of [column, ...valuesIn(cell)]) {
      if (typeof value === 'string' && !value.isWellFormed())
        return { line, why: whyIllFormed(column, value) };
    }
  }
  return null;
}

function whyIllFormed(column: string, value: string): string {
  const shown = JSON.stringify(value.slice(0, MAX_SHOWN_VALUE));
  return `the column ${JSON.stringify(column)} holds ${shown}, which is no text: half of a character stands alone`;
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}
