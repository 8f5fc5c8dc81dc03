/** When the subscriptions are polled next. Pure: the loop sleeps until then, and nobody else decides. */

import { Cron } from 'croner';
import type { Cadence } from '../configuration/configuration.ts';
import type { Random } from '../lib/backoff.ts';

/** By how much of the interval a poll comes sooner or later, so that installations spread over the time. */
const JITTER = 0.1;
/** A schedule that knows no next time is looked at again after this. */
const LONGEST_WAIT_MS = 86_400_000;

/** When a subscription is polled next that was read now. A schedule is read in the time zone of the process. */
export function nextPoll(cadence: Cadence, now: ClockReading, random: Random): DueTime {
  switch (cadence.kind) {
    case 'every':
      return dueAfter(Math.round(cadence.everyMs * (1 + (random.next() * 2 - 1) * JITTER)), now);
    case 'schedule':
      return new ScheduledPoll(new Schedule(cadence.schedule), now);
  }
}

/**
 * The next time of a schedule, by the wall clock: it is due as soon as that clock has passed it, also where the machine
 * was suspended meanwhile or the clock was set forward, however many times of the schedule lie in between.
 *
 * Where the clock was set back before the last poll, times come again that were polled for. Such a time counts once more
 * only where the last poll is at least half as long ago as the times of the schedule lie apart: so polls neither stop for
 * as long as the clock was set back, nor does one come twice for one time.
 */
class ScheduledPoll implements DueTime {
  readonly #schedule: Schedule;
  readonly #polled: ClockReading;
  /** `#next` is the first time after this that counts. */
  #from: Date;
  #next: Date;

  constructor(schedule: Schedule, polled: ClockReading) {
    this.#schedule = schedule;
    this.#polled = polled;
    this.#from = polled.wall;
    this.#next = schedule.after(polled.wall);
  }

  dueMs(now: ClockReading): number {
    if (now.wall < this.#from) {
      this.#from = now.wall;
      this.#next = this.#nextAfterSetBack(now);
    }
    return monotonicMsAt(this.#next, now);
  }

  #nextAfterSetBack(now: ClockReading): Date {
    const leastMs = this.#schedule.gapMs(this.#polled.wall) / 2;
    const sincePollMs = (next: Date): number => monotonicMsAt(next, now) - this.#polled.monotonicMs;
    let next = this.#schedule.after(now.wall);
    while (next <= this.#polled.wall && sincePollMs(next) < leastMs) next = this.#schedule.after(next);
    return next;
  }
}

class Schedule {
  readonly #cron: Cron;

  constructor(schedule: string) {
    this.#cron = new Cron(schedule, { paused: true });
  }

  after(time: Date): Date {
    return this.#cron.nextRun(time) ?? new Date(time.getTime() + LONGEST_WAIT_MS);
  }

  /** From the last time of the schedule, at `time` or before, to the next; 0 where there is none before. */
  gapMs(time: Date): number {
    const [last] = this.#cron.previousRuns(1, new Date(time.getTime() + 1));
    return last === undefined ? 0 : this.after(last).getTime() - last.getTime();
  }
}

/** Both clocks, read at once. */
export interface ClockReading {
  readonly wall: Date;
  readonly monotonicMs: number;
}

export interface DueTime {
  /** On the monotonic clock, as far as the two clocks tell now; it is due once this is not later than now. */
  dueMs(now: ClockReading): number;
}

export const AT_ONCE: DueTime = { dueMs: ({ monotonicMs }) => monotonicMs };

/** Due once either clock has gone on by `waitMs`. */
export function dueAfter(waitMs: number, since: ClockReading): DueTime {
  const byMonotonicMs = since.monotonicMs + waitMs;
  const byWall = new Date(since.wall.getTime() + waitMs);
  return { dueMs: (now) => Math.min(byMonotonicMs, monotonicMsAt(byWall, now)) };
}

/** When the wall clock will show this, on the monotonic clock; now, where it is later already. */
function monotonicMsAt(wall: Date, now: ClockReading): number {
  return now.monotonicMs + Math.max(0, wall.getTime() - now.wall.getTime());
}

export interface RetryLimits {
  readonly firstMs: number;
  readonly longestMs: number;
}

/** A subscription, the list of subscriptions: soon again, because everything else waits for what they say. */
export const ASKING_AGAIN: RetryLimits = { firstMs: 5_000, longestMs: 5 * 60_000 };
/** A dataset that waits for the service to get further, such as for a manifest that lags. */
export const LOOKING_AGAIN: RetryLimits = { firstMs: 10_000, longestMs: 15 * 60_000 };
/** The disk, the mirror that a reader holds, the checkpoint: trouble of the run as a whole. */
export const WORKING_AGAIN: RetryLimits = { firstMs: 5_000, longestMs: 2 * 60_000 };

/** The wait before attempt number `attempt` + 1, after `attempt` ones in vain: at least half of what it may grow to. */
export function retryWaitMs({ firstMs, longestMs }: RetryLimits, attempt: number, random: Random): number {
  const ceilingMs = Math.min(longestMs, firstMs * 2 ** Math.max(0, attempt - 1));
  return Math.round(ceilingMs * (0.5 + random.next() / 2));
}

/** The clock of one thing. */
export class RetryClock {
  readonly #limits: RetryLimits;
  readonly #random: Random;
  #attempts = 0;
  #dueMs = 0;

  constructor(limits: RetryLimits, random: Random) {
    this.#limits = limits;
    this.#random = random;
  }

  /** Attempts in vain since the last good one. */
  get attempts(): number {
    return this.#attempts;
  }

  /** When it may be tried again, on the monotonic clock; in the past where nothing went wrong. */
  get dueMs(): number {
    return this.#dueMs;
  }

  failed(nowMs: number): void {
    this.#attempts += 1;
    this.#dueMs = nowMs + retryWaitMs(this.#limits, this.#attempts, this.#random);
  }

  succeeded(): void {
    this.#attempts = 0;
    this.#dueMs = 0;
  }
}
