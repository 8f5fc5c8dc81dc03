import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vitest/config';

/** Tests of pure decisions: they are asked for each mutant, so they have to be quick. */
export default defineConfig({
  root: fileURLToPath(new URL('../..', import.meta.url)),
  test: {
    include: [
      'test/unit/plan*.test.ts',
      'test/unit/version-chain.test.ts',
      'test/unit/retirement.test.ts',
      'test/unit/content*.test.ts',
      'test/unit/sync-rules.test.ts',
      'test/unit/candidates.test.ts',
      'test/unit/feed-wire*.test.ts',
      'test/unit/changes-{ahead,coalesce,digest,geometry,proof,split,values}.test.ts',
      'test/properties/{event-numbers,service-texts,wire-decoding,written-values,change-values}.test.ts',
    ],
    testTimeout: 60_000,
  },
});
