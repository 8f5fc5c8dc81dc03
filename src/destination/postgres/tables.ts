/** Makes, alters and describes the tables of the mirrored data. Pure, except for the functions that read them. */

import { sridOf } from '../../staging/coordinate-systems.ts';
import { booleanAt, identifier, text, textAt, textListAt, textOrNullAt } from '../../staging/engine/sql.ts';
import type { PlannedColumn } from '../../staging/snapshot/table-plan.ts';
import { type Named, qualified } from './catalog/names.ts';
import type { Transaction } from './connection.ts';
import { isTooLongForIndex, PostgresError } from './errors.ts';
import { type Postgis, shownTypeName, typeName } from './types.ts';

/** Leaves room on each page for the next version of a row, so that an update touches no index. */
const FILL_FACTOR = 90;

/** PostGIS stores a geometry of a system with a greater number as one of another system. */
const MAX_SRID = 999_999;

/** Returns the number of the coordinate system of a column: 0 where it is unknown, or PostGIS can have no such. */
export function sridOfColumn({ type, crs }: Pick<PlannedColumn, 'type' | 'crs'>): number {
  const srid = type === 'geometry' ? (sridOf(crs) ?? 0) : 0;
  return srid <= MAX_SRID ? srid : 0;
}

export function createTable(
  named: Named,
  columns: readonly PlannedColumn[],
  postgis: Postgis | null,
): string {
  const defined = columns.map((column) => definition(column, postgis));
  return `CREATE TABLE ${qualified(named)} (${defined.join(', ')}) WITH (fillfactor = ${FILL_FACTOR})`;
}

function definition(
  { columnName, type }: Pick<PlannedColumn, 'columnName' | 'type'>,
  postgis: Postgis | null,
): string {
  return `${identifier(columnName)} ${typeName(type, postgis)}`;
}

/** The indexes that a table gets: of its key and its geometries, of its key alone, or none. */
export type Indexes = 'all' | 'key' | 'none';

/** The most columns that an index can have. */
const MAX_KEY_COLUMNS = 32;

/**
 * Gives a table its key. One without keys or indexes, and one whose keys no index can have or hold, gives publications whole rows: its
 * keys are proven by every commit all the same. Resolves to whether the server proves them. @throws PostgresError; for rows without a
 * key of their own one that `lacksKeys` knows, and nothing is changed then.
 */
export async function addKey(
  transaction: Transaction,
  named: Named,
  columns: readonly PlannedColumn[],
  indexes: Indexes,
): Promise<boolean> {
  const table = qualified(named);
  const keys = columns.filter(({ role }) => role === 'key').map(({ columnName }) => identifier(columnName));
  const added = [
    `ALTER TABLE ${table} ADD PRIMARY KEY (${keys.join(', ')})`,
    `ALTER TABLE ${table} REPLICA IDENTITY DEFAULT`,
  ];
  const isIndexed = keys.length > 0 && keys.length <= MAX_KEY_COLUMNS && indexes !== 'none';
  if (isIndexed && (await fitsAnIndex(transaction, added))) return true;
  await transaction.run(`ALTER TABLE ${table} REPLICA IDENTITY FULL`);
  return false;
}

/** Resolves to false, without any change, where an index cannot hold the keys. */
async function fitsAnIndex(transaction: Transaction, statements: readonly string[]): Promise<boolean> {
  await transaction.run('SAVEPOINT key');
  try {
    await transaction.runAll(statements);
    return true;
  } catch (error) {
    if (!exceedsAnIndex(error) && !lacksKeys(error)) throw error;
    await transaction.run('ROLLBACK TO SAVEPOINT key');
    if (lacksKeys(error)) throw error;
    return false;
  }
}

/** The codes of a key that is there twice, and of one that is null. */
const OF_KEYS: ReadonlySet<string> = new Set(['23505', '23502']);

/** Returns whether rows have no key of their own. */
export function lacksKeys(error: unknown): boolean {
  return error instanceof PostgresError && OF_KEYS.has(error.sqlState ?? '');
}

/** Returns whether an index, of whoever made it, cannot hold a value. */
export function exceedsAnIndex(error: unknown): error is PostgresError {
  // A stage has no index, and a new table gets its own after its rows.
  return isTooLongForIndex(error) && !error.isOfCopy;
}

/** Returns the statements that drop the key of a table; none where it has none. */
export function dropKey(named: Named, { keyName, keyColumns }: FoundTable): readonly string[] {
  if (keyName === null) return [];
  const table = qualified(named);
  return [
    dropConstraint(table, keyName),
    ...keyColumns.map((name) => nullable(table, name)),
    `ALTER TABLE ${table} REPLICA IDENTITY FULL`,
  ];
}

/**
 * Returns the statements that a column of geometries needs. A typed column would refuse Z and M, and would tag a geometry without a
 * coordinate system.
 */
export function geometryOf(
  table: string,
  column: PlannedColumn,
  postgis: Postgis | null,
  indexes: Indexes,
): readonly string[] {
  if (column.type !== 'geometry') return [];
  const name = identifier(column.columnName);
  if (postgis === null) return [];
  const srid = `${identifier(postgis.schema)}.ST_SRID(${name})`;
  return [
    `ALTER TABLE ${table} ADD CHECK (${srid} = ${sridOfColumn(column)})`,
    ...(indexes === 'all' ? [`CREATE INDEX ON ${table} USING gist (${name})`] : []),
  ];
}

/** Returns the comments of a table that has none yet. */
export function comments(
  table: string,
  datasetId: string,
  columns: readonly PlannedColumn[],
): readonly string[] {
  return [
    `COMMENT ON TABLE ${table} IS ${text(`Dataset ${datasetId}`)}`,
    ...columns.flatMap(({ column, columnName }) =>
      column.description === null ? [] : [commentOnColumn(table, columnName, column.description)],
    ),
  ];
}

export function commentOnColumn(table: string, columnName: string, comment: string | null): string {
  return `COMMENT ON COLUMN ${table}.${identifier(columnName)} IS ${text(comment)}`;
}

/** A table as it is in the database. */
export interface FoundTable {
  /** The name and the type of each column. */
  readonly columns: ReadonlyMap<string, string>;
  /** The columns of the primary key; empty without one. */
  readonly keyColumns: readonly string[];
  /** The name of the primary key; null without one. */
  readonly keyName: string | null;
  /** The constraints that check one column. */
  readonly checks: readonly FoundCheck[];
  /** The names of the tables that inherit from it; null where none does. */
  readonly heirs: string | null;
  /** Whether the server empties it when it crashes. */
  readonly isUnlogged: boolean;
}

interface FoundCheck {
  readonly name: string;
  readonly columnName: string;
  readonly definition: string;
}

/** Returns the kind of an object of this name in words for people, and the table where it is one; null where there is none. */
export async function readFound(
  transaction: Transaction,
  { schemaName, tableName }: Named,
): Promise<{ readonly kind: string; readonly table: FoundTable | null } | null> {
  const named = `n.nspname = ${text(schemaName)} AND c.relname = ${text(tableName)}`;
  const [object] = await transaction.rows(`SELECT c.relkind::text,
      (SELECT string_agg(hn.nspname || '.' || h.relname, ', ' ORDER BY hn.nspname, h.relname) FROM pg_inherits i
        JOIN pg_class h ON h.oid = i.inhrelid JOIN pg_namespace hn ON hn.oid = h.relnamespace WHERE i.inhparent = c.oid),
      c.relpersistence = 'u'
    FROM pg_class c
    JOIN pg_namespace n ON n.oid = c.relnamespace WHERE ${named} AND c.relkind <> 'i'`);
  if (object === undefined) return null;
  const kind = KINDS.get(textAt(object, 0)) ?? 'object';
  if (kind !== 'table') return { kind, table: null };
  const columns = await transaction.rows(`SELECT a.attname::text, format_type(a.atttypid, a.atttypmod)
    FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE ${named} AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum`);
  const constraints = await transaction.rows(`SELECT k.conname::text, k.contype = 'p',
      ARRAY(SELECT a.attname::text FROM unnest(k.conkey) WITH ORDINALITY AS key(number, place)
        JOIN pg_attribute a ON a.attrelid = k.conrelid AND a.attnum = key.number ORDER BY key.place),
      pg_get_constraintdef(k.oid)
    FROM pg_constraint k JOIN pg_class c ON c.oid = k.conrelid JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE ${named} AND k.contype IN ('p', 'c')`);
  const key = constraints.find((row) => booleanAt(row, 1));
  return {
    kind,
    table: {
      columns: new Map(columns.map((row) => [textAt(row, 0), textAt(row, 1)])),
      keyColumns: key === undefined ? [] : textListAt(key, 2),
      keyName: key === undefined ? null : textAt(key, 0),
      heirs: textOrNullAt(object, 1),
      isUnlogged: booleanAt(object, 2),
      checks: constraints.flatMap((row): readonly FoundCheck[] => {
        const [columnName, ...others] = textListAt(row, 2);
        if (booleanAt(row, 1) || columnName === undefined || others.length > 0) return [];
        return [{ name: textAt(row, 0), columnName, definition: textAt(row, 3) }];
      }),
    },
  };
}

/** Returns whether a table has triggers or rules. A new one has those that an event trigger of an operator gave it. */
export async function hasTriggers(transaction: Transaction, named: Named): Promise<boolean> {
  const [row = []] = await transaction.rows(
    `SELECT relhastriggers OR relhasrules FROM pg_class WHERE oid = ${text(qualified(named))}::regclass`,
  );
  return booleanAt(row, 0);
}

const KINDS: ReadonlyMap<string, string> = new Map([
  ['r', 'table'],
  ['v', 'view'],
  ['m', 'materialized view'],
  ['f', 'foreign table'],
  ['p', 'partitioned table'],
  ['S', 'sequence'],
]);

export interface Alteration {
  /** Run before the rows are written. */
  readonly before: readonly string[];
  /** Run after the rows are written, because they need them as they are afterwards. */
  readonly after: readonly string[];
  /** Whether rows can be compared by their key: the table has the key that it is to have. */
  readonly hasSameKey: boolean;
  /** Whether the key is to be added after the rows are written. */
  readonly addsKey: boolean;
  readonly addsOrDrops: boolean;
}

/**
 * Returns the statements that bring the found table to these columns. Objects of readers stay; where one depends on a column or a key
 * that goes, the server refuses the statement.
 */
export function alterationTo(
  named: Named,
  found: FoundTable,
  columns: readonly PlannedColumn[],
  postgis: Postgis | null,
  indexes: Indexes,
): Alteration {
  const table = qualified(named);
  const kept = (column: PlannedColumn): boolean =>
    isSameType(found.columns.get(column.columnName), column, postgis);
  const keptNames = new Set(columns.filter(kept).map(({ columnName }) => columnName));
  const keys = columns.filter(({ role }) => role === 'key');
  const hasSameKey =
    keys.length > 0 &&
    keys.length === found.keyColumns.length &&
    keys.every((key, index) => kept(key) && found.keyColumns[index] === key.columnName);
  const dropped = [...found.columns.keys()].filter((name) => !keptNames.has(name));
  const added = columns.filter((column) => !keptNames.has(column.columnName));
  const isKeyRemade = !hasSameKey && (found.keyName !== null || keys.length > 0);
  const systems = columns.filter((column) => kept(column) && hasOtherSystem(found, column, postgis));
  const checked = systems.flatMap(({ columnName }) =>
    found.checks.filter((check) => check.columnName === columnName),
  );
  return {
    before: [
      ...(isKeyRemade && found.keyName !== null ? [dropConstraint(table, found.keyName)] : []),
      ...dropped.map((name) => `ALTER TABLE ${table} DROP COLUMN ${identifier(name)}`),
      ...(isKeyRemade
        ? found.keyColumns.filter((name) => keptNames.has(name)).map((name) => nullable(table, name))
        : []),
      ...checked.map(({ name }) => dropConstraint(table, name)),
      ...added.map((column) => `ALTER TABLE ${table} ADD COLUMN ${definition(column, postgis)}`),
    ],
    after: [
      ...added.flatMap((column) => geometryOf(table, column, postgis, indexes)),
      ...systems.flatMap((column) => geometryOf(table, column, postgis, indexes).slice(0, 1)),
    ],
    hasSameKey,
    addsKey: isKeyRemade,
    addsOrDrops: dropped.length + added.length > 0,
  };
}

export function isSameType(
  found: string | undefined,
  { type }: Pick<PlannedColumn, 'type'>,
  postgis: Postgis | null,
): boolean {
  if (found === undefined) return false;
  const expected = shownTypeName(type, postgis);
  return found === expected || (expected === 'geometry' && found.endsWith('.geometry'));
}

/** Returns whether the check of the coordinate system is missing, or another one. */
function hasOtherSystem(found: FoundTable, column: PlannedColumn, postgis: Postgis | null): boolean {
  if (column.type !== 'geometry' || postgis === null) return false;
  const ours = found.checks.filter(({ columnName }) => columnName === column.columnName);
  return !ours.some(({ definition: check }) => check.includes(`= ${sridOfColumn(column)})`));
}

function dropConstraint(table: string, name: string): string {
  return `ALTER TABLE ${table} DROP CONSTRAINT ${identifier(name)}`;
}

function nullable(table: string, columnName: string): string {
  return `ALTER TABLE ${table} ALTER COLUMN ${identifier(columnName)} DROP NOT NULL`;
}
