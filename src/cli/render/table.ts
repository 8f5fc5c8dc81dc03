/** Tables for people: plain columns under a rule, no boxes, laid out for the screen. */

import Table from 'cli-table3';
import { printable } from '../../lib/text.ts';

const NO_BORDERS = {
  top: '',
  'top-mid': '',
  'top-left': '',
  'top-right': '',
  bottom: '',
  'bottom-mid': '',
  'bottom-left': '',
  'bottom-right': '',
  left: '',
  'left-mid': '',
  mid: '',
  'mid-mid': '',
  right: '',
  'right-mid': '',
  middle: '  ',
};

const GAP = 2;
/** Narrower than this, a column of words is hard to read: optional columns make room for it. */
const LEAST_WORDS_WIDTH = 30;

export interface TableColumn {
  readonly title: string;
  readonly align?: 'left' | 'right';
  /** Left out where the screen is too narrow for all: of several, the last one first. */
  readonly isOptional?: boolean;
  /** Takes the width that the others leave, and goes on in the next line. One column of a table at most. */
  readonly wraps?: boolean;
}

/**
 * Lines without a trailing line break; cells are made printable. Without a `width` everything is shown in lines as long
 * as it takes.
 */
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
    chars: NO_BORDERS,
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

/** All columns, or those that are left when optional ones have made room. */
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

/** Broken between words alone: what is longer than a line stays whole. */
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
 * JSON for programs: indented, with one line break at the end. What a terminal would act upon is written as an escape, which
 * means the same.
 */
export function jsonText(value: unknown): string {
  const lines = JSON.stringify(value, null, 2).split('\n');
  return `${lines.map(printable).join('\n')}\n`;
}

export const QUERY_FORMATS = ['table', 'json', 'csv'] as const;

export type QueryFormat = (typeof QUERY_FORMATS)[number];
