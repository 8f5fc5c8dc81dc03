/** Checkpoints as SQL text, and back: how the formats of released versions are kept for tests. */

import { existsSync } from 'node:fs';
import Database from 'better-sqlite3';

const PRAGMAS = ['application_id', 'user_version'] as const;

/** The statements that make this file again: pragmas, tables, rows. */
export function dumpOf(path: string): string {
  const database = new Database(path, { readonly: true });
  const pragmas = PRAGMAS.map((name) => `PRAGMA ${name} = ${database.pragma(name, { simple: true })};`);
  const tables = database
    .prepare<[], { name: string; sql: string }>('SELECT name, sql FROM sqlite_schema WHERE sql IS NOT NULL')
    .all();
  const rows = tables.flatMap(({ name }) => insertsOf(database, name));
  database.close();
  return [...pragmas, ...tables.map(({ sql }) => `${sql};`), ...rows, ''].join('\n');
}

export function restore(path: string, dump: string): void {
  const database = new Database(path);
  database.exec(dump);
  database.close();
}

/** Gives a table the rows that it has in an older checkpoint: pages of it that the disk did not write since. Nothing where one is lost. */
export function restoreTable(table: string, from: string, to: string): void {
  if (![from, to].every((path) => existsSync(path))) return;
  const database = new Database(to);
  database.pragma('foreign_keys = off');
  database.prepare('ATTACH ? AS older').run(from);
  database.exec(
    `BEGIN; DELETE FROM main.${table}; INSERT INTO main.${table} SELECT * FROM older.${table}; COMMIT`,
  );
  database.close();
}

/** What was made, in an order that does not depend on how: the text of every table and index. */
export function schemaOf(path: string): readonly string[] {
  const database = new Database(path, { readonly: true });
  const sql = database
    .prepare<[], string>('SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL')
    .pluck()
    .all();
  const pragmas = PRAGMAS.map((name) => `${name} ${database.pragma(name, { simple: true })}`);
  database.close();
  return [...pragmas, ...sql.map((text) => text.replaceAll(/\s+/g, ' ')).sort()];
}

function insertsOf(database: Database.Database, table: string): readonly string[] {
  const columns = database.pragma(`table_info(${table})`) as readonly { name: string }[];
  const quoted = columns.map(({ name }) => `quote(${name})`).join(" || ', ' || ");
  const rows = database.prepare<[], string>(`SELECT ${quoted} FROM ${table}`).pluck().all();
  return rows.map((values) => `INSERT INTO ${table} VALUES (${values});`);
}
