/** Time as the program sees it, passed in wherever it is needed, so that tests own it. */

import { setTimeout as delay } from 'node:timers/promises';

export interface Clock {
  /** The wall clock. For what is written down and shown; never for waiting, because it can jump. */
  now(): Date;
  /** Milliseconds on a clock that only goes forward. For deadlines and durations. */
  monotonicMs(): number;
  /** Resolves after `durationMs`; rejects with the signal's reason as soon as it is aborted. */
  sleep(durationMs: number, signal?: AbortSignal): Promise<void>;
}

/** A longer timer of Node's fires at once. */
const LONGEST_TIMER_MS = 2 ** 31 - 1;

export const systemClock: Clock = {
  now: () => new Date(),
  monotonicMs: () => performance.now(),
  async sleep(durationMs, signal) {
    try {
      for (let restMs = durationMs; restMs >= 0; restMs -= LONGEST_TIMER_MS) {
        await delay(Math.min(restMs, LONGEST_TIMER_MS), undefined, signal === undefined ? {} : { signal });
      }
    } catch (error) {
      throw signal?.aborted ? signal.reason : error;
    }
  },
};
