/** Queries that read the files of a snapshot. */

import { present } from '../../lib/assert.ts';
import { identifier, text, tuple } from '../engine/sql.ts';
import { DUCKDB_TYPES, offends, strict, strictIfUsual } from './casts.ts';
import { type ParquetFile, readParquet } from './parquet.ts';
import type { FileGroup, PlannedColumn, Source, TablePlan } from './table-plan.ts';

const FILE_COLUMN = 'feed-sync: file';

/** The longest part of an offending value in an error, in characters. */
export const MAX_SHOWN_VALUE = 200;

/** Returns one value of the column that its cast would change: the path of its file and the value as text. */
export function findOffender(group: FileGroup, { cast, position }: Source): string {
  return findValue(group, position, offends(cast, physical(position)));
}

/** Returns one non-null value of a column of the files: the path of its file and the value as text. */
export function findAnyValue(group: Pick<FileGroup, 'files' | 'width'>, position: number): string {
  return findValue(group, position, `${physical(position)} IS NOT NULL`);
}

/** Selects one row if the file holds a value in the column, else none. */
export function findFilled({ file, columns }: ParquetFile, position: number): string {
  return `SELECT 1 FROM ${readParquet([file.path])} AS ${aliases({ width: columns.length })}
    WHERE ${physical(position)} IS NOT NULL LIMIT 1`;
}

/** Returns one row with the key: the path of its file. A cell is the text of a value in the plan's column of that index. */
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

/** Reads and casts every value of one file and stores nothing. */
export function scan(group: FileGroup, { file }: ParquetFile): string {
  const values = group.sources.map(({ cast, position }) => strict(cast, physical(position)));
  return `SELECT bit_xor(hash(${values.join(', ')})) FROM ${readParquet([file.path])} AS ${aliases(group)}`;
}

/** `usual`: only usual values are converted, and others stand out (`isNotUsual`). */
export type Conversion = 'every-value' | 'usual';

/** Returns a query for the rows of a snapshot, with the names and types of the planned columns. */
export function selectRows({ columns, groups }: TablePlan, conversion: Conversion = 'every-value'): string {
  if (groups.length > 0) {
    return groups.map((group) => selectGroup(columns, group, conversion)).join(' UNION ALL ');
  }
  const values = columns.map(
    ({ columnName, type }) => `NULL::${DUCKDB_TYPES[type]} AS ${identifier(columnName)}`,
  );
  return `SELECT ${values.join(', ')} WHERE FALSE`;
}

function selectGroup(columns: readonly PlannedColumn[], group: FileGroup, conversion: Conversion): string {
  const values = group.sources.map(({ cast, position }, index) => {
    const converted = cast.keepsByResult === true ? [convertedOf(position)] : [];
    const short = conversion === 'usual' ? strictIfUsual(cast, physical(position)) : null;
    const value = short ?? strict(cast, physical(position), ...converted);
    return `${value} AS ${identifier(columns[index]?.columnName ?? '')}`;
  });
  const files = `${readParquet(group.files.map(({ file }) => file.path))} AS ${aliases(group)}`;
  return `SELECT ${values.join(', ')} FROM ${withConverted(files, group)}`;
}

/** DuckDB computes an expression again wherever it stands in a CASE. A column of a subquery is computed once. */
function withConverted(files: string, { sources }: FileGroup): string {
  const converted = sources.flatMap(({ cast, position }) =>
    cast.keepsByResult === true ? `${cast.convert(physical(position))} AS ${convertedOf(position)}` : [],
  );
  return converted.length === 0 ? files : `(SELECT *, ${converted.join(', ')} FROM ${files})`;
}

function convertedOf(position: number): string {
  return `converted${position}`;
}

/**
 * Returns the aliases of columns. Columns are addressed by position: names in files may differ only in case, or be names that DuckDB uses
 * itself.
 */
export function aliases(group: Pick<FileGroup, 'width'>, ...more: readonly string[]): string {
  const names = Array.from({ length: group.width }, (_, position) => physical(position));
  return `file${tuple([...names, ...more])}`;
}

export function physical(position: number): string {
  return `c${position}`;
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
