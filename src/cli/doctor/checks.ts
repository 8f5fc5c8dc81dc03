/** The checks, from what is nearest to what is farthest: later ones use what earlier ones found out. */

import type { Check } from './check.ts';
import { checkpointCheck } from './checkpoint.ts';
import { clockCheck } from './clock.ts';
import { configurationCheck } from './configuration.ts';
import { connectionCheck } from './connection.ts';
import { contractCheck } from './contract.ts';
import { diskCheck } from './disk.ts';
import { keyCheck } from './key.ts';
import { locksCheck } from './locks.ts';
import { mirrorCheck } from './mirror.ts';
import { scopesCheck } from './scopes.ts';
import { subscriptionsCheck } from './subscriptions.ts';
import { versionsCheck } from './versions.ts';

export const CHECKS: readonly Check[] = [
  versionsCheck,
  configurationCheck,
  diskCheck,
  locksCheck,
  checkpointCheck,
  mirrorCheck,
  connectionCheck,
  clockCheck,
  keyCheck,
  contractCheck,
  scopesCheck,
  subscriptionsCheck,
];
