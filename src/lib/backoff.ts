/** How long to wait before trying again: exponential growth with full jitter. */

/** After so many, any delay is past any limit; many more would double to infinity. */
const MAX_DOUBLINGS = 62;

export interface Backoff {
  readonly baseDelayMs: number;
  readonly maxDelayMs: number;
}

/**
 * The delay before retry number `retry` (the first is 1), in milliseconds: anywhere between 0 and
 * `baseDelayMs` × 2^(retry − 1), never above `maxDelayMs`. Full jitter spreads clients that failed together.
 */
export function backoffDelayMs(backoff: Backoff, retry: number, random: Random): number {
  const ceiling = Math.min(backoff.maxDelayMs, backoff.baseDelayMs * 2 ** Math.min(retry - 1, MAX_DOUBLINGS));
  return Math.round(random.next() * ceiling);
}

/** Randomness, passed in wherever it is needed, so that tests own it. */
export interface Random {
  /** A number from 0 up to but not including 1. */
  next(): number;
}

export const systemRandom: Random = { next: () => Math.random() };
