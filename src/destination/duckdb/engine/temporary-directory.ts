/**
 * Where an instance of DuckDB puts what does not fit into its memory. Each has a folder of its own: two instances that share one
 * give their files the same names, and the process crashes or reads what the other has written.
 */

import { join } from 'node:path';

const PURPOSES = ['large', 'small', 'examining', 'reading-ahead', 'looking', 'compacting'] as const;

/** What the instance is for. */
export type Purpose = (typeof PURPOSES)[number];

export function temporaryDirectory(dataDirectory: string, purpose: Purpose): string {
  return join(dataDirectory, `duckdb-temporary-${purpose}`);
}

/** All that there may be. */
export function temporaryDirectories(dataDirectory: string): readonly string[] {
  return PURPOSES.map((purpose) => temporaryDirectory(dataDirectory, purpose));
}
