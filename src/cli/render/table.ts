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
  /** Moves below its row where the screen is too narrow; of several optional columns, the last one goes first. */
  readonly isOptional?: boolean;
  /** Takes the remaining width and wraps. At most one column of a table. */
  readonly wraps?: boolean;
}

/** Returns a column for numbers. */
export function rightAligned(title: string): TableColumn {
  return { title, align: 'right' };
}

/** Returns lines without a trailing line break; cells are made printable. Without a `width` nothing is wrapped or moved. */
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
  const [head = '', ...lines] = table
    .toString()
    .split('\n')
    .map((line) => line.trimEnd());
  const heights = rows.map((_, row) =>
    Math.max(...wrapped.map((cells) => (cells[row] ?? '').split('\n').length)),
  );
  const moved = all.filter(({ title }) => shown.every((column) => column.title !== title));
  const body = rows.flatMap((_, row) => [...lines.splice(0, heights[row]), ...linesBelow(moved, row)]);
  return [head, '─'.repeat(Math.max(head.length, ...body.map(({ length }) => length))), ...body].join('\n');
}

/** One column under another. */
function linesBelow(columns: readonly Shown[], row: number): readonly string[] {
  const named = columns.map(({ title, cells }) => ({ title, cell: cells[row] ?? '' }));
  return named.flatMap(({ title, cell }) => (cell === '' ? [] : [`  ${printable(title)}: ${cell}`]));
}

/** Renders one column under another, row by row: for rows that are wider than the screen. */
export function renderRecords(titles: readonly string[], rows: readonly (readonly string[])[]): string {
  const names = titles.map(printable);
  const width = Math.max(0, ...names.map(({ length }) => length));
  const records = rows.map((row, index) => [
    `row ${index + 1} ${'─'.repeat(Math.max(4, width))}`,
    ...names.map((name, column) => `${name.padEnd(width)}  ${printable(row[column] ?? '')}`.trimEnd()),
  ]);
  return records.map((lines) => lines.join('\n')).join('\n');
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
