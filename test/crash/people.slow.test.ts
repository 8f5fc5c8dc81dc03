/** What operators ask for, and the webhooks that they register, killed at every effect that lasts. */

import { describe } from 'vitest';
import { testScenarios } from './played.ts';
import { PEOPLE } from './scenarios/people.ts';
import { WEBHOOK } from './scenarios/webhook.ts';

describe('F01 F02: killed at every effect that lasts', () => {
  testScenarios([...WEBHOOK, ...PEOPLE], 'test/crash/people.slow.test.ts');
});
