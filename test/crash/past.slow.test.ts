/** Gates, the past of tables and what operators ask of it, killed at every effect that lasts. */

import { describe } from 'vitest';
import { testScenarios } from './played.ts';
import { GATES } from './scenarios/gates.ts';
import { PAST } from './scenarios/past.ts';

describe('F01 F02 kills at every durable effect', () => {
  testScenarios([...GATES, ...PAST], 'test/crash/past.slow.test.ts');
});
