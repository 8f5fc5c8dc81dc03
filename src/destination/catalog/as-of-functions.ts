/**
 * Which text the as-of functions of a destination have: its digest is recorded in the catalog, so that a program that writes another
 * text notices. The same in every destination. Pure.
 */

import { createHash } from 'node:crypto';
import { text } from '../../staging/engine/sql.ts';
import { META_AS_OF_FUNCTIONS } from './tables.ts';
import { type CatalogWrite, deleteRows, insertRows } from './writes.ts';

/** The statements for this log stand for those of every log. */
export const SPECIMEN_LOG = {
  datasetId: 'specimen',
  tableName: 'specimen',
  logName: 'specimen',
  source: 'main.specimen',
  columns: [
    { columnName: 'id', type: 'integer', role: 'key' },
    { columnName: 'value', type: 'string', role: 'data' },
  ],
} as const;

/** Returns the digest of the functions; `statements` make those of the specimen. */
export function digestOfFunctions(statements: readonly string[]): string {
  return createHash('sha256').update(statements.join('\n')).digest('hex');
}

/** Selects a row where this digest is recorded. `meta` is a table as SQL. */
export function selectRecordedFunctions(meta: string, digest: string): string {
  return `SELECT 1 FROM ${meta} WHERE "key" = ${text(META_AS_OF_FUNCTIONS)} AND value = ${text(digest)}`;
}

export function asOfFunctionsWrites(digest: string): readonly CatalogWrite[] {
  return [
    deleteRows('meta', ['key'], [[META_AS_OF_FUNCTIONS]]),
    insertRows('meta', [[META_AS_OF_FUNCTIONS, digest]]),
  ];
}
