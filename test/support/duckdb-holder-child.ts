/** A process that opens a DuckDB file, by default for reading, prints `held`, and keeps it open until it is ended. */

import { DuckDBInstance } from '@duckdb/node-api';

const [, , path = '', mode = 'READ_ONLY'] = process.argv;
const instance = await DuckDBInstance.create(path, { access_mode: mode });
const connection = await instance.connect();
await connection.run('SELECT 1');
process.stdout.write('held\n');
setInterval(() => {}, 1_000);
