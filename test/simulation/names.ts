/** Everything that the histories of a run are counted by; each has to occur. */

import { choices } from './settings.ts';
import type { Stage } from './stage.ts';
import { steps } from './steps/all.ts';

/** What steps are meant to bring about. */
const SEEN: readonly string[] = [
  'write job: snapshot, committed',
  'write job: changes, committed',
  'write job: changes, fell back to the snapshot',
  'write job: changes of several versions',
  'write job: changes that add columns',
  'write job: retirement, retired',
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
  'operator: resumes',
  'operator: approves',
  'operator: ends a pin',
  'rollback: done',
  'rollback: refused',
  'verify: equal',
  'verify: repaired',
  'operator: forgets a subscription',
  'operator: approves retirements',
  'followed by a daemon',
  'followed for an idle hour',
  'requests',
];

/** Those of a stage: a real one lacks what only a model can do. */
export function namesOf(stage: Stage['name']): readonly string[] {
  const own = steps.filter(({ onlyOn }) => onlyOn === undefined || onlyOn === stage);
  return [...own.map(({ name }) => name), ...choices, ...SEEN];
}
