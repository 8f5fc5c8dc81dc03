/**
 * `npm run fuzz -- --seed N --minutes M`: damaged bytes for everything that reads the bytes of others. Ends with 1 where an error is
 * none of the program's, where a case hangs, or where memory grows.
 */

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import process from 'node:process';
import { parseArgs } from 'node:util';
import { Worker } from 'node:worker_threads';
import { LONGEST_CASE_MS, play } from './fuzz.ts';
import { corpus, openFuzzEngine, targets } from './targets.ts';

/** What DuckDB and V8 may keep more than they had after the first quarter of the time. */
const MOST_GROWTH_BYTES = 300e6;

const { values } = parseArgs({
  options: {
    seed: { type: 'string', default: '1' },
    minutes: { type: 'string', default: '10' },
    case: { type: 'string' },
  },
});
const seed = Number(values.seed);
const lastMs = performance.now() + Number(values.minutes) * 60_000;
const warmMs = performance.now() + Number(values.minutes) * 15_000;
const folder = mkdtempSync(join(tmpdir(), 'feed-sync-fuzz-'));
const engine = await openFuzzEngine(folder);
const examples = corpus();
const all = targets(engine, folder);

/** Ends the process when no case has ended for long: a loop that hangs cannot notice it by itself. */
const progress = new Int32Array(new SharedArrayBuffer(4));
const WATCH = `
const { workerData } = require('node:worker_threads');
let before = -1;
setInterval(() => {
  const now = Atomics.load(workerData.progress, 0);
  if (now === before) {
    require('node:fs').writeSync(2, 'case ' + now + ' of seed ' + workerData.seed + ' hangs\\n');
    process.kill(process.pid, 'SIGKILL');
  }
  before = now;
}, workerData.everyMs);
`;
new Worker(WATCH, { eval: true, workerData: { progress, seed, everyMs: 3 * LONGEST_CASE_MS } }).unref();

const counts = new Map<string, number>();
let failed = 0;
let warmBytes = 0;
let number = Number(values.case ?? 0);
for (; performance.now() < lastMs; number += 1) {
  Atomics.store(progress, 0, number);
  // DuckDB may take the process with it: then this file names the case.
  if (number % 16 === 0) writeFileSync(join(folder, 'case'), `${number}`);
  try {
    const { target, kind, why } = await play(seed, number, all, examples);
    const key = `${target} ${kind}${why === null ? '' : ` ${why}`}`;
    counts.set(key, (counts.get(key) ?? 0) + 1);
  } catch (error) {
    failed += 1;
    process.stderr.write(
      `${String(error)}\n${error instanceof Error ? String((error.cause as Error)?.stack) : ''}\n`,
    );
    if (failed >= 20) break;
  }
  if (warmBytes === 0 && performance.now() > warmMs) warmBytes = process.memoryUsage().rss;
  if (values.case !== undefined) break;
}
const grownBytes = warmBytes === 0 ? 0 : process.memoryUsage().rss - warmBytes;
for (const [key, count] of [...counts].toSorted())
  process.stdout.write(`${String(count).padStart(9)}  ${key}\n`);
process.stdout.write(
  `${number} cases of seed ${seed}; ${failed} failed; memory grew by ${Math.round(grownBytes / 1e6)} MB after a quarter of the time.\n`,
);
engine.close();
rmSync(folder, { recursive: true });
process.exitCode = failed > 0 || grownBytes > MOST_GROWTH_BYTES ? 1 : 0;
