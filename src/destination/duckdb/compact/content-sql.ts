/**
 * The statements that copy the content of one attached database into another, and that say what one has, as text. They
 * speak of everything that is in it, whoever put it there.
 */

import { identifier, text } from '../engine/quoting.ts';

/** A table of an attached database. */
export interface CopiedTable {
  readonly schema: string;
  readonly name: string;
  readonly columns: readonly string[];
  /** As DuckDB estimates them. */
  readonly rows: number;
}

/** Schemas, tables, views, sequences, macros, types and indexes, with comments, and none of the rows. */
export function copyObjects(from: string, to: string): string {
  return `COPY FROM DATABASE ${identifier(from)} TO ${identifier(to)} (SCHEMA)`;
}

/** In the order in which they lie there. */
export function copyRows(from: string, to: string, table: CopiedTable): string {
  return `INSERT INTO ${placeOf(to, table)} SELECT * FROM ${placeOf(from, table)}`;
}

/** A row for each table, in the order in which they were made: schema, name, columns, about how many rows. */
export function selectTables(database: string): string {
  return `SELECT tables.schema_name, tables.table_name, list(columns.column_name ORDER BY columns.column_index),
      any_value(tables.estimated_size)
    FROM duckdb_tables() AS tables JOIN duckdb_columns() AS columns USING (database_oid, table_oid)
    WHERE tables.database_name = ${text(database)}
    GROUP BY tables.schema_name, tables.table_name, table_oid ORDER BY table_oid`;
}

/** A row for each object of the database: what it is, its name, and everything that is known of it but its rows. */
export function selectObjects(database: string): string {
  const own = (kind: string, name: string, known: string, from: string, where = 'NOT internal') =>
    `SELECT ${text(kind)}, schema_name || '.' || ${name}, to_json([${known}])::VARCHAR
      FROM ${from} WHERE database_name = ${text(database)} AND ${where}`;
  const columns = 'duckdb_columns() SEMI JOIN duckdb_tables() USING (database_oid, table_oid)';
  return [
    `SELECT 'schema', schema_name, NULL FROM duckdb_schemas() WHERE database_name = ${text(database)}`,
    own('table', 'table_name', 'sql, comment', 'duckdb_tables()'),
    own(
      'column',
      "table_name || '.' || column_name",
      'data_type, column_default, is_nullable::VARCHAR, comment',
      columns,
    ),
    own('view', 'view_name', 'sql, comment', 'duckdb_views()'),
    own('sequence', 'sequence_name', 'sql, comment', 'duckdb_sequences()', 'NOT temporary'),
    own(
      'macro',
      'function_name',
      'function_type, parameters::VARCHAR, macro_definition, comment',
      'duckdb_functions()',
    ),
    own('type', 'type_name', 'logical_type, labels::VARCHAR, comment', 'duckdb_types()'),
    own('index', 'index_name', 'sql, comment', 'duckdb_indexes()', 'true'),
  ].join(' UNION ALL ');
}

/**
 * One row, by one scan: how many rows there are, and a number that is another one where a row is another, lacks or is
 * there twice. Where the order of the rows has a meaning it is another one for another order, too.
 */
export function digestTable(database: string, table: CopiedTable, isOrdered: boolean): string {
  const row = `hash(${table.columns.map(identifier).join(', ')})`;
  const place = placeOf(database, table);
  const hashes = isOrdered
    ? `(SELECT hash(row_number() OVER (), ${row}) AS digest FROM ${place})`
    : `(SELECT ${row} AS digest FROM ${place})`;
  return `SELECT count(*), coalesce(sum(digest), 0)::VARCHAR FROM ${hashes}`;
}

/** One row: the bytes of the file that hold something, and those that do not. */
export function selectSpace(database: string): string {
  return `SELECT used_blocks * block_size, free_blocks * block_size FROM pragma_database_size()
    WHERE database_name = ${text(database)}`;
}

function placeOf(database: string, { schema, name }: Pick<CopiedTable, 'schema' | 'name'>): string {
  return [database, schema, name].map(identifier).join('.');
}
