/** Tables for people: plain columns under a rule, no boxes. */

import Table from 'cli-table3';
import { printable } from './terminal.ts';

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

export interface TableColumn {
  readonly title: string;
  readonly align?: 'left' | 'right';
}

/** Lines without a trailing line break; cells are made printable. */
export function renderTable(columns: readonly TableColumn[], rows: readonly (readonly string[])[]): string {
  const table = new Table({
    head: columns.map(({ title }) => printable(title)),
    colAligns: columns.map(({ align }) => align ?? 'left'),
    chars: NO_BORDERS,
    style: { head: [], border: [], 'padding-left': 0, 'padding-right': 0 },
  });
  table.push(...rows.map((row) => row.map(printable)));
  const [head = '', ...body] = table
    .toString()
    .split('\n')
    .map((line) => line.trimEnd());
  return [head, '─'.repeat(Math.max(head.length, ...body.map(({ length }) => length))), ...body].join('\n');
}
