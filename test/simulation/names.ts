/** Everything that the histories of a run are counted by; each has to occur. */

import { choices } from './settings.ts';
import type { Stage } from './stage.ts';
import { steps } from './steps/all.ts';

/** What steps are meant to bring about. */
const SEEN: readonly string[] = [
  'unit: snapshot, committed',
  'unit: changes, committed',
  'unit: changes, given up for a snapshot',
  'unit: changes of several versions',
  'unit: changes that add columns',
  'unit: retirement, retired',
  'result: updated',
  'result: current',
  'result: retired',
  'result: waiting',
  'result: suspended',
  'result: failed',
  'seen: 410 on a log',
  'seen: a lower version',
  'seen: a manifest that lags, and says how far it goes',
  'seen: a manifest that lags, and does not',
  'seen: the process was killed',
  'person: resumes',
  'person: approves',
  'person: ends a pin',
  'rollback: done',
  'rollback: refused',
  'verify: equal',
  'verify: repaired',
  'person: forgets a subscription',
  'person: agrees to retirements',
  'followed by a daemon',
  'followed for an idle hour',
  'requests',
];

/** Those of a stage: a real one lacks what only a model can do. */
export function namesOf(stage: Stage['name']): readonly string[] {
  const own = steps.filter(({ onlyOn }) => onlyOn === undefined || onlyOn === stage);
  return [...own.map(({ name }) => name), ...choices, ...SEEN];
}
