/**
 * Imported into the program before it starts (`--import`): the first statement that writes a table goes on for ever.
 * `STUCK=interruptible`: until it is interrupted; without, nothing ends it. From then on time goes thirty times faster, or as
 * many times as `STUCK_FASTER` says. Whatever has a limit within which it has to end, because it was interrupted or the
 * process was asked to end, has the time that it has anywhere; the next instance of DuckDB begins when that is over.
 */

import { createRequire, syncBuiltinESMExports } from 'node:module';
import process from 'node:process';
import type { DuckDBConnection as Connection } from '@duckdb/node-api';
import { duckDb } from './dist-duckdb.ts';

const { DuckDBConnection, DuckDBInstance } = duckDb;

const FASTER = Number(process.env['STUCK_FASTER'] ?? 30);
const IS_INTERRUPTIBLE = process.env['STUCK'] === 'interruptible';
const FOR_EVER = 'SELECT count(*) FROM range(1000000000000) AS one(i) WHERE hash(i) = 0';

const timers: typeof import('node:timers/promises') = createRequire(import.meta.url)('node:timers/promises');
const { setTimeout: delay } = timers;
timers.setTimeout = ((durationMs?: number, ...rest: []) =>
  delay((durationMs ?? 0) / pace, ...rest)) as typeof delay;
syncBuiltinESMExports();
const now = performance.now.bind(performance);
let pace = 1;
let shown = { atMs: now(), ms: now() };
performance.now = () => {
  const atMs = now();
  shown = { atMs, ms: shown.ms + (atMs - shown.atMs) * pace };
  return shown.ms;
};

function goOnAt(newPace: number): void {
  performance.now();
  pace = newPace;
}

const { run, interrupt } = DuckDBConnection.prototype;
let isStuck = false;
DuckDBConnection.prototype.run = function (this: Connection, sql, ...rest) {
  const isFirst = !isStuck && sql.includes('feed-sync: loading') && sql.trim().startsWith('CREATE TABLE');
  if (!isFirst) return run.call(this, sql, ...rest);
  isStuck = true;
  goOnAt(FASTER);
  process.stderr.write('{"msg":"stuck"}\n');
  return run.call(this, FOR_EVER, ...rest);
};
// It reads no rows either.
Object.defineProperty(DuckDBConnection.prototype, 'progress', { get: () => ({ rows_processed: 0n }) });
DuckDBConnection.prototype.interrupt = function (this: Connection) {
  if (!IS_INTERRUPTIBLE) return;
  goOnAt(1);
  interrupt.call(this);
};
process.prependListener('SIGTERM', () => goOnAt(Math.min(FASTER, 1)));
const { create } = DuckDBInstance;
DuckDBInstance.create = (...values) => {
  if (isStuck) goOnAt(FASTER);
  return create.apply(DuckDBInstance, values);
};
