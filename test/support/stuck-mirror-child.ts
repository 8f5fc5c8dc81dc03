/**
 * Imported into the program before it starts (`--import`): time goes a hundred times faster (`STUCK_FASTER=1`: as it does),
 * and the first statement that writes a table goes on for ever. `STUCK=interruptible`: until it is interrupted; without, nothing ends it.
 */

import { createRequire, syncBuiltinESMExports } from 'node:module';
import process from 'node:process';
import { DuckDBConnection } from '@duckdb/node-api';

const FASTER = Number(process.env['STUCK_FASTER'] ?? 100);
const FOR_EVER = 'SELECT count(*) FROM range(1000000000000) AS one(i) WHERE hash(i) = 0';

const timers: typeof import('node:timers/promises') = createRequire(import.meta.url)('node:timers/promises');
const { setTimeout: delay } = timers;
timers.setTimeout = ((durationMs?: number, ...rest: []) =>
  delay((durationMs ?? 0) / FASTER, ...rest)) as typeof delay;
syncBuiltinESMExports();
const now = performance.now.bind(performance);
performance.now = () => now() * FASTER;

const { run } = DuckDBConnection.prototype;
let isStuck = false;
DuckDBConnection.prototype.run = function (this: DuckDBConnection, sql, ...rest) {
  const isFirst = !isStuck && sql.includes('feed-sync: loading') && sql.trim().startsWith('CREATE TABLE');
  if (!isFirst) return run.call(this, sql, ...rest);
  isStuck = true;
  process.stderr.write('{"msg":"stuck"}\n');
  return run.call(this, FOR_EVER, ...rest);
};
// It reads no rows either.
Object.defineProperty(DuckDBConnection.prototype, 'progress', { get: () => ({ rows_processed: 0n }) });
if (process.env['STUCK'] !== 'interruptible') DuckDBConnection.prototype.interrupt = () => {};
