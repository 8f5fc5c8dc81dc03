/**
 * Histories on the real stage, shared out over test files so that they are played side by side. HISTORIES says how many,
 * POSTGRES_HISTORIES how many of those whose mirror is a database, and FIRST_SEED the seed of the first; the seeds of the others follow it.
 */

import process from 'node:process';
import { afterAll, beforeAll, describe, it, type TaskMeta } from 'vitest';
import { EMBEDDED, type PostgresServer, startPostgres } from '../../../fixtures/postgres-server.ts';
import { present } from '../../../src/lib/assert.ts';
import { memoryFolder } from '../../support/memory-folder.ts';
import { SEED } from '../../support/seed.ts';
import { Counters, type Counts } from '../counters.ts';
import { namesOf } from '../names.ts';
import { type Play, playHistory } from '../play.ts';
import type { Extent } from '../settings.ts';
import { inDatabase } from './database-destination.ts';
import { inFile } from './file-destination.ts';
import { realStage } from './real-stage.ts';

const SHARES = 2;
const DEFAULT_HISTORIES = 200;
/** Each takes longer: the databases are made, copied and removed. */
const DEFAULT_IN_DATABASE = 6;

const EXTENT: Extent = {
  fewestSteps: 10,
  mostSteps: 11,
  fewestFaults: 0,
  shareOfCatchUps: 0.15,
  shareOfCalm: 0.02,
  rowsPerDataset: 12,
};

const IN_FILE: Play = {
  extent: EXTENT,
  makeStage: realStage(inFile),
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
  keepFilesInMemory();
  const seeds = seedsOf(process.env['HISTORIES'] ?? DEFAULT_HISTORIES);
  const own = seeds.filter((_, index) => index % SHARES === share - 1);
  describe(`random histories, share ${share} of ${SHARES}`, () => {
    if (own.length === 0) it.skip('plays no history of so few');
    it.for(own)('keeps every rule in history %i', async (seed, { task }) => {
      await playCounted(seed, IN_FILE, task.meta);
    });
  });
}

/** Defines the tests of histories whose mirror is a database, each a database of its own on one server. */
export function playInDatabase(): void {
  keepFilesInMemory();
  if (EMBEDDED.folder === null) process.stderr.write('SKIPPED: npm has installed no PostgreSQL.\n');
  let server: PostgresServer | null = null;
  const play: Play = {
    extent: EXTENT,
    makeStage: (seed, settings) =>
      realStage(inDatabase(present(server, 'the server was started')))(seed, settings),
    commandFor: (seed) =>
      `POSTGRES_HISTORIES=1 FIRST_SEED=${seed} npx vitest run --project slow test/simulation/real/postgres.slow.test.ts`,
  };
  describe.skipIf(EMBEDDED.folder === null)('random histories in PostgreSQL', () => {
    beforeAll(async () => {
      server = await startPostgres(EMBEDDED);
    });
    afterAll(async () => {
      await server?.stop();
    });
    const seeds = seedsOf(process.env['POSTGRES_HISTORIES'] ?? DEFAULT_IN_DATABASE);
    it.for(seeds)('keeps every rule in history %i', async (seed, { task }) => {
      await playCounted(seed, play, task.meta);
    });
  });
}

async function playCounted(seed: number, play: Play, meta: TaskMeta): Promise<void> {
  const counters = new Counters();
  for (const name of namesOf('real')) counters.add(name, 0);
  try {
    await playHistory(seed, counters, play);
  } finally {
    meta.counts = counters.counts();
  }
}

function seedsOf(count: number | string): readonly number[] {
  const first = Number(process.env['FIRST_SEED'] ?? SEED);
  return Array.from({ length: Number(count) }, (_, index) => first + index);
}

/** Spares the waits for the disk. */
function keepFilesInMemory(): void {
  process.env['TMPDIR'] = memoryFolder(ENOUGH_MEMORY_BYTES);
}
