/** Raw DuckDB: copies everything in the database `from` into the new database `to`. */
import { DuckDBInstance } from '@duckdb/node-api';

const [from, to] = process.argv.slice(2);
const instance = await DuckDBInstance.create(':memory:');
const connection = await instance.connect();
await connection.run(`ATTACH '${from}' AS original (READ_ONLY)`);
await connection.run(`ATTACH '${to}' AS copy`);
await connection.run('COPY FROM DATABASE original TO copy');
await connection.run('CHECKPOINT copy');
connection.closeSync();
instance.closeSync();
