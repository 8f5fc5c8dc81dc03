/** The one table of a mirror in PostgreSQL: how another program makes the same, and what is in it. */

import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { statement } from '../../fixtures/postgres-server.ts';
import { WrongResultError } from './case.ts';
import { measurePsql } from './postgres-server.ts';

export interface TableShape {
  /** With its schema. */
  readonly name: string;
  readonly columns: readonly string[];
  readonly keys: readonly string[];
  /** The statement that makes the table, without key and indexes. */
  readonly create: string;
  /** The statements that give it its key and its indexes. */
  readonly finish: readonly string[];
}

/** @throws WrongResultError where the mirror does not have exactly one table. */
export async function shapeOf(address: string): Promise<TableShape> {
  const found = await statement(address, "SELECT 'feeds.' || table_name FROM feed_sync.datasets");
  const name = found[0]?.[0] ?? '';
  if (found.length !== 1) throw new WrongResultError(`There are ${found.length} tables.`);
  const table = `'${name}'::regclass`;
  const columns = await statement(
    address,
    `SELECT quote_ident(attname), format('%I %s%s', attname, format_type(atttypid, atttypmod),
        CASE WHEN attnotnull THEN ' NOT NULL' ELSE '' END)
      FROM pg_attribute WHERE attrelid = ${table} AND attnum > 0 AND NOT attisdropped ORDER BY attnum`,
  );
  const constraints = (type: 'p' | 'c') =>
    statement(
      address,
      `SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid = ${table} AND contype = '${type}'`,
    );
  const indexes = await statement(
    address,
    `SELECT pg_get_indexdef(indexrelid) FROM pg_index WHERE indrelid = ${table} AND NOT indisprimary`,
  );
  const keys = await statement(
    address,
    `SELECT quote_ident(attname) FROM pg_index JOIN pg_attribute ON attrelid = indrelid AND attnum = ANY (indkey)
      WHERE indrelid = ${table} AND indisprimary`,
  );
  const [[options = null] = []] = await statement(
    address,
    `SELECT array_to_string(reloptions, ', ') FROM pg_class WHERE oid = ${table}`,
  );
  const inside = [...columns.map(([, defined]) => defined), ...(await constraints('c')).flat()];
  return {
    name,
    columns: columns.map(([column]) => String(column)),
    keys: keys.map(([key]) => String(key)),
    create: `CREATE TABLE ${name} (${inside.join(', ')})${options === null ? '' : ` WITH (${options})`}`,
    finish: [
      ...(await constraints('p')).map(([key]) => `ALTER TABLE ${name} ADD ${key}`),
      ...indexes.map(([index]) => String(index)),
    ],
  };
}

/** The number of rows and a sum over their values, as text. */
export async function rowsOf(address: string, { name, columns }: TableShape): Promise<string> {
  const row = `row(${columns.join(', ')})::text`;
  const [[content = null] = []] = await statement(
    address,
    `SELECT count(*) || ' rows, ' || coalesce(sum(hashtextextended(${row}, 0)), 0) FROM ${name}`,
  );
  return String(content);
}

/** @throws WrongResultError where they differ. */
export function compareRows(ours: string, theirs: string): void {
  if (ours !== theirs) throw new WrongResultError(`The table is ${ours} here and ${theirs} there.`);
}

/** Writes all rows of the table as CSV, or those that `where` chooses. */
export async function writeCsv(
  address: string,
  { name, columns }: TableShape,
  path: string,
  folder: string,
  where = '',
): Promise<void> {
  const list = columns.map((column) => `t.${column}`).join(', ');
  await runPsql(address, folder, [
    `\\copy (SELECT ${list} FROM ${name} AS t ${where}) TO '${path}' (FORMAT csv)`,
  ]);
}

/** Runs statements and commands of psql, one a line. */
export async function runPsql(address: string, folder: string, lines: readonly string[]): Promise<void> {
  await measurePsql(address, await psqlScript(folder, lines), folder);
}

/** Returns the path of a script with these lines. A command of psql has no semicolon. */
export async function psqlScript(folder: string, lines: readonly string[]): Promise<string> {
  const path = join(folder, 'script.sql');
  const text = lines.map((line) => (line.startsWith('\\') ? line : `${line};`).replaceAll(/\s*\n\s*/g, ' '));
  await writeFile(path, `${text.join('\n')}\n`);
  return path;
}
