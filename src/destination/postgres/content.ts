/** The content of a table, or of some of its rows: how many there are, and the sum of their hashes. */

import type { Row } from '../../staging/engine/engine.ts';
import { identifier, numberAt } from '../../staging/engine/sql.ts';
import type { PlannedColumn } from '../../staging/snapshot/table-plan.ts';
import { type Checksum, checksumAt } from '../catalog/cells.ts';
import type { Transaction } from './connection.ts';
import { CHECKSUM_VERSION, rowHash, sumOfHashes } from './types.ts';

type HashedColumn = Pick<PlannedColumn, 'columnName' | 'type'>;

export interface Content {
  readonly rowCount: number;
  readonly checksum: Checksum;
}

export function isSameContent(one: Content, other: Content): boolean {
  return one.rowCount === other.rowCount && one.checksum.sum === other.checksum.sum;
}

/** Returns the values of `contentAt` as SQL. `rowCount` and `hash` are SQL: the number of rows, and the hash of one. */
export function contentOf(rowCount: string, hash: string): string {
  return `${rowCount}, ${sumOfHashes(hash)}, ${CHECKSUM_VERSION}`;
}

export function contentAt(row: Row, index: number): Content {
  return { rowCount: numberAt(row, index), checksum: checksumAt(row, index + 1) };
}

/** Reads every row. `table` is SQL. */
export async function readContent(
  transaction: Transaction,
  table: string,
  columns: readonly HashedColumn[],
): Promise<Content> {
  const [row = []] = await transaction.rows(
    `SELECT ${contentOf('count(*)', hashOf('t', columns))} FROM ${table} AS t`,
  );
  return contentAt(row, 0);
}

/** Returns a query for the hashes of all rows, as `h`. `table` is SQL. */
export function selectHashes(table: string, columns: readonly HashedColumn[]): string {
  return `SELECT ${hashOf('t', columns)} AS h FROM ${table} AS t`;
}

/** Returns the hash of a row as SQL. `alias` is that of its table. */
export function hashOf(alias: string, columns: readonly HashedColumn[]): string {
  return rowHash(
    columns.map(({ columnName, type }) => [`${alias}.${identifier(columnName)}`, type] as const),
  );
}
