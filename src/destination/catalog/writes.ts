/** Changes of the catalog as data, so that each destination writes them in its own SQL. Pure. */

import { integer, json, text, tuple } from '../../staging/engine/sql.ts';
import type { CatalogTable } from './tables.ts';

/** The most characters of rows in one statement. A longer row gets a statement of its own. */
export const MAX_ROWS_CHARACTERS = 1_000_000;

type Cell = string | number | bigint | boolean | Date | readonly string[] | null;
/** The cells of a row, in the order of the table's columns. */
export type CatalogRow = readonly Cell[];

/** The values of the columns that identify rows. */
export type CatalogKey = readonly (string | number | bigint)[];

export type CatalogWrite =
  | { readonly kind: 'insert'; readonly table: CatalogTable; readonly rows: readonly CatalogRow[] }
  /** Deletes the rows whose columns have these values. */
  | {
      readonly kind: 'delete';
      readonly table: CatalogTable;
      readonly columns: readonly string[];
      readonly keys: readonly CatalogKey[];
    };

export function insertRows(table: CatalogTable, rows: readonly CatalogRow[]): CatalogWrite {
  return { kind: 'insert', table, rows };
}

export function deleteRows(
  table: CatalogTable,
  columns: readonly string[],
  keys: readonly CatalogKey[],
): CatalogWrite {
  return { kind: 'delete', table, columns, keys };
}

/**
 * Returns a row as JSON: rows that the database stores as equal have the same text. @throws DataError when a text holds a NUL character.
 */
export function jsonRow(row: CatalogRow): string {
  return json(row.map(jsonCell));
}

/** Whole numbers become text, because JSON numbers have 53 bits. Times become milliseconds. */
function jsonCell(cell: Cell): string | boolean | readonly string[] | null {
  if (cell instanceof Date) return integer(cell.getTime());
  return typeof cell === 'number' || typeof cell === 'bigint' ? integer(cell) : cell;
}

/** Returns the rows as JSON lists, each for one statement. */
export function jsonLists(rows: readonly CatalogRow[]): readonly string[] {
  return together(rows.map(jsonRow)).map((some) => `[${some}]`);
}

/** Returns the keys as lists of SQL values, each for one statement. */
export function keyLists(keys: readonly CatalogKey[]): readonly string[] {
  const value = (cell: CatalogKey[number]): string => (typeof cell === 'string' ? text(cell) : integer(cell));
  return together(keys.map((key) => tuple(key.map(value))));
}

/** Joins the parts by commas, within `MAX_ROWS_CHARACTERS`. */
function together(parts: readonly string[]): readonly string[] {
  const runs: string[][] = [];
  let characters = 0;
  for (const part of parts) {
    characters += part.length;
    const run = runs.at(-1);
    if (run !== undefined && characters <= MAX_ROWS_CHARACTERS) run.push(part);
    else {
      runs.push([part]);
      characters = part.length;
    }
  }
  return runs.map((run) => run.join(', '));
}
