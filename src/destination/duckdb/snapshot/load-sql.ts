/** The statements that load a snapshot, as text. Rows go from the files into the mirror without leaving DuckDB. */

import { present } from '../../../lib/assert.ts';
import { mirrored } from '../books/mirror-schema.ts';
import { identifier, text, tuple } from '../engine/quoting.ts';
import { offends, strict } from './cast.ts';
import { DUCKDB_TYPES } from './casts.ts';
import { type ParquetFile, readParquet } from './parquet-file.ts';
import type { FileGroup, PlannedColumn, Source, TablePlan } from './table-plan.ts';

/** The table while it is loaded and proven. No table of a dataset can have this name: theirs are `[a-z0-9_]`. */
export const LOADING = mirrored('feed-sync: loading');

/** The longest part of an offending value that an error shows, in characters. */
export const MAX_SHOWN_VALUE = 200;

/** Each of them reads all keys: with more of them that takes longer than the counting. */
const MAX_SCANS_OF_KEYS = 8;

const FILE_COLUMN = 'feed-sync: file';

export function createLoading({ columns, groups }: TablePlan): string {
  if (groups.length === 0) {
    const definitions = columns.map(
      ({ columnName, type }) => `${identifier(columnName)} ${DUCKDB_TYPES[type]}`,
    );
    return `CREATE TABLE ${LOADING} (${definitions.join(', ')})`;
  }
  return `CREATE TABLE ${LOADING} AS ${groups.map((group) => selectGroup(columns, group)).join(' UNION ALL ')}`;
}

function selectGroup(columns: readonly PlannedColumn[], group: FileGroup): string {
  const values = group.sources.map(
    ({ cast, position }, index) =>
      `${strict(cast, physical(position))} AS ${identifier(columns[index]?.columnName ?? '')}`,
  );
  return `SELECT ${values.join(', ')} FROM ${readParquet(group.files.map(({ file }) => file.path))} AS ${aliases(group)}`;
}

/** Columns are addressed by position: names in files may be equal but for case, or what DuckDB uses for its own. */
function aliases(group: Pick<FileGroup, 'width'>, ...more: readonly string[]): string {
  const names = Array.from({ length: group.width }, (_, position) => physical(position));
  return `file${tuple([...names, ...more])}`;
}

function physical(position: number): string {
  return `c${position}`;
}

/**
 * One row: the count of the rows, that of the different hashes of their keys, and for each key column the count of
 * the rows where it is not null. As many hashes as rows prove the keys unique, without keeping the keys; fewer prove nothing,
 * because hashes may collide. DuckDB scans what is not committed yet by one thread: for `threads` to take part, each has a
 * scan of its own, and counts a part of the hashes.
 */
export function countRows(keyColumns: readonly PlannedColumn[], threads: number): string {
  if (keyColumns.length === 0) return `SELECT count(*), count(*) FROM ${LOADING}`;
  const keys = keyColumns.map((_, index) => `k${index}`);
  const hashed = `SELECT hash(${keyList(keyColumns)}), ${keyList(keyColumns)} FROM ${LOADING}`;
  const counts = ['count(*)', 'count(DISTINCT h)', ...keys.map((key) => `count(${key})`)];
  const scans = Math.min(threads, MAX_SCANS_OF_KEYS);
  const parts = Array.from(
    { length: scans },
    (_, part) =>
      `SELECT ${counts.join(', ')} FROM (${hashed}) AS hashed${tuple(['h', ...keys])} WHERE h % ${scans} = ${part}`,
  );
  const names = counts.map((_, index) => `c${index}`);
  const sums = names.map((name) => `sum(${name})::BIGINT`);
  return `SELECT ${sums.join(', ')} FROM (${parts.join(' UNION ALL ')}) AS parts${tuple(names)}`;
}

export function countKeys(keyColumns: readonly PlannedColumn[]): string {
  return `SELECT count(*) FROM (SELECT DISTINCT ${keyList(keyColumns)} FROM ${LOADING})`;
}

/** One key that is there more than once: its values as text, and how often. */
export function findRepeatedKey(keyColumns: readonly PlannedColumn[]): string {
  const shown = keyColumns.map(
    ({ columnName }) => `left(${identifier(columnName)}::VARCHAR, ${MAX_SHOWN_VALUE})`,
  );
  return `SELECT count(*), ${shown.join(', ')} FROM ${LOADING}
    GROUP BY ${keyList(keyColumns)} HAVING count(*) > 1 LIMIT 1`;
}

function keyList(keyColumns: readonly PlannedColumn[]): string {
  return keyColumns.map(({ columnName }) => identifier(columnName)).join(', ');
}

/** Puts the loaded table in the place of the live one. Whoever dropped that by hand has it back by this. */
export function swap(tableName: string, replaces: boolean): readonly string[] {
  const rename = `ALTER TABLE ${LOADING} RENAME TO ${identifier(tableName)}`;
  return replaces ? [`DROP TABLE IF EXISTS ${mirrored(tableName)}`, rename] : [rename];
}

/** One value of the column that its cast would change: the path of its file and the value as text. */
export function findOffender(group: FileGroup, { cast, position }: Source): string {
  return findValue(group, position, offends(cast, physical(position)));
}

/** One value of a column of the files that is no null: the path of its file and the value as text. */
export function findAnyValue(group: Pick<FileGroup, 'files' | 'width'>, position: number): string {
  return findValue(group, position, `${physical(position)} IS NOT NULL`);
}

/** Selects one row if the column holds a value in the file, else none. */
export function findFilled({ file, columns }: ParquetFile, position: number): string {
  return `SELECT 1 FROM ${readParquet([file.path])} AS ${aliases({ width: columns.length })}
    WHERE ${physical(position)} IS NOT NULL LIMIT 1`;
}

/** One row with that key: the path of its file. A cell is the text of a value in the column of that index in the plan. */
export function findKey(
  group: FileGroup,
  key: readonly { readonly index: number; readonly value: string | null }[],
): string {
  const cells = key.map(({ index, value }) => {
    const { cast, position } = present(group.sources[index], 'every column of a plan has a source');
    const shown = `left((${cast.convert(physical(position))})::VARCHAR, ${MAX_SHOWN_VALUE})`;
    return value === null ? `${shown} IS NULL` : `${shown} = ${text(value)}`;
  });
  return findValue(group, 0, cells.join(' AND '));
}

function findValue(group: Pick<FileGroup, 'files' | 'width'>, position: number, where: string): string {
  const value = physical(position);
  const path = identifier(FILE_COLUMN);
  const files = readParquet(
    group.files.map(({ file }) => file.path),
    [`filename = ${text(FILE_COLUMN)}`],
  );
  return `SELECT ${path}, left(${value}::VARCHAR, ${MAX_SHOWN_VALUE}) FROM ${files} AS ${aliases(group, path)}
    WHERE ${where} LIMIT 1`;
}

/** Reads and casts every value of one file and keeps nothing. */
export function scan(group: FileGroup, { file }: ParquetFile): string {
  const values = group.sources.map(({ cast, position }) => strict(cast, physical(position)));
  return `SELECT bit_xor(hash(${values.join(', ')})) FROM ${readParquet([file.path])} AS ${aliases(group)}`;
}
