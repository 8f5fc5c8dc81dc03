/**
 * What a reader finds in a database: everything of it is copied, by no code of the program, into a DuckDB of the memory, where the
 * questions to a file can be asked. The types are those that the server says the columns have.
 */

import { DuckDBInstance } from '@duckdb/node-api';
import pg from 'pg';
import { openPostgresReader } from '../../../src/destination/postgres/reader.ts';
import { systemClock } from '../../../src/lib/clock.ts';
import { Secret } from '../../../src/lib/secret.ts';
import { exactly, identifier, literal } from '../../support/exact-mirror.ts';
import type { PastSource, PastStates } from '../../support/past-states.ts';
import type { MirrorView } from '../stage.ts';
import { viewOf } from './real-mirror.ts';

type Rows = readonly (readonly (string | null)[])[];
type Ask = (sql: string) => Promise<Rows>;

/** Null where there is no mirror. */
export async function readDatabase<T>(
  address: string,
  past: PastStates,
  read: (mirror: MirrorView) => Promise<T>,
): Promise<T | null> {
  const client = new pg.Client({ connectionString: address });
  await client.connect();
  const ask: Ask = async (sql) => {
    const types = { getTypeParser: () => String };
    return (await client.query({ text: sql, rowMode: 'array', types })).rows;
  };
  try {
    const [catalog] = await ask("SELECT to_regclass('feed_sync.meta')");
    if (catalog?.[0] === null) return null;
    // Whoever opens the database makes its catalog; a mirror it is once it belongs to a service.
    const origin = await ask(`SELECT value FROM feed_sync.meta WHERE "key" = 'service_origin'`);
    if (origin.length === 0) return null;
    const instance = await DuckDBInstance.create(':memory:', { threads: '1' });
    const connection = await instance.connect();
    const mirror = await exactly(instance, connection);
    try {
      for (const sql of await copying(ask)) await connection.run(sql);
      const view = await viewOf({ mirror, source: pastOf(ask), past, areHashed: false });
      const differencesFrom: MirrorView['differencesFrom'] = async (expected) => [
        ...(await view.differencesFrom(expected)),
        ...(await verify(address, Object.keys(view.seen))),
      ];
      return await read({ ...view, differencesFrom });
    } finally {
      mirror.close();
    }
  } finally {
    await client.end();
  }
}

/** What `verify` finds: the recorded checksums are those of the server, so they are asked of the program. */
async function verify(address: string, datasetIds: readonly string[]): Promise<readonly string[]> {
  const reader = await openPostgresReader({ url: new Secret(address), clock: systemClock });
  if (reader === null) return ['There is no catalog.'];
  try {
    const counted = await reader.count(datasetIds, () => false);
    return counted.flatMap(({ observed: { datasetId, rowCount }, table }) => {
      const isSound =
        table?.rowCount === rowCount && table.strayColumns.length === 0 && table.hasRecordedChecksum === true;
      return isSound ? [] : [`verify of ${datasetId}: ${rowCount} rows recorded, ${JSON.stringify(table)}`];
    });
  } finally {
    await reader.close();
  }
}

/** How a type of the server is read, and how its values are written for DuckDB. */
interface Carrying {
  readonly type: string;
  readonly read: (column: string) => string;
  readonly write: (value: string) => string;
}

const inHex = (column: string): string => `encode(convert_to(${column}, 'UTF8'), 'hex')`;
const textOf = (digits: string): string => `decode(unhex('${digits}'))`;

function plain(type: string): Carrying {
  return {
    type,
    read: (column) => `${column}::text`,
    write: (value) => `${literal(value)}::${type}`,
  };
}

const TYPES: Readonly<Record<string, Carrying>> = {
  text: { type: 'VARCHAR', read: inHex, write: textOf },
  bigint: plain('BIGINT'),
  numeric: plain('HUGEINT'),
  'double precision': plain('DOUBLE'),
  boolean: plain('BOOLEAN'),
  date: {
    type: 'DATE',
    read: (column) => `(${column} - DATE '1970-01-01')::text`,
    write: (days) => `DATE '1970-01-01' + (${days})`,
  },
  'timestamp with time zone': {
    type: 'TIMESTAMPTZ',
    read: (column) => `(extract(epoch FROM ${column}) * 1000000)::bigint::text`,
    write: (microseconds) => `make_timestamptz(${microseconds})`,
  },
  jsonb: {
    type: 'JSON',
    read: (column) => inHex(`${column}::text`),
    write: (digits) => `${textOf(digits)}::JSON`,
  },
  bytea: {
    type: 'GEOMETRY',
    read: (column) => `encode(${column}, 'hex')`,
    write: (digits) => `ST_GeomFromWKB(unhex('${digits}'))`,
  },
  'text[]': {
    type: 'VARCHAR[]',
    read: (column) => inHex(`to_json(${column})::text`),
    write: (digits) => `(${textOf(digits)}::JSON)::VARCHAR[]`,
  },
};

/** The statements that make the copy. What instances know of each other, and undo logs, stay where they are. */
async function copying(ask: Ask): Promise<readonly string[]> {
  // A column that was added is the last of its table, and has its place in the catalog.
  const rows = await ask(`SELECT n.nspname, c.relname, obj_description(c.oid, 'pg_class'),
      a.attname, format_type(a.atttypid, a.atttypmod), col_description(c.oid, a.attnum)
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_attribute a ON a.attrelid = c.oid
    WHERE n.nspname IN ('feeds', 'archived', 'feed_sync') AND c.relkind = 'r' AND a.attnum > 0 AND NOT a.attisdropped
      AND (n.nspname, c.relname) NOT IN (('feed_sync', 'lease'), ('feed_sync', 'requests'), ('feed_sync', 'candidates'))
    ORDER BY n.nspname, c.relname, (SELECT l."position" FROM feed_sync.columns l JOIN feed_sync.datasets d USING (dataset_id)
      WHERE n.nspname = 'feeds' AND d.table_name = c.relname AND l.column_name = a.attname), a.attnum`);
  const statements = ['CREATE SCHEMA feed_sync', 'CREATE SCHEMA archived'];
  const byTable = Map.groupBy(rows, ([schema, table]) => `${schema}.${identifier(table ?? '')}`);
  for (const [name, columns] of byTable) statements.push(...(await copyingTable(name, columns, ask)));
  // The catalogs of the two have numbers of their own.
  statements.push(`UPDATE feed_sync.meta SET value = '5' WHERE "key" = 'format_version' AND value = '1'`);
  return statements;
}

async function copyingTable(name: string, columns: Rows, ask: Ask): Promise<readonly string[]> {
  const carried = columns.map(([, , , column, type]) => ({
    column: identifier(column ?? ''),
    carrying: carryingOf(type ?? '', name),
  }));
  const copy = name.replace(/^feeds\./, 'main.');
  const definitions = carried.map(({ column, carrying }) => `${column} ${carrying.type}`);
  const statements = [`CREATE TABLE ${copy} (${definitions.join(', ')})`];
  const values = carried.map(({ column, carrying }) => carrying.read(column));
  const rows = await ask(`SELECT ${values.join(', ')} FROM ${name} ORDER BY ctid`);
  const written = rows.map((row) => {
    const cells = row.map((value, index) =>
      value === null ? 'NULL' : (carried[index]?.carrying.write(value) ?? 'NULL'),
    );
    return `(${cells.join(', ')})`;
  });
  if (written.length > 0) statements.push(`INSERT INTO ${copy} VALUES ${written.join(', ')}`);
  for (const [, , ofTable, column, , ofColumn] of columns) {
    if (ofTable) statements.push(`COMMENT ON TABLE ${copy} IS ${literal(ofTable)}`);
    if (!ofColumn) continue;
    statements.push(`COMMENT ON COLUMN ${copy}.${identifier(column ?? '')} IS ${literal(ofColumn)}`);
  }
  return statements;
}

function carryingOf(type: string, table: string): Carrying {
  const carrying = TYPES[type];
  if (carrying === undefined) throw new Error(`${table} has a column of the type ${type}`);
  return carrying;
}

/** The undo logs are asked in the server. */
function pastOf(ask: Ask): PastSource {
  const digestOf = async (source: string, logName: string): Promise<string | null> => {
    const columns = await ask(`SELECT c.column_name FROM feed_sync.columns c
      JOIN feed_sync.history_logs l USING (dataset_id) WHERE l.log_name = ${literal(logName)} ORDER BY c."position"`);
    const cells = columns.map(([name]) => identifier(name ?? ''));
    const [row] = await ask(`SELECT md5(coalesce(string_agg(line, E'\n' ORDER BY line COLLATE "C"), ''))
      FROM (SELECT ROW(${cells.join(', ')})::text AS line FROM ${source}) AS lines`);
    return row?.[0] ?? null;
  };
  return {
    async live() {
      const logs = await ask(`SELECT d.dataset_id, l.log_name,
          greatest(l.first_commit, l.closed_commit)::text, d.commit_number::text,
          (SELECT string_agg(c.column_name || ' ' || c.type, ',' ORDER BY c."position") FROM feed_sync.columns c
            WHERE c.dataset_id = d.dataset_id), d.table_name
        FROM feed_sync.history_logs l JOIN feed_sync.datasets d USING (dataset_id)
        WHERE l.frozen_commit IS NULL AND to_regclass('feeds.' || quote_ident(d.table_name)) IS NOT NULL
        ORDER BY d.dataset_id`);
      const rows: (readonly (string | null)[])[] = [];
      for (const log of logs) {
        const [, logName, , , , tableName] = log;
        const digest = await digestOf(`feeds.${identifier(tableName ?? '')}`, logName ?? '');
        rows.push([...log.slice(0, 5), digest]);
      }
      return rows;
    },
    checksumAsOf: (logName, commit) =>
      digestOf(`history.${identifier(`${logName}_as_of_commit`)}(${commit})`, logName),
  };
}
