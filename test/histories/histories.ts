/**
 * The histories of a run, shared out over test files so that they are played side by side. HISTORIES says how many, and
 * FIRST_SEED the seed of the first; the seeds of the others follow it.
 */

import { existsSync, statfsSync } from 'node:fs';
import process from 'node:process';
import { describe, it } from 'vitest';
import { SEED } from '../support/seed.ts';
import { names } from './names.ts';
import { runHistory } from './run-history.ts';
import { type Counts, Tally } from './tally.ts';

const SHARES = 2;
const DEFAULT_HISTORIES = 200;

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
  keepFilesInMemory();
  const count = Number(process.env['HISTORIES'] ?? DEFAULT_HISTORIES);
  const first = Number(process.env['FIRST_SEED'] ?? SEED);
  const all = Array.from({ length: count }, (_, index) => first + index);
  const seeds = all.filter((_, index) => index % SHARES === share - 1);
  describe(`random histories, share ${share} of ${SHARES}`, () => {
    if (seeds.length === 0) it.skip('has none of so few');
    it.for(seeds)('history %i', async (seed, { task }) => {
      const tally = new Tally();
      for (const name of names) tally.add(name, 0);
      try {
        await runHistory(seed, tally);
      } finally {
        task.meta.counts = tally.counts();
      }
    });
  });
}

/** Spares the waits for the disk. What a process that is killed has written is there in either case. */
function keepFilesInMemory(): void {
  const folder = '/dev/shm';
  if (!existsSync(folder)) return;
  const { bavail, bsize } = statfsSync(folder);
  if (bavail * bsize > ENOUGH_MEMORY_BYTES) process.env['TMPDIR'] = folder;
}
