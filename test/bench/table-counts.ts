/** Looks into the database that a run left behind, and refuses a run that did not do its work. */

import { type DuckDBConnection, DuckDBInstance } from '@duckdb/node-api';
import { WrongResultError } from './case.ts';
import type { DatasetFiles } from './dataset-files.ts';

const MAX_SHOWN_DIFFERENCES = 5;
/** Tables counted by one statement. */
const TABLES_AT_ONCE = 100;

/** @throws WrongResultError where a table of the mirror, or what the mirror says of it, differs from `datasets`. */
export async function checkMirror(database: string, datasets: readonly DatasetFiles[]): Promise<void> {
  await withDatabase(database, async (connection) => {
    const live = await rows(
      connection,
      'SELECT dataset_id, table_name, row_count::INTEGER FROM feed_sync.datasets',
    );
    const tables = new Map(live.map(([datasetId, table]) => [String(datasetId), String(table)]));
    compare(
      'feed_sync.datasets',
      new Map(live.map(([datasetId, , count]) => [String(datasetId), Number(count)])),
      datasets,
    );
    await checkTables(connection, tables, datasets);
  });
}

/** @throws WrongResultError where a table named after its dataset differs from `datasets`. */
export async function checkRawTables(database: string, datasets: readonly DatasetFiles[]): Promise<void> {
  await withDatabase(database, (connection) =>
    checkTables(connection, new Map(datasets.map(({ datasetId }) => [datasetId, datasetId])), datasets),
  );
}

/** @throws WrongResultError where the mirror says of any dataset that it is at another version. */
export async function checkVersion(database: string, version: number): Promise<void> {
  await withDatabase(database, async (connection) => {
    const others = await rows(
      connection,
      `SELECT dataset_id, version::INTEGER FROM feed_sync.datasets WHERE version <> ${version}`,
    );
    const [other] = others;
    if (other !== undefined)
      throw new WrongResultError(`${other[0]} is at version ${other[1]} instead of ${version}.`);
  });
}

async function checkTables(
  connection: DuckDBConnection,
  tables: ReadonlyMap<string, string>,
  datasets: readonly DatasetFiles[],
): Promise<void> {
  const counts = [...tables].map(
    ([datasetId, table]) => `SELECT '${datasetId}', count(*)::INTEGER FROM "${table}"`,
  );
  const counted = new Map<string, number>();
  for (let first = 0; first < counts.length; first += TABLES_AT_ONCE) {
    const some = await rows(connection, counts.slice(first, first + TABLES_AT_ONCE).join(' UNION ALL '));
    for (const [datasetId, count] of some) counted.set(String(datasetId), Number(count));
  }
  compare('the tables', counted, datasets);
  const notGeometry = await rows(
    connection,
    `SELECT table_name, data_type FROM duckdb_columns()
      WHERE column_name = 'geometry' AND schema_name = 'main' AND data_type NOT LIKE 'GEOMETRY%'`,
  );
  if (notGeometry.length > 0) {
    throw new WrongResultError(`The geometry of ${notGeometry[0]?.join(' is a ')} and no GEOMETRY.`);
  }
}

function compare(where: string, found: ReadonlyMap<string, number>, datasets: readonly DatasetFiles[]): void {
  const differences = datasets
    .filter(({ datasetId, rowCount }) => found.get(datasetId) !== rowCount)
    .map(
      ({ datasetId, rowCount }) =>
        `${datasetId}: ${found.get(datasetId) ?? 'no'} rows instead of ${rowCount}`,
    );
  if (found.size !== datasets.length) {
    differences.unshift(`${found.size} datasets instead of ${datasets.length}`);
  }
  if (differences.length === 0) return;
  throw new WrongResultError(`Wrong in ${where}: ${differences.slice(0, MAX_SHOWN_DIFFERENCES).join('; ')}.`);
}

/** Calls `read` with a connection that only reads. */
export async function withDatabase<T>(
  path: string,
  read: (connection: DuckDBConnection) => Promise<T>,
): Promise<T> {
  const instance = await DuckDBInstance.create(path, { access_mode: 'READ_ONLY' });
  const connection = await instance.connect();
  try {
    return await read(connection);
  } finally {
    connection.closeSync();
    instance.closeSync();
  }
}

/** The rows that `sql` returns, as lists. */
export async function rows(connection: DuckDBConnection, sql: string) {
  return (await connection.runAndReadAll(sql)).getRowsJS();
}
