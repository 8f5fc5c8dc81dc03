/** Every kind of step that a history can take. */

import type { Step } from '../step.ts';
import { contentSteps } from './content.ts';
import { eventSteps } from './events.ts';
import { machineSteps } from './machine.ts';
import { memberSteps } from './members.ts';
import { movingSteps } from './moving.ts';
import { pastSteps } from './past.ts';
import { publishSteps } from './publish.ts';
import { refusalSteps } from './refusals.ts';
import { schemaSteps } from './schema.ts';
import { serviceSteps } from './service.ts';
import { storeSteps } from './stores.ts';

export const steps: readonly Step[] = [
  ...publishSteps,
  ...schemaSteps,
  ...eventSteps,
  ...memberSteps,
  ...refusalSteps,
  ...serviceSteps,
  ...contentSteps,
  ...storeSteps,
  ...machineSteps,
  ...pastSteps,
  ...movingSteps,
];
