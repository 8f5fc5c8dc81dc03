/**
 * The schema `feed_sync` of the mirror as SQL: the catalog of all datasets, for the program and for people. The tables have no
 * primary keys, indexes, defaults or NOT NULL: these are DuckDB's weak points, and every transaction proves keys itself.
 */

import { identifier, text } from '../../../staging/engine/sql.ts';
import {
  CATALOG_TABLES,
  type CatalogTable,
  catalogColumns,
  META_FORMAT_VERSION,
  RESTORED_COLUMNS,
} from '../../catalog/tables.ts';

/** The name under which the mirror is attached. */
export const MIRROR = 'mirror';

/** Ends what `USE` of the mirror began: a database in use cannot be detached, and a ROLLBACK does not end it. */
export const OUTSIDE_MIRROR = 'USE memory';

/** The schema of the catalog, inside the mirror. */
export const CATALOG_SCHEMA = 'feed_sync';

/**
 * Writes a mirror in the format of DuckDB 1.2, so that every later reader can open it. In the default format, 1.0, long texts
 * take two and a half times the space; with the formats from 1.3 on, loading polygons takes up to a fifth longer.
 */
export const IN_OUR_FORMAT = "(STORAGE_VERSION 'v1.2.0')";

/** The version of this schema. A mirror with a newer version is refused. */
export const FORMAT_VERSION = 5;

/** The schemas of mirrored data: live and kept tables in `main`, copies of retired ones in `archived`, undo logs in `history`. */
type DataSchema = 'main' | 'archived' | 'history';

/** Returns the SQL name of a table in schema `feed_sync`. */
export function catalogTable(table: CatalogTable): string {
  return `${identifier(MIRROR)}.feed_sync.${identifier(table)}`;
}

/** Returns the SQL name of a table of mirrored data. */
export function mirrored(tableName: string): string {
  return `${identifier(MIRROR)}.main.${identifier(tableName)}`;
}

/** Returns the SQL name of the copy of a retired table. */
export function archived(tableName: string): string {
  return `${identifier(MIRROR)}.archived.${identifier(tableName)}`;
}

/** Returns the SQL name of an undo log or of a frozen table. */
export function historic(name: string): string {
  return `${identifier(MIRROR)}.history.${identifier(name)}`;
}

/** Returns the statement that creates the schema of undo logs, for the first of them. */
export function createHistory(): string {
  return `CREATE SCHEMA IF NOT EXISTS ${identifier(MIRROR)}.history`;
}

/** Returns the statement that creates the schema of archived tables, for the first of them. */
export function createArchive(): string {
  return `CREATE SCHEMA IF NOT EXISTS ${identifier(MIRROR)}.archived`;
}

export function createSchema(): readonly string[] {
  return [
    `CREATE SCHEMA ${identifier(MIRROR)}.feed_sync`,
    ...CATALOG_TABLES.map(createCatalogTable),
    insertMeta(META_FORMAT_VERSION, String(FORMAT_VERSION)),
  ];
}

export function createCatalogTable(table: CatalogTable): string {
  const columns = catalogColumns(table).map(([name, type]) => `${identifier(name)} ${type}`);
  return `CREATE TABLE ${catalogTable(table)} (${columns.join(', ')})`;
}

function insertMeta(key: string, value: string): string {
  return `INSERT INTO ${catalogTable('meta')} VALUES (${text(key)}, ${text(value)})`;
}

/** Returns one row when the schema exists, else none. One transaction creates the schema with all its tables. */
export function selectSchema(): string {
  return `SELECT 1 FROM duckdb_schemas() WHERE database_name = ${text(MIRROR)} AND schema_name = ${text(CATALOG_SCHEMA)}`;
}

/** Returns one row when the table exists, else none. */
export function selectCatalogTable(table: CatalogTable): string {
  return `SELECT 1 FROM duckdb_tables() WHERE database_name = ${text(MIRROR)} AND schema_name = ${text(CATALOG_SCHEMA)}
    AND table_name = ${text(table)}`;
}

export function selectMeta(): string {
  return `SELECT "key", value FROM ${catalogTable('meta')} ORDER BY ALL`;
}

/** Returns one row for each given name that a table or view has, in any case: the name, the kind, and the comment of a view. */
export function selectKinds(tableNames: readonly string[]): string {
  const named = (name: string) =>
    `database_name = ${text(MIRROR)} AND schema_name = 'main' AND lower(${name}) IN (${tableNames.map(text).join(', ')})`;
  return `SELECT lower(table_name), 'table', NULL FROM duckdb_tables() WHERE ${named('table_name')}
    UNION ALL SELECT lower(view_name), 'view', comment FROM duckdb_views() WHERE ${named('view_name')}`;
}

/** Returns the names of all tables and views of a schema in lower case, including those of operators. */
export function selectTableNames(schema: DataSchema): string {
  return `${selectTables(schema)}
    UNION ALL SELECT lower(view_name) FROM duckdb_views() WHERE ${inSchema(schema)}`;
}

/** Returns the lower-case names of the tables alone. */
export function selectTables(schema: DataSchema): string {
  return `SELECT lower(table_name) FROM duckdb_tables() WHERE ${inSchema(schema)}`;
}

function inSchema(schema: DataSchema): string {
  return `database_name = ${text(MIRROR)} AND schema_name = ${text(schema)}`;
}

const OLDEST_FORMAT = 1;

/** The first format that stores the progress of subscriptions. */
const FORMAT_OF_PROGRESS = 2;

/** The first format that numbers the commits. */
const FORMAT_OF_COMMITS = 3;

/** The first format with checksums and undo logs. */
const FORMAT_OF_HISTORY = 4;

const TABLES_OF_PROGRESS = ['subscriptions', 'members', 'owed'] as const satisfies readonly CatalogTable[];

/** Returns whether this program can read the format. */
export function isKnownFormat(format: number): boolean {
  return Number.isInteger(format) && format >= OLDEST_FORMAT && format <= FORMAT_VERSION;
}

/** Returns whether mirrors of this format have checksums and undo logs. */
export function storesHistory(format: number): boolean {
  return format >= FORMAT_OF_HISTORY;
}

/** Returns whether mirrors of this format have the tables of stored progress. */
export function storesProgress(format: number): boolean {
  return format >= FORMAT_OF_PROGRESS;
}

/** Returns SQL for use after FROM: the table of a mirror of a known format, with the columns of the newest format. */
export function catalogOf(format: number, table: CatalogTable): string {
  const select = earlierTables(format).get(table);
  return select === undefined ? catalogTable(table) : `(${select}) AS earlier`;
}

/** Returns the migration statements for one transaction; none for the newest format. */
export function migrate(format: number): readonly string[] {
  if (format === FORMAT_VERSION) return [];
  return [
    ...[...earlierTables(format)].map(
      ([table, select]) => `CREATE OR REPLACE TABLE ${catalogTable(table)} AS ${select}`,
    ),
    ...(format < FORMAT_OF_COMMITS ? [`DROP TABLE ${HISTORY}`] : []),
    ...(storesProgress(format) ? [] : TABLES_OF_PROGRESS.map(createCatalogTable)),
    ...(storesHistory(format) ? [] : [createCatalogTable('history_logs')]),
    `UPDATE ${catalogTable('meta')} SET value = ${text(String(FORMAT_VERSION))} WHERE "key" = ${text(META_FORMAT_VERSION)}`,
  ];
}

/** Before format 3 this table held the commits without numbers, in the order in which they were written. */
const HISTORY = `${identifier(MIRROR)}.feed_sync.history`;

const NUMBERED_HISTORY = `SELECT *, row_number() OVER (ORDER BY rowid) AS number,
  row_number() OVER (PARTITION BY dataset_id ORDER BY rowid) AS number_in_dataset FROM ${HISTORY}`;

const KIND_OF_HISTORY = `CASE kind WHEN 'retired' THEN 'retire' WHEN 'changes' THEN 'changes' ELSE
  CASE WHEN from_version IS NOT NULL THEN 'reload' WHEN number_in_dataset = 1 THEN 'load' ELSE 'return' END END`;

const NEWEST_COMMIT_OF_DATASET = `(SELECT max(number) FROM (${NUMBERED_HISTORY}) h WHERE h.dataset_id = earlier.dataset_id)`;

/**
 * Returns, for each table that this format lacks in its current form, a query for rows with the columns of the newest format.
 */
function earlierTables(format: number): ReadonlyMap<CatalogTable, string> {
  const earlier = new Map<CatalogTable, string>();
  if (format === FORMAT_VERSION) return earlier;
  const before = (first: number, values: Readonly<Record<string, string>>) => (format < first ? values : {});
  const datasets = {
    schema_name: "'main'",
    ...before(FORMAT_OF_PROGRESS, { digest_kind: 'NULL', loaded_through: 'NULL', loaded_at: 'NULL' }),
    ...before(FORMAT_OF_COMMITS, { commit_number: NEWEST_COMMIT_OF_DATASET }),
    ...before(FORMAT_OF_HISTORY, { checksum: 'NULL', checksum_version: 'NULL', pinned_since: 'NULL' }),
  };
  earlier.set('datasets', selectWith('datasets', datasets, `${catalogTable('datasets')} earlier`));
  const unknown = { checksum: 'NULL', checksum_version: 'NULL' };
  earlier.set('archived', selectWith('archived', unknown, catalogTable('archived')));
  if (storesHistory(format)) {
    const logs = { row_count: 'NULL', ...unknown, table_checksum: 'NULL', table_checksum_version: 'NULL' };
    earlier.set('history_logs', selectWith('history_logs', logs, catalogTable('history_logs')));
    return earlier;
  }
  const ofRollbacks = ['restored_commit', ...RESTORED_COLUMNS];
  const restored = Object.fromEntries(ofRollbacks.map((name) => [name, 'NULL']));
  if (format < FORMAT_OF_COMMITS) {
    const judged = before(FORMAT_OF_PROGRESS, { service_time: 'NULL', approved: 'NULL' });
    const commits = { commit_number: 'number', kind: KIND_OF_HISTORY, ...judged, ...restored };
    earlier.set('commits', `${selectWith('commits', commits, `(${NUMBERED_HISTORY})`)} ORDER BY number`);
  } else {
    earlier.set('commits', selectWith('commits', restored, catalogTable('commits')));
  }
  if (!storesProgress(format)) {
    const reloads = { log_number: '1', created_at: 'NULL' };
    earlier.set('reloads', selectWith('reloads', reloads, catalogTable('reloads')));
  }
  return earlier;
}

/** Selects the columns of the newest format from `source`; `values` gives SQL for the columns that the source lacks. */
function selectWith(table: CatalogTable, values: Readonly<Record<string, string>>, source: string): string {
  const columns = catalogColumns(table).map(([name, type]) => {
    const value = values[name];
    return value === undefined ? `"${name}"` : `(${value})::${type} AS "${name}"`;
  });
  return `SELECT ${columns.join(', ')} FROM ${source}`;
}

export function unpinned(datasetId: string): string {
  return `UPDATE ${catalogTable('datasets')} SET pinned_since = NULL WHERE dataset_id = ${text(datasetId)}`;
}
