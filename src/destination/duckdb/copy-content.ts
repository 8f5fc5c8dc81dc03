/**
 * Copies everything in the mirror into the new file, including objects that an operator added, and proves the copy.
 *
 * Invariant: nothing is left out. An object that cannot be copied is refused by name, if possible before any row is copied.
 */

import { durable } from '../../lib/files.ts';
import { formatCount } from '../../lib/units.ts';
import { StorageError } from '../../model/errors.ts';
import type { Engine } from '../../staging/engine/engine.ts';
import { DuckDbError, firstLine } from '../../staging/engine/errors.ts';
import { identifier, numberAt, text, textAt, textListAt, textOrNullAt } from '../../staging/engine/sql.ts';
import { CATALOG_SCHEMA, MIRROR } from './catalog/schema.ts';

/** The name under which the new file is attached. */
export const COMPACTED = 'compacted';

/** The least number of rows in one commit: committing 3,000 small tables one by one would take longer than copying them. */
const ROWS_OF_A_COMMIT = 1_000_000;
/** The most objects that an error names. */
const MAX_NAMED_OBJECTS = 10;

export interface CopyProgress {
  readonly phase: 'copying' | 'proving';
  /** The current table, with its schema. */
  readonly table: string;
  /** The number of finished tables. */
  readonly done: number;
  readonly tables: number;
  /** The progress of the phase, from 0 to 1, as far as DuckDB knows it. */
  readonly share: () => number;
}

type OnProgress = (progress: CopyProgress) => void;

/** Copies all objects. @throws StorageError naming the object that cannot be copied; DuckDbError */
export async function copyAllObjects(engine: Engine, path: string): Promise<void> {
  await carried(path, 'What was added to it', engine.run(copyObjects(MIRROR, COMPACTED)));
  await proveObjects(engine, path);
}

/** Returns the copied tables. @throws StorageError, DuckDbError */
export async function copyAllRows(
  engine: Engine,
  path: string,
  onProgress: OnProgress,
  isCopied: (table: CopiedTable) => boolean = () => true,
): Promise<readonly CopiedTable[]> {
  const tables = (await tablesOf(engine, MIRROR)).filter(isCopied);
  const report = progressReporter(engine, 'copying', tables, 1, onProgress);
  let uncommitted = 0;
  await engine.run('BEGIN');
  for (const table of tables) {
    report(table);
    const copying = engine.runWhileSpaceIsFree(copyRows(MIRROR, COMPACTED, table));
    await carried(path, `The table ${shown(table)}`, copying);
    uncommitted += table.rows;
    if (uncommitted < ROWS_OF_A_COMMIT) continue;
    await commit(engine);
    await engine.run('BEGIN');
    uncommitted = 0;
  }
  await commit(engine);
  return tables;
}

/** Puts the log of the new file into it. */
export function writeCopied(engine: Engine): Promise<void> {
  const copied = identifier(COMPACTED);
  return durable('destination.compact-write', () => engine.runWhileSpaceIsFree(`CHECKPOINT ${copied}`));
}

function commit(engine: Engine): Promise<void> {
  return durable('destination.compact-commit', () => engine.finish('COMMIT'));
}

/** Proves that both files have the same content. @throws StorageError when the new file differs from the mirror; DuckDbError */
export async function proveSame(
  engine: Engine,
  path: string,
  tables: readonly CopiedTable[],
  onProgress: OnProgress,
): Promise<void> {
  await proveObjects(engine, path);
  const report = progressReporter(engine, 'proving', tables, 2, onProgress);
  for (const table of tables) {
    report(table);
    const original = await digestOf(engine, MIRROR, table);
    report(table);
    const copied = await digestOf(engine, COMPACTED, table);
    if (original.rowCount === copied.rowCount && original.digest === copied.digest) continue;
    const [had, has] = [original.rowCount, copied.rowCount].map(formatCount);
    throw new StorageError(
      `The copy of the table ${shown(table)} of ${path} differs from the table (${has} rows of ${had}).`,
      { hint: 'Check the disk. The mirror is unchanged.' },
    );
  }
}

/** Returns a function to be called before each read of a table. This phase reads each table `reads` times. */
function progressReporter(
  engine: Engine,
  phase: CopyProgress['phase'],
  tables: readonly CopiedTable[],
  reads: number,
  onProgress: OnProgress,
): (table: CopiedTable) => void {
  const all = Math.max(1, reads * tables.reduce((sum, { rows }) => sum + rows, 0));
  let [reported, rowsBefore, reached] = [0, 0, 0];
  return (table) => {
    const before = rowsBefore;
    const share = (): number => {
      // The counter starts again after the rows have been read.
      reached = Math.max(reached, Math.min(1, (before + Math.min(engine.rowsRead, table.rows)) / all));
      return reached;
    };
    const done = Math.floor(reported / reads);
    onProgress({ phase, table: shown(table), done, tables: tables.length, share });
    reported += 1;
    rowsBefore += table.rows;
  };
}

async function proveObjects(engine: Engine, path: string): Promise<void> {
  const different = differentObjects(await objectsOf(engine, MIRROR), await objectsOf(engine, COMPACTED));
  if (different.length === 0) return;
  const named = different.slice(0, MAX_NAMED_OBJECTS).join(', ');
  const rest =
    different.length > MAX_NAMED_OBJECTS ? ` and ${different.length - MAX_NAMED_OBJECTS} more` : '';
  throw notCarried(path, 'What was added to it', `${named}${rest} would be lost or changed`, null);
}

/** DuckDB refuses the statement when an operator's object needs something outside the file. */
async function carried(path: string, what: string, copying: Promise<void>): Promise<void> {
  try {
    await copying;
  } catch (error) {
    if (!(error instanceof DuckDbError) || error.fault !== 'statement') throw error;
    throw notCarried(path, what, firstLine(error).replace(/[.!]$/, ''), error);
  }
}

function notCarried(path: string, what: string, why: string, cause: DuckDbError | null): StorageError {
  return new StorageError(`The mirror ${path} cannot be compacted. ${what} cannot be carried over: ${why}.`, {
    hint: 'Remove by hand the objects that feed-sync did not make, compact, and add them again. The mirror is unchanged.',
    ...(cause === null ? {} : { cause }),
  });
}

/** In the tables of the catalog the order of the rows has a meaning. */
function hasOrder({ schema }: CopiedTable): boolean {
  return schema === CATALOG_SCHEMA;
}

function shown({ schema, name }: CopiedTable): string {
  return `${schema}.${name}`;
}

/** Everything known of each object, by its kind and name. Objects of the same name share a sorted list. */
type Objects = ReadonlyMap<string, readonly string[]>;

interface Space {
  /** The bytes of used blocks, including deleted rows in them. */
  readonly usedBytes: number;
  readonly freeBytes: number;
}

/** Returns every table of an attached database, in order of creation. @throws DuckDbError */
export async function tablesOf(engine: Engine, database: string): Promise<readonly CopiedTable[]> {
  return (await engine.rows(selectTables(database))).map((row) => ({
    schema: textAt(row, 0),
    name: textAt(row, 1),
    columns: textListAt(row, 2),
    texts: textListAt(row, 3),
    rows: numberAt(row, 4),
  }));
}

async function objectsOf(engine: Engine, database: string): Promise<Objects> {
  const objects = new Map<string, string[]>();
  for (const row of await engine.rows(selectObjects(database))) {
    const name = `${textAt(row, 0)} ${textAt(row, 1)}`;
    objects.set(name, [...(objects.get(name) ?? []), textOrNullAt(row, 2) ?? ''].toSorted());
  }
  return objects;
}

/** Returns the kinds and names of the objects that are missing or different on one side. */
function differentObjects(left: Objects, right: Objects): readonly string[] {
  const isSame = (name: string): boolean =>
    JSON.stringify(left.get(name)) === JSON.stringify(right.get(name));
  return [...new Set([...left.keys(), ...right.keys()])].filter((name) => !isSame(name)).sort();
}

interface TableDigest {
  readonly rowCount: number;
  readonly digest: string;
  /** The bytes of the longest text; 0 where there is none. */
  readonly longestBytes: number;
}

/** Reads the whole table. Returns its row count and a digest of its rows. @throws DuckDbError */
export async function digestOf(engine: Engine, database: string, table: CopiedTable): Promise<TableDigest> {
  const [row = []] = await engine.rows(digestTable(database, table, hasOrder(table)));
  return { rowCount: numberAt(row, 0), digest: textAt(row, 1), longestBytes: numberAt(row, 2) };
}

/** Reads the rows in these places, as `digestOf` reads all. */
export async function digestOfRows(
  engine: Engine,
  database: string,
  table: CopiedTable,
  { from, before }: { readonly from: number; readonly before: number },
): Promise<void> {
  const rows = `rowid >= ${from} AND rowid < ${before}`;
  await engine.rows(`${digestTable(database, table, false)} WHERE ${rows}`);
}

export async function spaceOf(engine: Engine, database: string): Promise<Space> {
  const [row = []] = await engine.rows(selectSpace(database));
  return { usedBytes: numberAt(row, 0), freeBytes: numberAt(row, 1) };
}

/** A table of an attached database. */
export interface CopiedTable {
  readonly schema: string;
  readonly name: string;
  readonly columns: readonly string[];
  /** Those of the columns that hold texts. */
  readonly texts: readonly string[];
  /** The row count as DuckDB estimates it. */
  readonly rows: number;
}

/** Copies schemas, tables, views, sequences, macros, types and indexes, with comments and without rows. */
function copyObjects(from: string, to: string): string {
  return `COPY FROM DATABASE ${identifier(from)} TO ${identifier(to)} (SCHEMA)`;
}

/** Copies the rows in their physical order. */
function copyRows(from: string, to: string, table: CopiedTable): string {
  return `INSERT INTO ${placeOf(to, table)} SELECT * FROM ${placeOf(from, table)}`;
}

/** Selects a row for each table, in order of creation: schema, name, columns, columns of texts, estimated row count. */
function selectTables(database: string): string {
  return `SELECT tables.schema_name, tables.table_name, list(columns.column_name ORDER BY columns.column_index),
      coalesce(list(columns.column_name) FILTER (WHERE columns.data_type IN ('VARCHAR', 'JSON')), []), any_value(tables.estimated_size)
    FROM duckdb_tables() AS tables JOIN duckdb_columns() AS columns USING (database_oid, table_oid)
    WHERE tables.database_name = ${text(database)}
    GROUP BY tables.schema_name, tables.table_name, table_oid ORDER BY table_oid`;
}

/** Selects a row for each object of the database: its kind, its name, and everything known of it except its rows. */
function selectObjects(database: string): string {
  const own = (kind: string, name: string, known: string, from: string, where = 'NOT internal') =>
    `SELECT ${text(kind)}, schema_name || '.' || ${name}, to_json([${known}])::VARCHAR
      FROM ${from} WHERE database_name = ${text(database)} AND ${where}`;
  const columns = 'duckdb_columns() SEMI JOIN duckdb_tables() USING (database_oid, table_oid)';
  return [
    `SELECT 'schema', schema_name, NULL FROM duckdb_schemas() WHERE database_name = ${text(database)}`,
    own('table', 'table_name', 'sql, comment', 'duckdb_tables()'),
    own(
      'column',
      "table_name || '.' || column_name",
      'data_type, column_default, is_nullable::VARCHAR, comment',
      columns,
    ),
    own('view', 'view_name', 'sql, comment', 'duckdb_views()'),
    own('sequence', 'sequence_name', 'sql, comment', 'duckdb_sequences()', 'NOT temporary'),
    own(
      'macro',
      'function_name',
      'function_type, parameters::VARCHAR, macro_definition, comment',
      'duckdb_functions()',
    ),
    own('type', 'type_name', 'logical_type, labels::VARCHAR, comment', 'duckdb_types()'),
    own('index', 'index_name', 'sql, comment', 'duckdb_indexes()', 'true'),
  ].join(' UNION ALL ');
}

/**
 * Returns one row by one scan: the row count, and a number that changes when a row changes, is missing or is repeated; for
 * ordered tables it also depends on the order; and the length of the longest text.
 */
function digestTable(database: string, table: CopiedTable, isOrdered: boolean): string {
  const row = `hash(${table.columns.map(identifier).join(', ')})`;
  const place = placeOf(database, table);
  const lengths = table.texts.map((column) => `max(strlen(${identifier(column)}))`);
  const longest = `greatest(${['0', ...lengths].join(', ')})`;
  if (!isOrdered) return `SELECT count(*), coalesce(sum(${row}), 0)::VARCHAR, ${longest} FROM ${place}`;
  const hashes = `(SELECT *, hash(row_number() OVER (), ${row}) AS row_digest FROM ${place})`;
  return `SELECT count(*), coalesce(sum(row_digest), 0)::VARCHAR, ${longest} FROM ${hashes}`;
}

/** Returns one row: the used and the free bytes of the file. */
function selectSpace(database: string): string {
  return `SELECT used_blocks * block_size, free_blocks * block_size FROM pragma_database_size()
    WHERE database_name = ${text(database)}`;
}

/** Returns the table of an attached database as SQL. */
export function placeOf(database: string, { schema, name }: Pick<CopiedTable, 'schema' | 'name'>): string {
  return [database, schema, name].map(identifier).join('.');
}
