/**
 * When things that did not work are tried again: each has a clock of its own, on the monotonic clock, with waits that
 * grow. Waits are spread by chance, so that what failed together does not come back together.
 */

import type { Random } from '../lib/random.ts';

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
