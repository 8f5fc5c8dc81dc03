/**
 * Histories on the real stage, shared out over test files so that they are played side by side. HISTORIES says how many,
 * and FIRST_SEED the seed of the first; the seeds of the others follow it.
 */

import process from 'node:process';
import { describe, it } from 'vitest';
import { memoryFolder } from '../../support/memory-folder.ts';
import { SEED } from '../../support/seed.ts';
import { Counters, type Counts } from '../counters.ts';
import { namesOf } from '../names.ts';
import { type Play, playHistory } from '../play.ts';
import { realStage } from './real-stage.ts';

const SHARES = 2;
const DEFAULT_HISTORIES = 200;

const REAL: Play = {
  extent: {
    fewestSteps: 10,
    mostSteps: 11,
    fewestFaults: 0,
    shareOfCatchUps: 0.15,
    shareOfCalm: 0.02,
    rowsPerDataset: 12,
  },
  makeStage: realStage,
  commandFor: (seed) =>
    `HISTORIES=1 FIRST_SEED=${seed} npx vitest run --project slow test/simulation/real/share-1.slow.test.ts`,
};

declare module 'vitest' {
  interface TaskMeta {
    /** What a history was counted by; the reporter sums it up. */
    counts?: Counts;
  }
}

/** What of it is free, at least, where the files of histories are to lie in memory. */
const ENOUGH_MEMORY_BYTES = 2e9;

/** Defines the tests of one share, counted from 1. */
export function playShare(share: number): void {
  // Spares the waits for the disk.
  process.env['TMPDIR'] = memoryFolder(ENOUGH_MEMORY_BYTES);
  const count = Number(process.env['HISTORIES'] ?? DEFAULT_HISTORIES);
  const first = Number(process.env['FIRST_SEED'] ?? SEED);
  const all = Array.from({ length: count }, (_, index) => first + index);
  const seeds = all.filter((_, index) => index % SHARES === share - 1);
  describe(`random histories, share ${share} of ${SHARES}`, () => {
    if (seeds.length === 0) it.skip('has none of so few');
    it.for(seeds)('history %i', async (seed, { task }) => {
      const counters = new Counters();
      for (const name of namesOf('real')) counters.add(name, 0);
      try {
        await playHistory(seed, counters, REAL);
      } finally {
        task.meta.counts = counters.counts();
      }
    });
  });
}
