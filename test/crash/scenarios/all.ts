/** Every scenario, by name. */

import type { Scenario } from '../scenario.ts';
import { CATCHING_UP } from './catching-up.ts';
import { DOWNLOADS } from './downloads.ts';
import { GATES } from './gates.ts';
import { TROUBLE } from './incidents.ts';
import { LEAVING } from './leaving.ts';
import { PAST } from './past.ts';
import { PEOPLE } from './people.ts';
import { OUTLET } from './post-commit.ts';
import { STORES } from './stores.ts';
import { WEBHOOK } from './webhook.ts';

export const SCENARIOS: readonly Scenario[] = [
  ...CATCHING_UP,
  ...LEAVING,
  ...OUTLET,
  ...DOWNLOADS,
  ...STORES,
  ...TROUBLE,
  ...WEBHOOK,
  ...GATES,
  ...PAST,
  ...PEOPLE,
];
