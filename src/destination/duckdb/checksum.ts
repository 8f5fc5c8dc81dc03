/**
 * The checksum of a table: the sum of the hashes of its rows. Every commit keeps it up, so that a value that was changed by hand
 * or by a damaged disk is found without a download. The order of the rows does not matter, so a commit subtracts the rows that it
 * takes away and adds the rows that it brings.
 *
 * DuckDB may change its hash in a later version. The version of a checksum therefore holds the hash of a constant row: a checksum
 * with another version cannot be compared, and is computed again.
 */

import type { ColumnType } from '../../model/records.ts';
import type { Engine } from '../../staging/engine/engine.ts';
import { identifier } from '../../staging/engine/sql.ts';
import { type Checksum, checksumAt } from '../catalog/cells.ts';

/** Raised when the way of hashing a row below changes. */
const METHOD = 1;

/** One value of each type of the mirror. */
const CONSTANT_ROW = [
  "'feed-sync'",
  '42::BIGINT',
  '0.1::DOUBLE',
  'TRUE',
  "DATE '2000-01-02'",
  "TIMESTAMPTZ '2000-01-02 03:04:05+00'",
  "'POINT (1 2)'::GEOMETRY",
  `'{"a":1}'::JSON`,
  'NULL::VARCHAR',
];

/**
 * Returns the hash of a row, in SQL. `columns` are SQL values, in the order of the table. Combined hashes are hashed again: sums of them
 * would rarely differ.
 */
export function rowHash(columns: readonly string[]): string {
  return `hash(hash(${columns.join(', ')}))`;
}

const TWO_TO_64 = '18446744073709551616::UHUGEINT';
/** Half of the 8 bytes that DuckDB hashes at a time. */
const SHIFT = 'half';

/**
 * Returns the hash of a row and another one, 128 bits in SQL, for rows that count as equal where these are. DuckDB's hash of texts and
 * bytes is weak for what differs only in the last of each 8 bytes: 8,836 such texts of 24 characters have 256 hashes. In the other hash
 * these bytes are in the middle. Its columns are in the other order: to any other first numbers a last one can be computed with which
 * DuckDB's hash is the same.
 */
export function twoHashes(columns: readonly HashedColumn[]): string {
  const shifted = columns.map(({ sql, type }) => {
    if (type === 'geometry') return `'${SHIFT}'::BLOB || ST_AsWKB(${sql})`;
    return type === 'string' || type === 'json' ? `'${SHIFT}' || ${sql}::VARCHAR` : sql;
  });
  const hash = rowHash(columns.map(({ sql }) => sql));
  return `(${hash}::UHUGEINT * ${TWO_TO_64} + ${rowHash(shifted.toReversed())})`;
}

export interface HashedColumn {
  /** A value, in SQL. */
  readonly sql: string;
  readonly type: ColumnType;
}

/** Returns an SQL value: the sum of the hashes of all rows, by what `twoHashes` gives for each. */
export function sumOfTwoHashes(column: string): string {
  return `coalesce(sum((${column} // ${TWO_TO_64})::UBIGINT), 0)::HUGEINT`;
}

/** Returns an SQL value: the sum of the hashes of all rows, 0 without rows. */
export function sumOfHashes(columns: readonly string[]): string {
  return `coalesce(sum(${rowHash(columns)}), 0)::HUGEINT`;
}

/** Returns an SQL value: the version of checksums that this instance computes. */
export const CHECKSUM_VERSION = `'${METHOD}-' || ${rowHash(CONSTANT_ROW)}`;

/** Returns a query for the checksum: one row for `checksumAt`. `table` is SQL. */
function selectChecksum(table: string, columnNames: readonly string[]): string {
  return `SELECT ${sumOfHashes(columnNames.map(identifier))}, ${CHECKSUM_VERSION} FROM ${table}`;
}

/** Returns an SQL value for a query of one table: the sum of the hashes of its rows, with all columns in their order. */
export const SUM_OF_ALL_HASHES = sumOfHashes(['*COLUMNS(*)']);

/** Reads the whole table. */
export async function computeChecksum(
  engine: Engine,
  table: string,
  columnNames: readonly string[],
): Promise<Checksum> {
  const [row = []] = await engine.rows(selectChecksum(table, columnNames));
  return checksumAt(row, 0);
}
