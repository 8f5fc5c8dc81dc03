/** Writes the rows of a statement as a table, as CSV and as JSON, in batches. */

import { stringify } from 'csv-stringify/sync';
import type { QueryResult, Rendered } from '../../destination/reader.ts';
import { printable } from '../../lib/text.ts';
import { formatCount, plural } from '../../lib/units.ts';
import { write } from '../context.ts';
import type { QueryFormat } from './formats.ts';
import { renderRecords, renderTable, type TableColumn } from './table.ts';

/** A table is laid out as a whole, so its rows are limited; the other formats need no limit. */
const MAX_TABLE_ROWS = 1_000;
/** A polygon would push every other column off the screen. */
const MAX_CELL_LENGTH = 60;
/** Rows written at once. */
const ROWS_PER_WRITE = 1_000;

/** Types whose text is a JSON value already: numbers with every digit, documents, lists and structures. */
const JSON_AS_IT_IS =
  /^(?:(?:U?(?:BIG|HUGE|SMALL|TINY)INT|U?INTEGER|DECIMAL\b.*|JSON)$|STRUCT|MAP|UNION)|\]$/;
const NUMERIC = /INT|DECIMAL|DOUBLE|FLOAT/;

type Row = readonly Rendered[];

interface ShownRows {
  readonly unit: string;
  /** Columns of the screen: a wider table is shown with one column under another. Null: there is no screen. */
  readonly width: number | null;
}

/** Resolves to the number of rows. @throws UsageError when the SQL fails while its rows are computed. */
export async function writeRows(
  result: QueryResult,
  format: QueryFormat,
  stdout: NodeJS.WritableStream,
  shown: Partial<ShownRows> = {},
): Promise<number> {
  if (format === 'table') {
    const { text, count } = await table(result, { unit: 'row', width: null, ...shown });
    await write(stdout, text);
    return count;
  }
  if (format === 'csv') await write(stdout, csv([result.columnNames]));
  let count = 0;
  await writeBatches(result.rows, stdout, (rows) => {
    count += rows.length;
    return format === 'csv' ? csv(rows) : jsonLines(result, rows);
  });
  return count;
}

/** Ends early where nobody reads any more. */
export async function writeBatches<Item>(
  rows: AsyncIterable<Item>,
  stdout: NodeJS.WritableStream,
  textOf: (batch: readonly Item[]) => string,
): Promise<void> {
  for await (const batch of inBatches(rows)) {
    if (!(await write(stdout, textOf(batch)))) return;
  }
}

async function table(
  { columnNames, columnTypes, rows }: QueryResult,
  { unit, width }: ShownRows,
): Promise<{ readonly text: string; readonly count: number }> {
  const shown: string[][] = [];
  let count = 0;
  for await (const row of rows) {
    count += 1;
    if (count <= MAX_TABLE_ROWS) shown.push(row.map(cell));
  }
  const columns = columnNames.map((title, index): TableColumn => {
    return { title, align: NUMERIC.test(columnTypes[index] ?? '') ? 'right' : 'left' };
  });
  const hidden = count - shown.length;
  const more = hidden === 0 ? '' : `… and ${formatCount(hidden)} more: --format csv or json shows them all\n`;
  const wide = renderTable(columns, shown);
  const isTooWide = width !== null && wide.slice(0, wide.indexOf('\n')).length > width;
  const text = isTooWide ? renderRecords(columnNames, shown) : wide;
  return { text: `${text}\n${more}(${plural(count, unit)})\n`, count };
}

/** Returns whether the result is a plan. DuckDB draws the plan of a statement itself, in lines. */
export function isPlan({ columnNames }: QueryResult): boolean {
  return columnNames.join(' ') === 'explain_key explain_value';
}

export async function writePlan({ rows }: QueryResult, stdout: NodeJS.WritableStream): Promise<void> {
  for await (const [, plan] of rows) {
    await write(stdout, `${String(plan).split('\n').map(printable).join('\n').trimEnd()}\n`);
  }
}

function cell(value: Rendered): string {
  const text = value === null ? 'NULL' : String(value);
  return text.length <= MAX_CELL_LENGTH ? text : `${text.slice(0, MAX_CELL_LENGTH - 1)}…`;
}

/** NULL is an empty field, and an empty text is a quoted one; a lone carriage return ends no line. */
function csv(rows: readonly Row[]): string {
  return stringify(
    rows.map((row) => [...row]),
    { quoted_match: [/^$/, /\r/], cast: { boolean: String } },
  );
}

function jsonLines({ columnNames, columnTypes }: QueryResult, rows: readonly Row[]): string {
  const keys = columnNames.map((name) => JSON.stringify(name));
  const line = (row: Row): string =>
    row.map((value, index) => `${keys[index]}:${jsonValue(value, columnTypes[index] ?? '')}`).join(',');
  return rows.map((row) => `{${line(row)}}\n`).join('');
}

/** Returns a value as JSON. `type` is the type of the column as DuckDB names it. */
export function jsonValue(value: Rendered, type: string): string {
  return JSON_AS_IT_IS.test(type) ? String(value) : JSON.stringify(value);
}

async function* inBatches<Item>(rows: AsyncIterable<Item>): AsyncGenerator<readonly Item[]> {
  let batch: Item[] = [];
  for await (const row of rows) {
    batch.push(row);
    if (batch.length < ROWS_PER_WRITE) continue;
    yield batch;
    batch = [];
  }
  if (batch.length > 0) yield batch;
}
