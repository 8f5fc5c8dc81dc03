/** Raw DuckDB: which versions the mirror `database` has. */
import { DuckDBInstance } from '@duckdb/node-api';

const [database] = process.argv.slice(2);
const instance = await DuckDBInstance.create(database, { access_mode: 'READ_ONLY' });
const connection = await instance.connect();
const versions = await connection.runAndReadAll('SELECT dataset_id, version FROM feed_sync.datasets');
if (versions.getRows().length === 0) throw new Error('The mirror is empty.');
connection.closeSync();
instance.closeSync();
