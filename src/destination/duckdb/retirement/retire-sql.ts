/** The statements that retire a table, as text. */

import { MIRROR, mirrored } from '../books/mirror-schema.ts';
import { text } from '../engine/quoting.ts';

/** `copy` is SQL: the table that becomes the copy. */
export function copyOf(tableName: string, copy: string): string {
  return `CREATE TABLE ${copy} AS SELECT * FROM ${mirrored(tableName)}`;
}

export function dropTable(tableName: string): string {
  return `DROP TABLE ${mirrored(tableName)}`;
}

/** `table` is SQL. */
export function countRowsOf(table: string): string {
  return `SELECT count(*) FROM ${table}`;
}

/** The columns of a table that have a comment, each with it. */
export function selectComments(tableName: string): string {
  return `SELECT column_name, comment FROM duckdb_columns()
    WHERE database_name = ${text(MIRROR)} AND schema_name = 'main' AND table_name = ${text(tableName)}
      AND comment IS NOT NULL`;
}
