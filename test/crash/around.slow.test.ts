/** Everything beside the ordinary catch-up that no operator asks for, killed at every effect that lasts. */

import { describe } from 'vitest';
import { testScenarios } from './played.ts';
import { DOWNLOADS } from './scenarios/downloads.ts';
import { TROUBLE } from './scenarios/incidents.ts';
import { LEAVING } from './scenarios/leaving.ts';
import { OUTLET } from './scenarios/post-commit.ts';
import { STORES } from './scenarios/stores.ts';

describe('F01 F02: killed at every effect that lasts', () => {
  testScenarios(
    [...LEAVING, ...OUTLET, ...DOWNLOADS, ...STORES, ...TROUBLE],
    'test/crash/around.slow.test.ts',
  );
});
