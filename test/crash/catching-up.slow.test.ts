/** What a feed brings, killed at every effect that lasts. */

import { describe } from 'vitest';
import { testScenarios } from './played.ts';
import { CATCHING_UP } from './scenarios/catching-up.ts';

describe('F01 F02 kills at every durable effect', () => {
  testScenarios(CATCHING_UP, 'test/crash/catching-up.slow.test.ts');
});
