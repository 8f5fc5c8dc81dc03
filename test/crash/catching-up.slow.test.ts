/** What a feed brings, killed at every effect that lasts. */

import { testScenarios } from './played.ts';
import { CATCHING_UP } from './scenarios/catching-up.ts';

testScenarios(CATCHING_UP, 'test/crash/catching-up.slow.test.ts');
