/** Whether two databases have the same rows. */

import type { DuckDBConnection } from '@duckdb/node-api';
import { WrongResultError } from './case.ts';
import { rows, withDatabase } from './table-counts.ts';

/** Of each dataset, by id: the number of its rows and a sum over their values, as text. */
export type Content = ReadonlyMap<string, string>;

/** The content of the tables that `tableOf` names, whatever the order of rows and columns. */
export function contentOf(
  database: string,
  datasetIds: readonly string[],
  tableOf: (datasetId: string) => string,
): Promise<Content> {
  return withDatabase(database, async (connection) => {
    const content = new Map<string, string>();
    for (const datasetId of datasetIds) {
      const table = tableOf(datasetId);
      const values = (await columnsOf(connection, table)).map(([name, type]) =>
        comparable(`"${name}"`, type),
      );
      const sum = `SELECT count(*) || ' rows, ' || sum(hash([${values.join(', ')}])) FROM "${table}"`;
      content.set(datasetId, String((await rows(connection, sum))[0]?.[0]));
    }
    return content;
  });
}

/** @throws WrongResultError where they differ. */
export function compareContents(ours: Content, theirs: Content): void {
  for (const [datasetId, content] of ours) {
    if (theirs.get(datasetId) === content) continue;
    throw new WrongResultError(`${datasetId} is ${content} here and ${theirs.get(datasetId)} there.`);
  }
}

async function columnsOf(connection: DuckDBConnection, table: string): Promise<readonly [string, string][]> {
  const found = await rows(
    connection,
    `SELECT column_name, data_type FROM duckdb_columns()
      WHERE schema_name = 'main' AND table_name = '${table}' AND column_name NOT LIKE '\\_dlt%' ESCAPE '\\' ORDER BY column_name`,
  );
  return found.map(([name, type]) => [String(name), String(type)]);
}

/** A geometry may be there as bytes, a time with or without a zone, and JSON as it was written. */
function comparable(column: string, type: string): string {
  if (type.startsWith('GEOMETRY')) return `hex(ST_AsWKB(${column}))`;
  if (type === 'BLOB') return `hex(${column})`;
  if (type.startsWith('TIMESTAMP')) return `epoch_us(${column})::VARCHAR`;
  return type === 'JSON' ? `json(${column})::VARCHAR` : `${column}::VARCHAR`;
}
