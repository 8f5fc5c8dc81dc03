/**
 * Finds what JSON can say and no database can hold: half of a character (a lone surrogate), which makes a whole page
 * unreadable to DuckDB without a word about where. Only for the message, once a page is known to be unreadable. Pure.
 */

import { pageCells, valuesIn } from './changes-cells.ts';

export interface IllFormed {
  /** From 1. */
  readonly line: number;
  /** The column whose value or name it is. */
  readonly column: string;
  readonly value: string;
}

/** The first ill-formed text in the rows and keys of a page; null where there is none, or no page. */
export function findIllFormed(pageText: string): IllFormed | null {
  for (const { line, column, cell } of pageCells(parse(pageText))) {
    for (const value of [column, ...valuesIn(cell)]) {
      if (typeof value === 'string' && !value.isWellFormed()) return { line, column, value };
    }
  }
  return null;
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}
