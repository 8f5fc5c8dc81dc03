/** What an attached database has: its objects, its tables, its rows as a number; and how those of two are told apart. */

import type { Engine } from '../engine/engine.ts';
import { numberAt, textAt, textListAt, textOrNullAt } from '../engine/rows.ts';
import { type CopiedTable, digestTable, selectObjects, selectSpace, selectTables } from './content-sql.ts';

/** By the kind and the name of each object, everything that is known of it; of several of one name all of it, sorted. */
export type Objects = ReadonlyMap<string, readonly string[]>;

/** The schema whose tables are read by the places of their rows. */
const ORDERED_SCHEMA = 'feed_sync';

export interface Space {
  /** Of whole blocks that hold something; rows that were taken out of them count, too. */
  readonly usedBytes: number;
  readonly freeBytes: number;
}

export async function tablesOf(engine: Engine, database: string): Promise<readonly CopiedTable[]> {
  return (await engine.rows(selectTables(database))).map((row) => ({
    schema: textAt(row, 0),
    name: textAt(row, 1),
    columns: textListAt(row, 2),
    rows: numberAt(row, 3),
  }));
}

export async function objectsOf(engine: Engine, database: string): Promise<Objects> {
  const objects = new Map<string, string[]>();
  for (const row of await engine.rows(selectObjects(database))) {
    const name = `${textAt(row, 0)} ${textAt(row, 1)}`;
    objects.set(name, [...(objects.get(name) ?? []), textOrNullAt(row, 2) ?? ''].toSorted());
  }
  return objects;
}

/** The kinds and names of the objects that one of the two has, and the other lacks or has otherwise. */
export function differentObjects(left: Objects, right: Objects): readonly string[] {
  const isSame = (name: string): boolean =>
    JSON.stringify(left.get(name)) === JSON.stringify(right.get(name));
  return [...new Set([...left.keys(), ...right.keys()])].filter((name) => !isSame(name)).sort();
}

/** How many rows the table has, and what tells them from any others. */
export async function digestOf(
  engine: Engine,
  database: string,
  table: CopiedTable,
): Promise<{ readonly rowCount: number; readonly digest: string }> {
  const [row = []] = await engine.rows(digestTable(database, table, table.schema === ORDERED_SCHEMA));
  return { rowCount: numberAt(row, 0), digest: textAt(row, 1) };
}

export async function spaceOf(engine: Engine, database: string): Promise<Space> {
  const [row = []] = await engine.rows(selectSpace(database));
  return { usedBytes: numberAt(row, 0), freeBytes: numberAt(row, 1) };
}
