/**
 * What the tables say of themselves that changes go into: asked of all tables of a batch at once, because a statement costs more
 * than its answer.
 */

import { present } from '../../../lib/assert.ts';
import { mirrored } from '../books/mirror-schema.ts';
import type { Engine } from '../engine/engine.ts';
import { text } from '../engine/quoting.ts';
import { numberAt, textAt, textOrNullAt } from '../engine/rows.ts';

export interface FoundTable {
  readonly rowCount: number;
  /**
   * The highest address of a row, as text, because a person may have made a column of any type that hides the addresses; null
   * where there is no row.
   */
  readonly highestAddress: string | null;
  /** The name and the type of each column, in their order. */
  readonly columns: readonly (readonly [string, string])[];
}

/** By name, of all of them. @throws DuckDbError where one is not there. */
export async function readFoundTables(
  engine: Engine,
  tableNames: readonly string[],
): Promise<ReadonlyMap<string, FoundTable>> {
  if (tableNames.length === 0) return new Map();
  const extents = await engine.rows(together(tableNames.map(selectExtent)));
  const columns = Map.groupBy(await engine.rows(together(tableNames.map(selectColumns))), (row) =>
    textAt(row, 0),
  );
  return new Map(
    extents.map((row) => {
      const tableName = textAt(row, 0);
      const listed = present(columns.get(tableName), 'every table has columns');
      const inOrder = listed.toSorted((left, right) => numberAt(left, 1) - numberAt(right, 1));
      const found = {
        rowCount: numberAt(row, 1),
        highestAddress: textOrNullAt(row, 2),
        columns: inOrder.map((column): [string, string] => [textAt(column, 2), textAt(column, 3)]),
      };
      return [tableName, found];
    }),
  );
}

function selectExtent(tableName: string): string {
  return `SELECT ${text(tableName)}, count(*), max(rowid)::VARCHAR FROM ${mirrored(tableName)}`;
}

function selectColumns(tableName: string): string {
  return `SELECT ${text(tableName)}, cid, name, type FROM pragma_table_info(${text(mirrored(tableName))})`;
}

function together(selects: readonly string[]): string {
  return selects.join(' UNION ALL ');
}
