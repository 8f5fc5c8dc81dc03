/**
 * The schema `feed_sync` of the mirror as SQL: what it holds of every dataset, for the program itself and for people.
 * No primary keys, indexes, defaults or NOT NULL: they are DuckDB's weak points, and every transaction proves keys.
 */

import { identifier, text } from '../../../staging/engine/sql.ts';

/** The name under which the mirror is attached. */
export const MIRROR = 'mirror';

/**
 * How a mirror is attached to be written: in the format of DuckDB 1.2, so that every reader since then can open it. By default
 * DuckDB writes that of 1.0, in which long texts take two and a half times the space; the formats from 1.3 on take up to a fifth
 * longer to load polygons.
 */
export const IN_OUR_FORMAT = "(STORAGE_VERSION 'v1.2.0')";

/** The version of this schema. A mirror of a newer one is refused. */
export const FORMAT_VERSION = 3;

export const META_FORMAT_VERSION = 'format_version';
export const META_SERVICE_ORIGIN = 'service_origin';
/** One row for each subscription seen. */
export const META_SUBSCRIPTION_ID = 'subscription_id';

export type CatalogType = 'VARCHAR' | 'BIGINT' | 'BOOLEAN' | 'TIMESTAMPTZ' | 'VARCHAR[]';

/** By table, its columns in their order, each with its type. */
const TABLES = {
  /** Every name that was ever given to a table; never changed, never deleted. */
  names: { dataset_id: 'VARCHAR', table_name: 'VARCHAR' },
  /** A row for each live table. */
  datasets: {
    dataset_id: 'VARCHAR',
    table_name: 'VARCHAR',
    version: 'BIGINT',
    schema_version: 'VARCHAR',
    row_count: 'BIGINT',
    key_columns: 'VARCHAR[]',
    /** The newest commit of the table. */
    commit_number: 'BIGINT',
    snapshot_version: 'BIGINT',
    snapshot_digest: 'VARCHAR',
    digest_kind: 'VARCHAR',
    loaded_through: 'VARCHAR',
    loaded_at: 'TIMESTAMPTZ',
    published_at: 'TIMESTAMPTZ',
    applied_at: 'TIMESTAMPTZ',
  },
  /** The newest reload of each subscription that the table satisfies. */
  reloads: {
    dataset_id: 'VARCHAR',
    subscription_id: 'VARCHAR',
    log_number: 'BIGINT',
    event_number: 'BIGINT',
    created_at: 'TIMESTAMPTZ',
  },
  /** Stored progress: the position in the log of each subscription. */
  subscriptions: {
    subscription_id: 'VARCHAR',
    name: 'VARCHAR',
    log_number: 'BIGINT',
    event_number: 'BIGINT',
    event_created_at: 'TIMESTAMPTZ',
    position_at: 'TIMESTAMPTZ',
    states_last_event: 'BOOLEAN',
  },
  /** Stored progress: which datasets each subscription contains, and dropped while the table is not retired. */
  members: {
    subscription_id: 'VARCHAR',
    dataset_id: 'VARCHAR',
    added_event: 'BIGINT',
    dropped_event: 'BIGINT',
  },
  /** Stored progress: the reloads that the tables do not satisfy yet. */
  owed: {
    dataset_id: 'VARCHAR',
    subscription_id: 'VARCHAR',
    log_number: 'BIGINT',
    event_number: 'BIGINT',
    created_at: 'TIMESTAMPTZ',
  },
  /** The columns of the live tables. */
  columns: {
    dataset_id: 'VARCHAR',
    position: 'BIGINT',
    name: 'VARCHAR',
    column_name: 'VARCHAR',
    type: 'VARCHAR',
    nullable: 'BOOLEAN',
    description: 'VARCHAR',
    source_name: 'VARCHAR',
    role: 'VARCHAR',
    crs: 'VARCHAR',
  },
  /** A row for each commit. */
  commits: {
    commit_number: 'BIGINT',
    dataset_id: 'VARCHAR',
    from_version: 'BIGINT',
    to_version: 'BIGINT',
    kind: 'VARCHAR',
    added: 'BIGINT',
    changed: 'BIGINT',
    removed: 'BIGINT',
    applied_at: 'TIMESTAMPTZ',
    /** Of a retirement: when it was judged, in service time, and whether an operator has agreed to it. */
    service_time: 'TIMESTAMPTZ',
    approved: 'BOOLEAN',
  },
  archived: {
    dataset_id: 'VARCHAR',
    table_name: 'VARCHAR',
    version: 'BIGINT',
    reason: 'VARCHAR',
    archived_at: 'TIMESTAMPTZ',
  },
  meta: { key: 'VARCHAR', value: 'VARCHAR' },
} as const satisfies Readonly<Record<string, Readonly<Record<string, CatalogType>>>>;

export type CatalogTable = keyof typeof TABLES;

/** Where mirrored data is: the live tables and those that were kept, and the copies of retired ones. */
type DataSchema = 'main' | 'archived';

/** A table of schema `feed_sync`, for use in SQL. */
export function catalogTable(table: CatalogTable): string {
  return `${identifier(MIRROR)}.feed_sync.${identifier(table)}`;
}

/** The names and types of its columns, in their order. */
export function catalogColumns(table: CatalogTable): readonly (readonly [name: string, type: CatalogType])[] {
  return Object.entries(TABLES[table]);
}

/** A table of the mirrored data, for use in SQL. */
export function mirrored(tableName: string): string {
  return `${identifier(MIRROR)}.main.${identifier(tableName)}`;
}

/** A copy of a retired table, for use in SQL. */
export function archived(tableName: string): string {
  return `${identifier(MIRROR)}.archived.${identifier(tableName)}`;
}

/** Mirrors get this schema with their first archived table. */
export function createArchive(): string {
  return `CREATE SCHEMA IF NOT EXISTS ${identifier(MIRROR)}.archived`;
}

export function createSchema(): readonly string[] {
  return [
    `CREATE SCHEMA ${identifier(MIRROR)}.feed_sync`,
    ...(Object.keys(TABLES) as CatalogTable[]).map(createCatalogTable),
    insertMeta(META_FORMAT_VERSION, String(FORMAT_VERSION)),
  ];
}

function createCatalogTable(table: CatalogTable): string {
  const columns = catalogColumns(table).map(([name, type]) => `${identifier(name)} ${type}`);
  return `CREATE TABLE ${catalogTable(table)} (${columns.join(', ')})`;
}

export function insertMeta(key: string, value: string): string {
  return `INSERT INTO ${catalogTable('meta')} VALUES (${text(key)}, ${text(value)})`;
}

export function deleteMeta(key: string): string {
  return `DELETE FROM ${catalogTable('meta')} WHERE "key" = ${text(key)}`;
}

/** What is known of a subscription beside `meta`. */
const OF_SUBSCRIPTIONS = ['reloads', 'subscriptions', 'members', 'owed'] as const;

/** The mirror belongs to the subscription no more: its progress goes, and what was loaded again for it counts no more. */
export function forgetSubscription(subscriptionId: string): readonly string[] {
  const id = text(subscriptionId);
  return [
    `DELETE FROM ${catalogTable('meta')} WHERE "key" = ${text(META_SUBSCRIPTION_ID)} AND value = ${id}`,
    ...OF_SUBSCRIPTIONS.map((table) => `DELETE FROM ${catalogTable(table)} WHERE subscription_id = ${id}`),
  ];
}

/** One row where the schema is there, none where it is not. It is made with all of its tables, in one transaction. */
export function selectSchema(): string {
  return `SELECT 1 FROM duckdb_schemas() WHERE database_name = ${text(MIRROR)} AND schema_name = 'feed_sync'`;
}

export function selectMeta(): string {
  return `SELECT "key", value FROM ${catalogTable('meta')} ORDER BY ALL`;
}

/** One row for each of the names that a table or a view has, however it is written: the name, and which of the two. */
export function selectKinds(tableNames: readonly string[]): string {
  const named = (name: string) =>
    `database_name = ${text(MIRROR)} AND schema_name = 'main' AND lower(${name}) IN (${tableNames.map(text).join(', ')})`;
  return `SELECT lower(table_name), 'table' FROM duckdb_tables() WHERE ${named('table_name')}
    UNION ALL SELECT lower(view_name), 'view' FROM duckdb_views() WHERE ${named('view_name')}`;
}

/** The names of all tables and views of a schema in lower case, also of those that an operator made. */
export function selectTableNames(schema: DataSchema): string {
  const where = `database_name = ${text(MIRROR)} AND schema_name = ${text(schema)}`;
  return `SELECT lower(table_name) FROM duckdb_tables() WHERE ${where}
    UNION ALL SELECT lower(view_name) FROM duckdb_views() WHERE ${where}`;
}

const OLDEST_FORMAT = 1;

/** Since this format the mirror stores the progress of its subscriptions. */
const FORMAT_OF_PROGRESS = 2;

const TABLES_OF_PROGRESS = ['subscriptions', 'members', 'owed'] as const satisfies readonly CatalogTable[];

/** Whether this program can read it. */
export function isKnownFormat(format: number): boolean {
  return Number.isInteger(format) && format >= OLDEST_FORMAT && format <= FORMAT_VERSION;
}

/** Whether mirrors of this format have the tables of stored progress. */
export function storesProgress(format: number): boolean {
  return format >= FORMAT_OF_PROGRESS;
}

/** A table of a mirror of a known format, for use after FROM: it has the columns of the newest format. */
export function catalogOf(format: number, table: CatalogTable): string {
  const select = earlierTables(format).get(table);
  return select === undefined ? catalogTable(table) : `(${select}) AS earlier`;
}

/** Statements for one transaction. None if the mirror has the newest format. */
export function migrate(format: number): readonly string[] {
  if (format === FORMAT_VERSION) return [];
  return [
    ...[...earlierTables(format)].map(
      ([table, select]) => `CREATE OR REPLACE TABLE ${catalogTable(table)} AS ${select}`,
    ),
    `DROP TABLE ${HISTORY}`,
    ...(storesProgress(format) ? [] : TABLES_OF_PROGRESS.map(createCatalogTable)),
    `UPDATE ${catalogTable('meta')} SET value = ${text(String(FORMAT_VERSION))} WHERE "key" = ${text(META_FORMAT_VERSION)}`,
  ];
}

/** Until format 3 the commits were in this table, without numbers, in the order in which they were written. */
const HISTORY = `${identifier(MIRROR)}.feed_sync.history`;

const NUMBERED_HISTORY = `SELECT *, row_number() OVER (ORDER BY rowid) AS number,
  row_number() OVER (PARTITION BY dataset_id ORDER BY rowid) AS number_in_dataset FROM ${HISTORY}`;

const KIND_OF_HISTORY = `CASE kind WHEN 'retired' THEN 'retire' WHEN 'changes' THEN 'changes' ELSE
  CASE WHEN from_version IS NOT NULL THEN 'reload' WHEN number_in_dataset = 1 THEN 'load' ELSE 'return' END END`;

const NEWEST_COMMIT_OF_DATASET = `(SELECT max(number) FROM (${NUMBERED_HISTORY}) h WHERE h.dataset_id = earlier.dataset_id)`;

/** By table that this format lacks in today's form: the query which gives its rows with the columns of the newest format. */
function earlierTables(format: number): ReadonlyMap<CatalogTable, string> {
  if (format === FORMAT_VERSION) return new Map();
  const hasProgress = storesProgress(format);
  const since2 = (values: Readonly<Record<string, string>>) => (hasProgress ? {} : values);
  const datasets = {
    commit_number: NEWEST_COMMIT_OF_DATASET,
    ...since2({ digest_kind: 'NULL', loaded_through: 'NULL', loaded_at: 'NULL' }),
  };
  const commits = {
    commit_number: 'number',
    kind: KIND_OF_HISTORY,
    ...since2({ service_time: 'NULL', approved: 'NULL' }),
  };
  const reloads = { log_number: '1', created_at: 'NULL' };
  return new Map<CatalogTable, string>([
    ['datasets', selectWith('datasets', datasets, `${catalogTable('datasets')} earlier`)],
    ['commits', `${selectWith('commits', commits, `(${NUMBERED_HISTORY})`)} ORDER BY number`],
    ...(hasProgress ? [] : [['reloads', selectWith('reloads', reloads, catalogTable('reloads'))] as const]),
  ]);
}

/** The columns of the newest format from `source`; `values` gives SQL for those that it lacks. */
function selectWith(table: CatalogTable, values: Readonly<Record<string, string>>, source: string): string {
  const columns = catalogColumns(table).map(([name, type]) => {
    const value = values[name];
    return value === undefined ? `"${name}"` : `(${value})::${type} AS "${name}"`;
  });
  return `SELECT ${columns.join(', ')} FROM ${source}`;
}
