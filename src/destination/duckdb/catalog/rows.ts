/** Rows of the catalog as SQL: inserted and deleted in statements of a bounded length. Pure. */

import { identifier, integer, json, text } from '../../../staging/engine/sql.ts';
import { type CatalogTable, type CatalogType, catalogColumns, catalogTable } from './schema.ts';

/** The most characters of rows in one statement. A longer row gets a statement of its own. */
export const MAX_ROWS_CHARACTERS = 1_000_000;

type Cell = string | number | bigint | boolean | Date | readonly string[] | null;
/** In the order of the table's columns. */
export type CatalogRow = readonly Cell[];

/** `values` are SQL values of the column `what`; their rows are deleted. */
export function deleteWhere(table: CatalogTable, what: string, values: readonly string[]): readonly string[] {
  return together(values).map((some) => `DELETE FROM ${catalogTable(table)} WHERE ${what} IN (${some})`);
}

/** Inserts rows into a table of the catalog, in order. */
export function insertRows(table: CatalogTable, rows: readonly CatalogRow[]): readonly string[] {
  return selectRows(table, rows).map((select) => `INSERT INTO ${catalogTable(table)} ${select}`);
}

/** Deletes the rows whose first columns have these values. No value is null. */
export function deleteRows(table: CatalogTable, keys: readonly CatalogRow[]): readonly string[] {
  const columns = catalogColumns(table).slice(0, keys[0]?.length);
  const same = columns.map(([name]) => identifier(name)).join(', ');
  return selectRows(table, keys).map(
    (select) => `DELETE FROM ${catalogTable(table)} WHERE (${same}) IN (${select})`,
  );
}

/** Returns queries for the rows, each of which has a value for each of the first columns of the table. */
function selectRows(table: CatalogTable, rows: readonly CatalogRow[]): readonly string[] {
  const columns = catalogColumns(table)
    .slice(0, rows[0]?.length)
    .map(([, type], index) => FROM_JSON[type](`"row"->${index}`, `"row"->>${index}`));
  return together(rows.map(jsonRow)).map(
    (some) => `SELECT ${columns.join(', ')}
      FROM (SELECT unnest(from_json(${text(`[${some}]`)}, '["JSON"]')) AS "row")`,
  );
}

/** Rows that the database stores as equal have the same text. @throws DataError when a text holds a NUL character. */
export function jsonRow(row: CatalogRow): string {
  return json(row.map(jsonCell));
}

/** Builds a cell from its JSON, which is given as a value and as text. The type makes the compiler refuse a missing type. */
export const FROM_JSON: Readonly<Record<CatalogType, (value: string, shown: string) => string>> = {
  VARCHAR: (_value, shown) => shown,
  BIGINT: (_value, shown) => `(${shown})::BIGINT`,
  HUGEINT: (_value, shown) => `(${shown})::HUGEINT`,
  BOOLEAN: (_value, shown) => `(${shown})::BOOLEAN`,
  TIMESTAMPTZ: (_value, shown) => `make_timestamptz((${shown})::BIGINT * 1000)`,
  'VARCHAR[]': (value) => `from_json(${value}, '["VARCHAR"]')`,
};

/** Whole numbers become text, because JSON numbers have 53 bits. Times become milliseconds. */
function jsonCell(cell: Cell): string | boolean | readonly string[] | null {
  if (cell instanceof Date) return integer(cell.getTime());
  return typeof cell === 'number' || typeof cell === 'bigint' ? integer(cell) : cell;
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
