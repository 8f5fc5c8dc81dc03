import { availableParallelism } from 'node:os';
import { defineConfig } from 'vitest/config';
import { CountsReporter } from './test/simulation/counts-reporter.ts';
import { LongestFirst } from './test/support/longest-first.ts';
import { memoryFolder } from './test/support/memory-folder.ts';
import { RepeatReporter } from './test/support/repeat-reporter.ts';

/** Every test is deterministic and waits on events, so a time-out means a hang: more than PATIENCE_MS of patience.ts. */
const FAST_TIMEOUT_MS = 10 * 60_000;
const SLOW_TIMEOUT_MS = 30 * 60_000;

const FAST = 'test/**/*.test.ts';
const SLOW = 'test/**/*.slow.test.ts';

/** Files that take much memory, or measure: one at a time, when all others have ended. */
const ALONE = [
  'test/contract/once-memory.slow.test.ts',
  'test/contract/run-reader.slow.test.ts',
  'test/security/bombs.slow.test.ts',
  'test/security/parquet-bombs.slow.test.ts',
  'test/unit/duckdb-load-large.slow.test.ts',
  'test/unit/duckdb-parquet-bombs.slow.test.ts',
  'test/unit/duckdb-write-sessions.slow.test.ts',
];

/** Slow files wait for processes, leases and the disk: one more of them than there are cores uses what they leave. */
const SLOW_WORKERS = availableParallelism() + 1;

/** Files that change their own process for the others: what answers requests, its environment, its mask for new files. */
const ISOLATED = [
  'test/unit/feed-discovery.test.ts',
  'test/unit/feed-errors.test.ts',
  'test/unit/feed-lists.test.ts',
  'test/unit/feed-outage.test.ts',
  'test/unit/feed-service-time.test.ts',
  'test/unit/operator-errors.test.ts',
  'test/unit/files.test.ts',
  'test/unit/hook.test.ts',
];

/** Tests of the disk are among the slow ones: the others need not wait for it. */
const FAST_FOLDER = { TMPDIR: process.env['TMPDIR'] ?? memoryFolder(2e9) };

const limits = (timeoutMs: number) => ({ testTimeout: timeoutMs, hookTimeout: timeoutMs });

export default defineConfig({
  test: {
    // Most tests wait for processes and files, so a core that is not used by a test file is wasted.
    maxWorkers: '100%',
    teardownTimeout: FAST_TIMEOUT_MS,
    sequence: { sequencer: LongestFirst },
    reporters: ['default', new CountsReporter(), new RepeatReporter()],
    projects: [
      {
        test: {
          name: 'fast',
          include: [FAST],
          exclude: [SLOW, ...ISOLATED],
          // Loading the program anew for each file takes a seventh of the time.
          isolate: false,
          env: FAST_FOLDER,
          ...limits(FAST_TIMEOUT_MS),
        },
      },
      {
        test: { name: 'fast-isolated', include: ISOLATED, env: FAST_FOLDER, ...limits(FAST_TIMEOUT_MS) },
      },
      {
        test: {
          name: 'slow',
          include: [SLOW],
          exclude: ALONE,
          maxWorkers: SLOW_WORKERS,
          sequence: { groupOrder: 1 },
          ...limits(SLOW_TIMEOUT_MS),
        },
      },
      {
        test: {
          name: 'slow-alone',
          include: ALONE,
          maxWorkers: 1,
          sequence: { groupOrder: 2 },
          ...limits(SLOW_TIMEOUT_MS),
        },
      },
    ],
  },
});
