/** How long to wait before trying again: exponential growth with full jitter. */

import type { Random } from './random.ts';

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
