/** The statements that count a table of the mirror and look at its columns, as text. Each reads, and none changes. */

import { MIRROR, mirrored } from '../books/mirror-schema.ts';
import { identifier, text } from '../engine/quoting.ts';

/** The longest part of a value of a key that is shown, in characters. */
const MAX_SHOWN_VALUE = 200;

/** A row for each column of those of the tables that are there: table, column, type as DuckDB names it. */
export function selectColumns(tableNames: readonly string[]): string {
  return `SELECT tables.table_name, columns.column_name, columns.data_type
    FROM duckdb_tables() AS tables JOIN duckdb_columns() AS columns USING (database_oid, table_oid)
    WHERE tables.database_name = ${text(MIRROR)} AND tables.schema_name = 'main'
      AND tables.table_name IN (${tableNames.map(text).join(', ')})
    ORDER BY tables.table_name, columns.column_index`;
}

/**
 * One row, by one scan: the rows, those of which a key column is null, and the different hashes of the keys. As many
 * hashes as rows prove the keys unique, without keeping the keys; fewer prove nothing, because hashes may collide.
 */
export function countTable(tableName: string, keyColumns: readonly string[]): string {
  const keys = keyColumns.map(identifier);
  const counts =
    keys.length === 0
      ? ['count(*)', '0', 'count(*)']
      : [
          'count(*)',
          `count(*) FILTER (${keys.map((key) => `${key} IS NULL`).join(' OR ')})`,
          `count(DISTINCT hash(${keys.join(', ')}))`,
        ];
  return `SELECT ${counts.join(', ')} FROM ${mirrored(tableName)}`;
}

/** One row: how many rows have a key that an earlier row has, and the values of one such key as text. */
export function countRepeatedKeys(tableName: string, keyColumns: readonly string[]): string {
  const keys = keyColumns.map(identifier);
  const aliases = keys.map((_, index) => `k${index}`);
  const shown = aliases.map((alias) => `any_value(left(${alias}::VARCHAR, ${MAX_SHOWN_VALUE}))`);
  return `SELECT coalesce(sum(copies - 1), 0)::BIGINT, ${shown.join(', ')}
    FROM (SELECT ${keys.join(', ')}, count(*) FROM ${mirrored(tableName)} GROUP BY ${keys.join(', ')} HAVING count(*) > 1)
      AS repeated(${[...aliases, 'copies'].join(', ')})`;
}
