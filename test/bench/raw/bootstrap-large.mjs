/** Raw DuckDB: `database` gets the one dataset of `list`, a JSON file, as a table; its rows in any order where `order` says so. */
import { readFileSync } from 'node:fs';
import { DuckDBInstance } from '@duckdb/node-api';

const [database, list, order] = process.argv.slice(2);
const [{ table, files }] = JSON.parse(readFileSync(list, 'utf8'));
const instance = await DuckDBInstance.create(database);
const connection = await instance.connect();
if (order === 'unordered') await connection.run('SET preserve_insertion_order = false');
const paths = files.map((path) => `'${path}'`).join(', ');
await connection.run(`CREATE TABLE "${table}" AS SELECT * FROM read_parquet([${paths}])`);
await connection.run('CHECKPOINT');
connection.closeSync();
instance.closeSync();
