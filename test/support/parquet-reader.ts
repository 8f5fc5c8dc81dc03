/** Reads Parquet files back with DuckDB, so that what the fixtures write is never judged by its own writer. */

import { DuckDBInstance, type DuckDBValue } from '@duckdb/node-api';
import type { ColumnType, SourceSchema } from '../../fixtures/source/content.ts';
import { columnsOf } from '../../fixtures/source/wire.ts';

/** The rows of a query without parameters, each as an array of its values. */
export async function queryRows(sql: string): Promise<DuckDBValue[][]> {
  const instance = await DuckDBInstance.create(':memory:');
  const connection = await instance.connect();
  try {
    return (await connection.runAndReadAll(sql)).getRows();
  } finally {
    connection.closeSync();
    instance.closeSync();
  }
}

/**
 * The rows of a snapshot in its own order, in values that tests can compare: dates as text, timestamps as
 * microseconds since 1970 in UTC, geometry as hexadecimal WKB, all else as it is.
 */
export async function readSnapshot(path: string, schema: SourceSchema): Promise<DuckDBValue[][]> {
  const columns = columnsOf(schema);
  const expressions = columns.map(({ name, type }) => expressionFor(`"${name.replaceAll('"', '""')}"`, type));
  const rows = await queryRows(`SELECT ${expressions.join(', ')} FROM ${parquetSource(path)}`);
  return rows.map((row) =>
    row.map((value, index) => (columns[index]?.type === 'string' ? textFromHex(value) : value)),
  );
}

function expressionFor(column: string, type: ColumnType): string {
  if (type === 'date') return `CAST(${column} AS VARCHAR)`;
  if (type === 'timestamp') return `epoch_us(${column})`;
  if (type === 'geometry') return `lower(hex(ST_AsWKB(${column})))`;
  // The client of DuckDB drops a byte order mark at the start of a text that it hands to JavaScript.
  if (type === 'string') return `hex(${column})`;
  return column;
}

function textFromHex(value: DuckDBValue): DuckDBValue {
  return typeof value === 'string' ? Buffer.from(value, 'hex').toString('utf8') : value;
}

/** The table function that reads a file, for the FROM of a query. */
export function parquetSource(path: string): string {
  return `read_parquet('${path.replaceAll("'", "''")}')`;
}
