/** The schema `feed_sync` in PostgreSQL as SQL. Tables have no keys of their own but those that statements need to be quick. */

import { identifier, integer, text } from '../../../staging/engine/sql.ts';
import {
  CATALOG_TABLES,
  type CatalogTable,
  type CatalogType,
  catalogColumns,
  META_FORMAT_VERSION,
} from '../../catalog/tables.ts';
import { insertRows } from '../../catalog/writes.ts';
import {
  ARCHIVE_SCHEMA,
  CATALOG_SCHEMA,
  catalogTable,
  HISTORY_SCHEMA,
  type InstanceTable,
  LIVE_SCHEMA,
} from './names.ts';
import { statementsOf } from './rows.ts';

/** The version of this schema. A database with a newer version is refused. */
export const FORMAT_VERSION = 1;

/** Returns a time as whole milliseconds. `value` is SQL. */
export function milliseconds(value: string): string {
  return `(extract(epoch FROM ${value}) * 1000)::bigint`;
}

/** Returns a time as an SQL value, or NULL. */
export function timeOf(time: Date | null): string {
  return time === null ? 'NULL::timestamptz' : `to_timestamp(${integer(time.getTime())}::numeric / 1000)`;
}

/** Whole numbers beyond 64 bits are decimals without a fraction. */
const TYPE_NAMES: Readonly<Record<CatalogType, string>> = {
  VARCHAR: 'text',
  BIGINT: 'bigint',
  HUGEINT: 'numeric',
  BOOLEAN: 'boolean',
  TIMESTAMPTZ: 'timestamptz',
  'VARCHAR[]': 'text[]',
};

const INDEXED: readonly (readonly [table: CatalogTable, columns: string])[] = [
  ['names', 'dataset_id'],
  ['datasets', 'dataset_id'],
  ['columns', 'dataset_id'],
  ['reloads', 'dataset_id'],
  ['members', 'dataset_id'],
  ['owed', 'dataset_id'],
  ['commits', 'commit_number'],
  ['commits', 'dataset_id'],
];

/** Returns which of the schemas are missing: a role without the right to create one finds them made. */
export function selectSchemas(): string {
  return `SELECT nspname::text FROM pg_namespace WHERE nspname IN (${SCHEMAS.map(text).join(', ')})`;
}

const SCHEMAS = [CATALOG_SCHEMA, LIVE_SCHEMA, ARCHIVE_SCHEMA];

/** Returns the statements that create the schemas. `existing` are schemas that are there. */
export function createSchemas(existing: readonly string[]): readonly string[] {
  return SCHEMAS.filter((name) => !existing.includes(name)).map(
    (name) => `CREATE SCHEMA ${identifier(name)}`,
  );
}

export function createCatalog(): readonly string[] {
  return [
    ...CATALOG_TABLES.flatMap(createCatalogTable),
    ...INDEXED.map(([table, columns]) => `CREATE INDEX ON ${catalogTable(table)} (${columns})`),
    CREATE_LEASE,
    ...CREATE_INSTANCE_TABLES,
    `INSERT INTO ${catalogTable('lease')} VALUES (true, 0, '', '', clock_timestamp())`,
    ...statementsOf([insertRows('meta', [[META_FORMAT_VERSION, String(FORMAT_VERSION)]])]),
  ];
}

/** Returns the statements that add what an earlier version of this program did not know: tables and columns without values. */
export function completeSchema(): readonly string[] {
  const completed = CATALOG_TABLES.flatMap((table) => {
    const columns = catalogColumns(table).map(([name, type]) => {
      return `ADD COLUMN IF NOT EXISTS ${identifier(name)} ${TYPE_NAMES[type]}`;
    });
    return [
      `CREATE TABLE IF NOT EXISTS ${catalogTable(table)} ()`,
      `ALTER TABLE ${catalogTable(table)} ${columns.join(', ')}, REPLICA IDENTITY FULL`,
    ];
  });
  return [...completed, ...CREATE_INSTANCE_TABLES];
}

/** Returns one row for each column of the catalog. */
export function countColumns(): string {
  return `SELECT count(*) FROM information_schema.columns WHERE table_schema = ${text(CATALOG_SCHEMA)}
    AND table_name IN (${[...CATALOG_TABLES, 'requests', 'candidates'].map(text).join(', ')})`;
}

/** The requests of operators: `arguments` and `answer` are JSON, `begun_by` the token of the lease under which it was begun. */
const REQUEST_COLUMNS = [
  'request_id text PRIMARY KEY',
  'requested_at timestamptz NOT NULL',
  'dataset_id text NOT NULL',
  'command text NOT NULL',
  'arguments text NOT NULL',
  'asked_at timestamptz NOT NULL',
  'begun_by text',
  'state text NOT NULL',
  'answer text',
  'finished_at timestamptz',
];

/** The candidates that wait for approval: `candidate` is complete, the other columns are for people. */
const CANDIDATE_COLUMNS = [
  'dataset_id text PRIMARY KEY',
  'version bigint NOT NULL',
  'content text NOT NULL',
  'since timestamptz NOT NULL',
  'approved_at timestamptz',
  'candidate text NOT NULL',
];

const CREATE_INSTANCE_TABLES = [
  `CREATE TABLE IF NOT EXISTS ${catalogTable('requests')} (${REQUEST_COLUMNS.join(', ')})`,
  `CREATE TABLE IF NOT EXISTS ${catalogTable('candidates')} (${CANDIDATE_COLUMNS.join(', ')})`,
];

/** Returns whether the catalog has the table: an earlier version made none. */
export function hasTable(table: InstanceTable): string {
  return `SELECT to_regclass(${text(catalogTable(table))}) IS NOT NULL`;
}

/** The number of columns that the catalog of this version has. */
export const CATALOG_COLUMNS = CATALOG_TABLES.reduce(
  (sum, table) => sum + catalogColumns(table).length,
  REQUEST_COLUMNS.length + CANDIDATE_COLUMNS.length,
);

/** A publication of all tables needs to know the whole rows of a table without a key. */
function createCatalogTable(table: CatalogTable): readonly string[] {
  const columns = catalogColumns(table).map(([name, type]) => `${identifier(name)} ${TYPE_NAMES[type]}`);
  return [
    `CREATE TABLE ${catalogTable(table)} (${columns.join(', ')})`,
    `ALTER TABLE ${catalogTable(table)} REPLICA IDENTITY FULL`,
  ];
}

/** One row: the writer. `epoch` rises with each other writer. */
const CREATE_LEASE = `CREATE TABLE ${catalogTable('lease')} (only_row boolean PRIMARY KEY CHECK (only_row),
  epoch bigint NOT NULL, token text NOT NULL, holder text NOT NULL, expires_at timestamptz NOT NULL)`;

/** Returns one row when the catalog exists, else none. One transaction creates it with all its tables. */
export function selectCatalog(): string {
  return `SELECT 1 FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = ${text(CATALOG_SCHEMA)} AND c.relname = 'meta'`;
}

export function selectMeta(): string {
  return `SELECT "key", value FROM ${catalogTable('meta')} ORDER BY "key", value`;
}

/** Selects the schemas that have, or had, live tables, retired ones and logs, from the catalog. */
export const SELECT_SCHEMAS = `SELECT schema_name FROM ${catalogTable('datasets')}
  UNION SELECT split_part(table_name, '.', 1) FROM ${catalogTable('history_logs')}
  UNION SELECT split_part(table_name, '.', 1) FROM ${catalogTable('archived')} WHERE strpos(table_name, '.') > 0`;

/** Returns the lower-case names of everything in schemas of mirrored data, including what operators made. */
export function selectTableNames(...schemas: readonly string[]): string {
  return `SELECT lower(c.relname::text) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname IN (${schemas.map(text).join(', ')})`;
}

/** Returns the tables of these schemas, each with its schema: a table may have the name of one in another schema. */
export function selectTables(...schemas: readonly string[]): string {
  return `SELECT n.nspname::text, c.relname::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE c.relkind IN ('r', 'p') AND n.nspname IN (${schemas.map(text).join(', ')})`;
}

/** Returns one row: the bytes of the tables in our schemas, with their indexes and what they keep beside. */
export function selectBytes(hasCitus: boolean): string {
  const size = 'pg_total_relation_size(c.oid)';
  const isOnNodes = 'EXISTS (SELECT 1 FROM pg_catalog.pg_dist_partition WHERE logicalrelid = c.oid)';
  const bytes = hasCitus
    ? `CASE WHEN ${isOnNodes} THEN citus_total_relation_size(c.oid) ELSE ${size} END`
    : size;
  return `SELECT coalesce(sum(${bytes}), 0)::bigint FROM pg_class c
    JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE c.relkind = 'r' AND (n.nspname IN (${[...SCHEMAS, HISTORY_SCHEMA].map(text).join(', ')})
      OR n.nspname IN (${SELECT_SCHEMAS}))`;
}

export function unpinned(datasetId: string): string {
  return `UPDATE ${catalogTable('datasets')} SET pinned_since = NULL WHERE dataset_id = ${text(datasetId)}`;
}
