/**
 * Imported into the program before it starts (`--import`): prints a line to standard error for each time it has had the
 * mirror open for writing, from when to when, by the clock of the machine as it was when the process began.
 */

import process from 'node:process';
import type { DuckDBConnection as Connection } from '@duckdb/node-api';
import { duckDb } from './dist-duckdb.ts';

const { DuckDBConnection } = duckDb;
const { run } = DuckDBConnection.prototype;
let sinceMs: number | null = null;

DuckDBConnection.prototype.run = async function (this: Connection, sql, ...rest) {
  const isAttaching = sql.startsWith('ATTACH') && !sql.endsWith('(READ_ONLY)');
  const fromMs = nowMs();
  const result = await run.call(this, sql, ...rest);
  if (isAttaching) sinceMs = fromMs;
  if (sql.startsWith('DETACH') && sinceMs !== null) {
    process.stderr.write(`${JSON.stringify({ msg: 'write session', fromMs: sinceMs, toMs: nowMs() })}\n`);
    sinceMs = null;
  }
  return result;
};

function nowMs(): number {
  return performance.timeOrigin + performance.now();
}
