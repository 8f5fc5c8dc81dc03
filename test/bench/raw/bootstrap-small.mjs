/** Raw DuckDB: `database` gets every dataset of `list`, a JSON file, as a table of its own, one after another. */
import { readFileSync } from 'node:fs';
import { DuckDBInstance } from '@duckdb/node-api';

const [database, list] = process.argv.slice(2);
const instance = await DuckDBInstance.create(database);
const connection = await instance.connect();
for (const { table, files } of JSON.parse(readFileSync(list, 'utf8'))) {
  const paths = files.map((path) => `'${path}'`).join(', ');
  await connection.run(`CREATE TABLE "${table}" AS SELECT * FROM read_parquet([${paths}])`);
}
await connection.run('CHECKPOINT');
connection.closeSync();
instance.closeSync();
