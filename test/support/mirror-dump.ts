/** Everything that is in a mirror, to be compared with what is in it later. */

import { DuckDBInstance, type Json } from '@duckdb/node-api';

/** By table, with its schema: the rows in order. Opens the mirror read-only. */
export async function mirrorDump(mirrorPath: string): Promise<Readonly<Record<string, Json>>> {
  const instance = await DuckDBInstance.create(mirrorPath, { access_mode: 'READ_ONLY', threads: '1' });
  const connection = await instance.connect();
  const rows = async (sql: string): Promise<Json[][]> =>
    (await connection.runAndReadAll(sql)).getRowsJson() as Json[][];
  try {
    const dump: Record<string, Json> = {};
    const tables = await rows('SELECT schema_name, table_name, sql FROM duckdb_tables() ORDER BY ALL');
    for (const [schema, table, sql] of tables) {
      const name = `"${schema}"."${table}"`;
      dump[name] = [sql ?? null, await rows(`FROM ${name} ORDER BY ALL`)];
    }
    const comments =
      'SELECT table_name, column_name, comment FROM duckdb_columns() WHERE comment IS NOT NULL ORDER BY ALL';
    return { ...dump, comments: await rows(comments) };
  } finally {
    connection.closeSync();
    instance.closeSync();
  }
}
