/** The statements that load a snapshot, as text. Rows go from the files into the mirror without leaving DuckDB. */

import { identifier, tuple } from '../../staging/engine/sql.ts';
import { MAX_SHOWN_VALUE, selectRows } from '../../staging/snapshot/scan-sql.ts';
import type { PlannedColumn, TablePlan } from '../../staging/snapshot/table-plan.ts';
import { mirrored } from './catalog/schema.ts';
import { selectChecksum } from './checksum.ts';

/** The table while it is loaded and proven. No dataset's table can have this name: their names are `[a-z0-9_]`. */
export const LOADING = mirrored('feed-sync: loading');

/** Each scan reads all keys, so more scans than this would take longer than the counting. */
const MAX_SCANS_OF_KEYS = 8;

/** The content of a snapshot beside the table that it is compared with. */
export const STAGED = `temp.${identifier('feed-sync: staged')}`;

export function createLoading(plan: TablePlan): string {
  return createAs(`CREATE TABLE ${LOADING}`, plan);
}

export function createStaged(plan: TablePlan): string {
  return createAs(`CREATE TEMP TABLE ${STAGED}`, plan);
}

function createAs(create: string, plan: TablePlan): string {
  return `${create} AS ${selectRows(plan)}`;
}

/**
 * Returns a query for one row (`table` is SQL): the row count, the checksum, the number of distinct key hashes, and for each key column the
 * number of non-null rows. As many hashes as rows prove the keys unique without storing the keys. Fewer hashes prove nothing, because
 * hashes may collide. DuckDB scans uncommitted rows with one thread. To use `threads`, the query has one scan of the keys for each, and
 * each scan counts a part of the hashes; the checksum is computed beside them.
 */
export function countRows(
  table: string,
  columns: readonly PlannedColumn[],
  keyColumns: readonly PlannedColumn[],
  threads: number,
): string {
  const checksum = selectChecksum(
    table,
    columns.map(({ columnName }) => columnName),
  );
  return `SELECT counts.c0, checksum.*, counts.* EXCLUDE (c0)
    FROM (${countOfKeys(table, keyColumns, threads)}) AS counts, (${checksum}) AS checksum(sum, version)`;
}

function countOfKeys(table: string, keyColumns: readonly PlannedColumn[], threads: number): string {
  if (keyColumns.length === 0) return `SELECT count(*) AS c0, count(*) AS c1 FROM ${table}`;
  const keys = keyColumns.map((_, index) => `k${index}`);
  const hashed = `SELECT hash(${keyList(keyColumns)}), ${keyList(keyColumns)} FROM ${table}`;
  const counts = ['count(*)', 'count(DISTINCT h)', ...keys.map((key) => `count(${key})`)];
  const scans = Math.min(threads, MAX_SCANS_OF_KEYS);
  const parts = Array.from(
    { length: scans },
    (_, part) =>
      `SELECT ${counts.join(', ')} FROM (${hashed}) AS hashed${tuple(['h', ...keys])} WHERE h % ${scans} = ${part}`,
  );
  const names = counts.map((_, index) => `c${index}`);
  const sums = names.map((name) => `sum(${name})::BIGINT AS ${name}`);
  return `SELECT ${sums.join(', ')} FROM (${parts.join(' UNION ALL ')}) AS parts${tuple(names)}`;
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
