/** When the subscriptions are polled next. Pure: the loop sleeps until then, and nobody else decides. */

import { Cron } from 'croner';
import type { Cadence } from '../configuration/configuration.ts';
import type { Random } from '../lib/random.ts';

/** By how much of the interval a poll comes sooner or later, so that installations spread over the time. */
const JITTER = 0.1;
/** A schedule that knows no next time is looked at again after this. */
const LONGEST_WAIT_MS = 86_400_000;

/** Milliseconds from now until the next poll. A schedule is read in the time zone of the process. */
export function untilNextPollMs(cadence: Cadence, now: Date, random: Random): number {
  switch (cadence.kind) {
    case 'every':
      return Math.round(cadence.everyMs * (1 + (random.next() * 2 - 1) * JITTER));
    case 'schedule': {
      const next = new Cron(cadence.schedule, { paused: true }).nextRun(now);
      return next === null ? LONGEST_WAIT_MS : Math.max(1, next.getTime() - now.getTime());
    }
  }
}
