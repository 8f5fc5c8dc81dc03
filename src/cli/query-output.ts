/** The rows of a query, written as they come: as a table for people, as JSON lines or CSV for programs. */

import { stringify } from 'csv-stringify/sync';
import type { QueryResult } from '../destination/duckdb/reader.ts';
import { formatCount } from '../lib/units.ts';
import { renderTable } from './table.ts';
import { write } from './terminal.ts';

export type QueryFormat = 'table' | 'json' | 'csv';

/** A table is laid out as a whole, so it must end somewhere; the other formats have no end of their own. */
const MAX_TABLE_ROWS = 1_000;

export async function writeRows(
  result: QueryResult,
  format: QueryFormat,
  stdout: NodeJS.WritableStream,
): Promise<void> {
  switch (format) {
    case 'table':
      return writeTable(result, stdout);
    case 'json':
      return writeJsonLines(result, stdout);
    case 'csv':
      return writeCsv(result, stdout);
  }
}
