/** Computes when the subscriptions are polled next. Pure: the loop sleeps until then, and nothing else decides. */

import { Cron } from 'croner';
import type { Cadence } from '../configuration/configuration.ts';
import { type Backoff, type Random, steadyDelayMs } from '../lib/backoff.ts';

/** The share of the interval by which a poll comes sooner or later, so that installations spread over the time. */
const JITTER = 0.1;
/** A schedule without a known next time is read again after this. */
const LONGEST_WAIT_MS = 86_400_000;

/** Returns the next poll of a subscription that is read now. A schedule is read in the time zone of the process. */
export function nextPoll(cadence: Cadence, now: ClockReading, random: Random): DueTime {
  switch (cadence.kind) {
    case 'every':
      return dueAfter(Math.round(cadence.everyMs * (1 + (random.next() * 2 - 1) * JITTER)), now);
    case 'schedule':
      return new ScheduledPoll(new Schedule(cadence.schedule), now);
  }
}

/**
 * The next time of a schedule, by the wall clock. It is due as soon as that clock has passed it, also where the machine
 * was suspended or the clock was set forward, however many scheduled times lie in between.
 *
 * Where the clock was set back before the last poll, times recur that were polled for already. Such a time counts again
 * only where the last poll is at least half a schedule gap ago. So polls do not stop until the clock has caught up, and
 * no poll comes twice for one time.
 */
class ScheduledPoll implements DueTime {
  readonly #schedule: Schedule;
  readonly #polled: ClockReading;
  /** `#next` is the first counting time after this. */
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

  /** Returns the time between the last scheduled time, at `time` or before, and the next; 0 where there is none before. */
  gapMs(time: Date): number {
    const [last] = this.#cron.previousRuns(1, new Date(time.getTime() + 1));
    return last === undefined ? 0 : this.after(last).getTime() - last.getTime();
  }
}

/** Readings of both clocks at the same time. */
export interface ClockReading {
  readonly wall: Date;
  readonly monotonicMs: number;
}

export interface DueTime {
  /** Returns the time on the monotonic clock, by the current readings; due once this is not later than now. */
  dueMs(now: ClockReading): number;
}

export const AT_ONCE: DueTime = { dueMs: ({ monotonicMs }) => monotonicMs };

/** Returns a time that is due once either clock has advanced by `waitMs`. */
export function dueAfter(waitMs: number, since: ClockReading): DueTime {
  const byMonotonicMs = since.monotonicMs + waitMs;
  const byWall = new Date(since.wall.getTime() + waitMs);
  return { dueMs: (now) => Math.min(byMonotonicMs, monotonicMsAt(byWall, now)) };
}

/** Returns when the wall clock will show this time, on the monotonic clock; now, where the time has passed. */
function monotonicMsAt(wall: Date, now: ClockReading): number {
  return now.monotonicMs + Math.max(0, wall.getTime() - now.wall.getTime());
}

/** Retries of a subscription or of the list of subscriptions: soon, because everything else waits for them. */
export const ASKING_AGAIN: Backoff = { baseDelayMs: 5_000, maxDelayMs: 5 * 60_000 };
/** Retries of a dataset that waits for the service, for example for a manifest that lags, and of post-commit work. */
export const WAITING_AGAIN: Backoff = { baseDelayMs: 10_000, maxDelayMs: 15 * 60_000 };
/** Retries after incidents of the run as a whole: the disk, the checkpoint, a mirror that a reader has locked. */
export const WORKING_AGAIN: Backoff = { baseDelayMs: 5_000, maxDelayMs: 2 * 60_000 };

/** The time at which one task may be retried. */
export class RetryClock {
  readonly #backoff: Backoff;
  readonly #random: Random;
  #attempts = 0;
  #dueMs = 0;

  constructor(backoff: Backoff, random: Random) {
    this.#backoff = backoff;
    this.#random = random;
  }

  /** Failed attempts since the last successful one. */
  get attempts(): number {
    return this.#attempts;
  }

  /** The time of the next attempt, on the monotonic clock; in the past where nothing failed. */
  get dueMs(): number {
    return this.#dueMs;
  }

  failed(nowMs: number): void {
    this.#attempts += 1;
    this.#dueMs = nowMs + steadyDelayMs(this.#backoff, this.#attempts, this.#random);
  }

  succeeded(): void {
    this.#attempts = 0;
    this.#dueMs = 0;
  }
}
