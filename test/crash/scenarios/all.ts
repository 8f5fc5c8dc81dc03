/** Every scenario, by name. */

import type { Scenario } from '../scenario.ts';
import { CATCHING_UP } from './catching-up.ts';
import { DOWNLOADS } from './downloads.ts';
import { LEAVING } from './leaving.ts';
import { OUTLET } from './outlet.ts';
import { PEOPLE } from './people.ts';
import { STORES } from './stores.ts';
import { TROUBLE } from './trouble.ts';
import { WEBHOOK } from './webhook.ts';

export const SCENARIOS: readonly Scenario[] = [
  ...CATCHING_UP,
  ...LEAVING,
  ...OUTLET,
  ...DOWNLOADS,
  ...STORES,
  ...TROUBLE,
  ...WEBHOOK,
  ...PEOPLE,
];
