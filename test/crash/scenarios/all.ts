/** Every scenario, by name. */

import type { Scenario } from '../scenario.ts';
import { CATCHING_UP } from './catching-up.ts';
import { DOWNLOADS } from './downloads.ts';
import { GATES } from './gates.ts';
import { INCIDENTS } from './incidents.ts';
import { LEAVING } from './leaving.ts';
import { OPERATORS } from './operators.ts';
import { PAST } from './past.ts';
import { POST_COMMIT } from './post-commit.ts';
import { STORES } from './stores.ts';
import { WEBHOOK } from './webhook.ts';

export const SCENARIOS: readonly Scenario[] = [
  ...CATCHING_UP,
  ...LEAVING,
  ...POST_COMMIT,
  ...DOWNLOADS,
  ...STORES,
  ...INCIDENTS,
  ...WEBHOOK,
  ...GATES,
  ...PAST,
  ...OPERATORS,
];
