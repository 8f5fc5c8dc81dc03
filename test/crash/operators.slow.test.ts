/** What operators ask for, and the webhooks that they register, killed at every effect that lasts. */

import { describe } from 'vitest';
import { testScenarios } from './played.ts';
import { OPERATORS } from './scenarios/operators.ts';
import { WEBHOOK } from './scenarios/webhook.ts';

describe('F01 F02 kills at every durable effect', () => {
  testScenarios([...WEBHOOK, ...OPERATORS], 'test/crash/operators.slow.test.ts');
});
