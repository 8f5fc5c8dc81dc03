/** The clocks of the program, passed in so that tests control them. */

import { setTimeout as delay, setImmediate as turn } from 'node:timers/promises';

export interface Clock {
  /** The wall clock, for recorded and displayed times. Never for waiting, because it can jump. */
  now(): Date;
  /** Milliseconds on a clock that only goes forward, for deadlines and durations. */
  monotonicMs(): number;
  /** Resolves after `durationMs`; rejects with the signal's reason as soon as it is aborted. */
  sleep(durationMs: number, signal?: AbortSignal): Promise<void>;
}

/** A limit on how long one piece of work may take. In real time, because what it waits for is a network, a disk or a server. */
export interface Deadline {
  /** Aborted when the time is over, and by nothing else. */
  readonly over: AbortSignal;
  /** Aborted when the time is over, or earlier together with the work around this piece. */
  readonly signal: AbortSignal;
}

/** Returns the deadline that is over in `durationMs`. `outer`: the signal of the work around this piece. */
export function deadlineIn(durationMs: number, outer?: AbortSignal): Deadline {
  const over = AbortSignal.timeout(durationMs);
  return { over, signal: outer === undefined ? over : AbortSignal.any([outer, over]) };
}

/** Resolves once everything else that is ready has had its turn. */
export function nextTurn(): Promise<void> {
  return turn();
}

/** Node fires a longer timer at once. */
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
