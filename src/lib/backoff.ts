/** How long to wait before a retry: the delay doubles up to a limit, with jitter where many clients may fail together. */

/** After so many doublings any delay is past any limit. Many more would give infinity. */
const MAX_DOUBLINGS = 62;

export interface Backoff {
  readonly baseDelayMs: number;
  readonly maxDelayMs: number;
}

/** Returns the longest delay before retry number `retry` (the first is 1): `baseDelayMs` × 2^(retry − 1), at most `maxDelayMs`. */
export function longestDelayMs({ baseDelayMs, maxDelayMs }: Backoff, retry: number): number {
  const doublings = Math.min(Math.max(0, retry - 1), MAX_DOUBLINGS);
  return Math.min(maxDelayMs, baseDelayMs * 2 ** doublings);
}

/** Returns a delay between 0 and the longest one: full jitter spreads clients that failed together. */
export function backoffDelayMs(backoff: Backoff, retry: number, random: Random): number {
  return Math.round(random.next() * longestDelayMs(backoff, retry));
}

/** Returns a delay between half of the longest one and all of it: for long waits, which must not end at once by chance. */
export function steadyDelayMs(backoff: Backoff, retry: number, random: Random): number {
  return Math.round(longestDelayMs(backoff, retry) * (0.5 + random.next() / 2));
}

/** A source of random numbers, passed in so that tests control it. */
export interface Random {
  /** Returns a number from 0 up to but not including 1. */
  next(): number;
}

export const systemRandom: Random = { next: () => Math.random() };
