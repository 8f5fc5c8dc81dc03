import { defineConfig } from 'vitest/config';
import { TallyReporter } from './test/simulation/tally-reporter.ts';
import { RepeatReporter } from './test/support/repeat-reporter.ts';

/** Every test is deterministic and waits on events, so a time-out means a hang and may be generous. */
const FAST_TIMEOUT_MS = 60_000;
const SLOW_TIMEOUT_MS = 20 * 60_000;

export default defineConfig({
  test: {
    // Most tests wait for processes and files, so a core that is not used by a test file is wasted.
    maxWorkers: '100%',
    reporters: ['default', new TallyReporter(), new RepeatReporter()],
    projects: [
      {
        test: {
          name: 'fast',
          include: ['test/**/*.test.ts'],
          exclude: ['test/**/*.slow.test.ts'],
          testTimeout: FAST_TIMEOUT_MS,
          hookTimeout: FAST_TIMEOUT_MS,
        },
      },
      {
        test: {
          name: 'slow',
          include: ['test/**/*.slow.test.ts'],
          testTimeout: SLOW_TIMEOUT_MS,
          hookTimeout: SLOW_TIMEOUT_MS,
        },
      },
    ],
  },
});
