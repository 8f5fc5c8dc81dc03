/** Reads every table of a database to its end, but those that are kept because they cannot be read. The argument is its path. It ends with 0 where that can be done; damage may crash it. */

import process from 'node:process';
import { DuckDBInstance } from '@duckdb/node-api';

const [path = ''] = process.argv.slice(2);
const instance = await DuckDBInstance.create(path, { access_mode: 'READ_ONLY' });
const connection = await instance.connect();
const tables = await connection.runAndReadAll(
  `SELECT format('"{}"."{}"', schema_name, replace(table_name, '"', '""')) FROM duckdb_tables()
    WHERE NOT internal AND NOT (schema_name IN ('archived', 'history') AND contains(table_name, '__damaged'))`,
);
for (const [table] of tables.getRows()) await connection.run(`SELECT sum(hash(t)) FROM ${table} AS t`);
connection.closeSync();
instance.closeSync();
