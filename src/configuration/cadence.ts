/** When `run` polls: by an interval or by a schedule, of which a level has one. The stronger level replaces both. */

import type { Cadence } from './configuration.ts';
import type { Problem } from './problems.ts';
import { type Resolution, resolvedValue } from './resolve.ts';

const EVERY = 'poll.every';
const SCHEDULE = 'poll.schedule';

/** The strongest first; a source begins with the name of its level. */
const LEVELS = ['flag', 'environment', 'file'];

export function cadenceOf(resolution: Resolution): Cadence {
  const schedule = resolvedValue(resolution, SCHEDULE);
  if (schedule === null || levelOf(resolution, EVERY) < levelOf(resolution, SCHEDULE)) {
    return { kind: 'every', everyMs: resolvedValue(resolution, EVERY) };
  }
  return { kind: 'schedule', schedule };
}

/** Null where one of the two is given, or each by a level of its own. */
export function contradictionOfCadence(resolution: Resolution): Problem | null {
  const level = levelOf(resolution, EVERY);
  if (level === LEVELS.length || level !== levelOf(resolution, SCHEDULE)) return null;
  const sources = [EVERY, SCHEDULE].map((key) => resolution.sources.get(key as typeof EVERY)?.source);
  return { subject: EVERY, trouble: `and ${SCHEDULE} are both set; keep one`, source: sources.join(' and ') };
}

/** The place among the levels; behind them all where no level has it. */
function levelOf({ sources }: Resolution, key: typeof EVERY | typeof SCHEDULE): number {
  const [name = ''] = (sources.get(key)?.source ?? '').split(' ');
  const level = LEVELS.indexOf(name);
  return level === -1 ? LEVELS.length : level;
}
