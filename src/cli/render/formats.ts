/** Formats of results beside the table for people. Apart from it, because most runs print no table. */

import { printable } from '../../lib/text.ts';

/**
 * Returns JSON for programs: indented, with one line break at the end. Characters that a terminal would act upon are
 * escaped, which means the same in JSON.
 */
export function jsonText(value: unknown): string {
  const lines = JSON.stringify(value, null, 2).split('\n');
  return `${lines.map(printable).join('\n')}\n`;
}

export const QUERY_FORMATS = ['table', 'json', 'csv'] as const;

/** `query` writes these to a file, too. */
export const QUERY_FILE_FORMATS = [...QUERY_FORMATS, 'parquet', 'geoparquet'] as const;

export type QueryFileFormat = (typeof QUERY_FILE_FORMATS)[number];

export type QueryFormat = (typeof QUERY_FORMATS)[number];
