/** Everything beside the ordinary catch-up that no operator asks for, killed at every effect that lasts. */

import { describe } from 'vitest';
import { testScenarios } from './played.ts';
import { DOWNLOADS } from './scenarios/downloads.ts';
import { INCIDENTS } from './scenarios/incidents.ts';
import { LEAVING } from './scenarios/leaving.ts';
import { POST_COMMIT } from './scenarios/post-commit.ts';
import { STORES } from './scenarios/stores.ts';

describe('F01 F02 kills at every durable effect', () => {
  testScenarios(
    [...LEAVING, ...POST_COMMIT, ...DOWNLOADS, ...STORES, ...INCIDENTS],
    'test/crash/around.slow.test.ts',
  );
});
