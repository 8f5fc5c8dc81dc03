/** Mirrors written and changed by hand, with DuckDB alone. */

import { copyFileSync, rmSync } from 'node:fs';
import { DuckDBInstance } from '@duckdb/node-api';

/** Runs the statements on the file, one after another, and lets go of it. */
export async function writeMirror(path: string, ...statements: readonly string[]): Promise<void> {
  const instance = await DuckDBInstance.create(path);
  const connection = await instance.connect();
  try {
    await connection.run(`SET TimeZone = 'UTC'`);
    for (const statement of statements) await connection.run(statement);
    await connection.run('CHECKPOINT');
  } finally {
    connection.closeSync();
    instance.closeSync();
  }
}

/** Does so on a copy at `path`. */
export async function writeChangedCopy(
  original: string,
  path: string,
  ...statements: readonly string[]
): Promise<void> {
  rmSync(path, { force: true });
  copyFileSync(original, path);
  await writeMirror(path, ...statements);
}
