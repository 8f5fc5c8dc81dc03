/** The statements that load a snapshot, as text. Rows go from the files into the mirror without leaving DuckDB. */

import { identifier } from '../../staging/engine/sql.ts';
import { isNotUsual } from '../../staging/snapshot/casts.ts';
import { type Conversion, MAX_SHOWN_VALUE, selectRows } from '../../staging/snapshot/scan-sql.ts';
import type { PlannedColumn, TablePlan } from '../../staging/snapshot/table-plan.ts';
import { mirrored } from './catalog/schema.ts';
import { CHECKSUM_VERSION, rowHash } from './checksum.ts';

/** The table while it is loaded and proven. No dataset's table can have this name: their names are `[a-z0-9_]`. */
export const LOADING = mirrored('feed-sync: loading');

export function createLoading(plan: TablePlan, conversion: Conversion = 'every-value'): string {
  return createAs(`CREATE TABLE ${LOADING}`, plan, conversion);
}

export function dropLoading(): string {
  return `DROP TABLE ${LOADING}`;
}

/** Returns a statement that also replaces what an attempt has left. `table` is SQL. */
export function createStaged(table: string, plan: TablePlan): string {
  return createAs(`CREATE OR REPLACE TEMP TABLE ${table}`, plan);
}

function createAs(create: string, plan: TablePlan, conversion?: Conversion): string {
  return `${create} AS ${selectRows(plan, conversion)}`;
}

/** Returns a query for the lowest and the highest address of the rows. `table` is SQL. */
export function selectAddresses(table: string): string {
  return `SELECT min(rowid), max(rowid) FROM ${table}`;
}

/** Divides the rows of a table among so many scans: returns conditions of which every row satisfies exactly one. */
export function partsByAddress(lowest: bigint, highest: bigint, scans: number): readonly string[] {
  const rows = highest - lowest + 1n;
  const bounds = Array.from(
    { length: scans - 1 },
    (_, part) => lowest + (rows * BigInt(part + 1)) / BigInt(scans),
  );
  const from = [EVERY_ROW, ...bounds.map((address) => `rowid >= ${address}`)];
  const before = [...bounds.map((address) => `rowid < ${address}`), EVERY_ROW];
  return from.map((condition, part) => `${condition} AND ${before[part]}`);
}

export const EVERY_ROW = 'TRUE';

/**
 * Returns a query for one row (`table` is SQL): the row count, the checksum, the number of distinct key hashes, the number of rows with a
 * value that was left out in one of the columns `leftOut`, and for each key column the number of non-null rows. As many hashes as rows
 * prove the keys unique without storing the keys. Fewer hashes prove nothing, because hashes may collide. DuckDB scans uncommitted rows
 * with one thread, so each of `parts` is a scan of its own.
 */
export function countRows(
  table: string,
  columns: readonly PlannedColumn[],
  keyColumns: readonly PlannedColumn[],
  parts: readonly string[],
  leftOut: readonly PlannedColumn[],
): string {
  const keys = keyColumns.map((_, index) => `k${index}`);
  const hash = rowHash(columns.map(({ columnName }) => identifier(columnName)));
  const values = [
    `${hash} AS row_hash`,
    ...keyColumns.map(({ columnName }, index) => `${identifier(columnName)} AS k${index}`),
  ];
  const lacks = leftOut.map(({ columnName }) => isNotUsual(identifier(columnName))).join(' OR ');
  if (lacks !== '') values.push(`${lacks} AS lacks_value`);
  const keyHash = keyColumns.length === 0 ? [] : [`hash(${keyList(keyColumns)}) AS key_hash`];
  const scans = parts.map(
    (part) => `SELECT ${[...values, ...keyHash].join(', ')} FROM ${table} WHERE ${part}`,
  );
  const keyCount = keyColumns.length === 0 ? 'count(*)' : 'count(DISTINCT key_hash)';
  const counts = [
    'count(*)',
    'coalesce(sum(row_hash), 0)::HUGEINT',
    CHECKSUM_VERSION,
    keyCount,
    lacks === '' ? '0' : 'count(*) FILTER (lacks_value)',
    ...keys.map((key) => `count(${key})`),
  ];
  return `SELECT ${counts.join(', ')} FROM (${scans.join(' UNION ALL ')})`;
}

export function countKeys(table: string, keyColumns: readonly PlannedColumn[]): string {
  return `SELECT count(*) FROM (SELECT DISTINCT ${keyList(keyColumns)} FROM ${table})`;
}

/** Returns one repeated key: its values as text, and how often it occurs. */
export function findRepeatedKey(table: string, keyColumns: readonly PlannedColumn[]): string {
  const shown = keyColumns.map(
    ({ columnName }) => `left(${identifier(columnName)}::VARCHAR, ${MAX_SHOWN_VALUE})`,
  );
  return `SELECT count(*), ${shown.join(', ')} FROM ${table}
    GROUP BY ${keyList(keyColumns)} HAVING count(*) > 1 LIMIT 1`;
}

function keyList(keyColumns: readonly PlannedColumn[]): string {
  return keyColumns.map(({ columnName }) => identifier(columnName)).join(', ');
}

/** Replaces the live table by the loaded one. This also restores a table that was dropped by hand. */
export function swap(tableName: string, replaces: boolean): readonly string[] {
  const rename = `ALTER TABLE ${LOADING} RENAME TO ${identifier(tableName)}`;
  return replaces ? [`DROP TABLE IF EXISTS ${mirrored(tableName)}`, rename] : [rename];
}
