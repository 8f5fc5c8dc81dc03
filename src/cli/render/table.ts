/** Renders tables for people: plain columns under a rule, without boxes, fitted to the screen. */

import Table from 'cli-table3';
import { printable } from '../../lib/text.ts';

/** Every border is empty. */
const BORDERS = Object.fromEntries(Object.keys(new Table().options.chars).map((name) => [name, '']));

const GAP = 2;
/** A narrower column of words is hard to read, so optional columns make room for it. */
const LEAST_WORDS_WIDTH = 30;

export interface TableColumn {
  readonly title: string;
  readonly align?: 'left' | 'right';
  /** Left out where the screen is too narrow; of several optional columns, the last one goes first. */
  readonly isOptional?: boolean;
  /** Takes the remaining width and wraps. At most one column of a table. */
  readonly wraps?: boolean;
}

/** For numbers. */
export function rightAligned(title: string): TableColumn {
  return { title, align: 'right' };
}

/** Returns lines without a trailing line break; cells are made printable. Without a `width` nothing is wrapped or left out. */
export function renderTable(
  columns: readonly TableColumn[],
  rows: readonly (readonly string[])[],
  width: number = Number.POSITIVE_INFINITY,
): string {
  const all = columns.map((column, index): Shown => {
    const cells = rows.map((row) => printable(row[index] ?? ''));
    const longest = Math.max(column.title.length, ...cells.map(({ length }) => length));
    return { ...column, cells, longest };
  });
  const shown = fitting(all, width);
  const table = new Table({
    head: shown.map(({ title }) => printable(title)),
    colAligns: shown.map(({ align }) => align ?? 'left'),
    chars: { ...BORDERS, middle: '  ' },
    style: { head: [], border: [], 'padding-left': 0, 'padding-right': 0 },
  });
  const wrapped = shown.map((column) =>
    column.wraps === true ? wrappedCells(column, shown, width) : column.cells,
  );
  table.push(...rows.map((_, row) => wrapped.map((cells) => cells[row] ?? '')));
  const [head = '', ...body] = table
    .toString()
    .split('\n')
    .map((line) => line.trimEnd());
  return [head, '─'.repeat(Math.max(head.length, ...body.map(({ length }) => length))), ...body].join('\n');
}

interface Shown extends TableColumn {
  readonly cells: readonly string[];
  readonly longest: number;
}

/** Returns all columns, or the rest after optional ones have made room. */
function fitting(columns: readonly Shown[], width: number): readonly Shown[] {
  const needed = columns.map(({ longest, wraps }) =>
    wraps === true ? Math.min(longest, LEAST_WORDS_WIDTH) : longest,
  );
  const last = columns.findLastIndex(({ isOptional }) => isOptional === true);
  if (last < 0 || totalOf(needed) <= width) return columns;
  return fitting(columns.toSpliced(last, 1), width);
}

function totalOf(widths: readonly number[]): number {
  return widths.reduce((sum, one) => sum + one + GAP, -GAP);
}

function wrappedCells({ cells }: Shown, shown: readonly Shown[], width: number): readonly string[] {
  const others = shown.filter(({ wraps }) => wraps !== true).map(({ longest }) => longest);
  const left = Math.max(LEAST_WORDS_WIDTH, width - totalOf([...others, 0]));
  return cells.map((cell) => wrapWords(cell, left));
}

/** Wraps between words only: a word longer than a line stays whole. */
function wrapWords(text: string, width: number): string {
  if (text.length <= width) return text;
  const lines = [''];
  for (const word of text.split(' ')) {
    const line = lines.at(-1) ?? '';
    if (line !== '' && line.length + 1 + word.length > width) lines.push(word);
    else lines[lines.length - 1] = line === '' ? word : `${line} ${word}`;
  }
  return lines.join('\n');
}

/**
 * Returns JSON for programs: indented, with one line break at the end. Characters that a terminal would act upon are
 * escaped, which means the same in JSON.
 */
export function jsonText(value: unknown): string {
  const lines = JSON.stringify(value, null, 2).split('\n');
  return `${lines.map(printable).join('\n')}\n`;
}

export const QUERY_FORMATS = ['table', 'json', 'csv'] as const;

export type QueryFormat = (typeof QUERY_FORMATS)[number];
