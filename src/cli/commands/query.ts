/** `feed-sync query SQL`: reads the mirror. The mirror is opened read-only, so nothing can be changed by accident. */

import { stringify } from 'csv-stringify/sync';
import type { LocalConfiguration } from '../../configuration/configuration.ts';
import type { QueryResult, Rendered } from '../../destination/duckdb/reader.ts';
import { formatCount, plural } from '../../lib/units.ts';
import { UsageError } from '../../model/errors.ts';
import { usingMirror } from '../../reporting/stores.ts';
import { type Context, write } from '../context.ts';
import { EXIT_CODES, type ExitCode } from '../exit-codes.ts';
import { timeOf } from '../past-state.ts';
import { type QueryFormat, renderTable, type TableColumn } from '../render/table.ts';

/**
 * @throws UsageError when the SQL does not run. @throws StorageError when there is no mirror. @throws BusyError when a
 * writer keeps the mirror locked for longer than `lock.wait`.
 */
export async function query(
  sql: string,
  configuration: LocalConfiguration,
  context: Context,
  { format, asOf }: { readonly format: QueryFormat; readonly asOf?: string },
): Promise<ExitCode> {
  const time = asOf === undefined ? undefined : timeOf('--as-of', asOf);
  if (sql.trim() === '') {
    throw new UsageError('The SQL is empty.', { hint: 'feed-sync query --help' });
  }
  return usingMirror(configuration, context, async (reader) => {
    await writeRows(await reader.query(sql, time), format, context.terminal.stdout);
    return EXIT_CODES.caughtUp;
  });
}

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

/** @throws UsageError when the SQL fails while its rows are computed. */
export async function writeRows(
  result: QueryResult,
  format: QueryFormat,
  stdout: NodeJS.WritableStream,
  unit = 'row',
): Promise<void> {
  if (format === 'table') return write(stdout, await table(result, unit));
  if (format === 'csv') await write(stdout, csv([result.columnNames]));
  for await (const rows of inBatches(result.rows)) {
    await write(stdout, format === 'csv' ? csv(rows) : jsonLines(result, rows));
  }
}

async function table({ columnNames, columnTypes, rows }: QueryResult, unit: string): Promise<string> {
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
  return `${renderTable(columns, shown)}\n${more}(${plural(count, unit)})\n`;
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

/** `type` is the type of the column as DuckDB names it. */
export function jsonValue(value: Rendered, type: string): string {
  return JSON_AS_IT_IS.test(type) ? String(value) : JSON.stringify(value);
}

export async function* inBatches<Item>(rows: AsyncIterable<Item>): AsyncGenerator<readonly Item[]> {
  let batch: Item[] = [];
  for await (const row of rows) {
    batch.push(row);
    if (batch.length < ROWS_PER_WRITE) continue;
    yield batch;
    batch = [];
  }
  if (batch.length > 0) yield batch;
}
