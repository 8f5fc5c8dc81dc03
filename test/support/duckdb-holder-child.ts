/** A process that opens a DuckDB file for reading, says `held`, and keeps it open until it is ended. */

import { DuckDBInstance } from '@duckdb/node-api';

const instance = await DuckDBInstance.create(process.argv[2] ?? '', { access_mode: 'READ_ONLY' });
const connection = await instance.connect();
await connection.run('SELECT 1');
process.stdout.write('held\n');
setInterval(() => {}, 1_000);
