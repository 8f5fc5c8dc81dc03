/** The client of the service for tests: with its own clock, without waiting, and with everything it logged. */

import { createFeed } from '../../src/feed/create-feed.ts';
import type { Feed } from '../../src/feed/feed.ts';
import type { FeedOptions } from '../../src/feed/http/options.ts';
import { type Clock, systemClock } from '../../src/lib/clock.ts';
import type { Log, LogFields } from '../../src/lib/log.ts';
import { Secret } from '../../src/lib/secret.ts';
import type { RememberedContract } from '../../src/model/contract.ts';
import { FeedSyncError } from '../../src/model/errors.ts';
import { PATIENCE_MS } from './patience.ts';

/** With characters that addresses and JSON write in other ways. */
export const CANARY_KEY = 'canary+key/that=must&stay~secret';

/** Waits pass at once, are recorded, and move the clock on. */
export interface InstantClock extends Clock {
  readonly sleptMs: readonly number[];
}

export function instantClock(start = '2026-01-01T00:00:00Z'): InstantClock {
  const sleptMs: number[] = [];
  let elapsedMs = 0;
  return {
    sleptMs,
    now: () => new Date(Date.parse(start) + elapsedMs),
    monotonicMs: () => elapsedMs,
    async sleep(durationMs, signal) {
      signal?.throwIfAborted();
      sleptMs.push(durationMs);
      elapsedMs += durationMs;
    },
  };
}

/** Time passes as it does, but nobody waits: for tests in which the network is real. */
export function impatientClock(): InstantClock {
  const sleptMs: number[] = [];
  return {
    ...systemClock,
    sleptMs,
    async sleep(durationMs, signal) {
      signal?.throwIfAborted();
      sleptMs.push(durationMs);
    },
  };
}

export interface TestFeed {
  readonly feed: Feed;
  readonly clock: InstantClock;
  /** What was logged, as JSON lines. */
  readonly logged: readonly string[];
  /** What the service's description taught, in order. */
  readonly facts: readonly RememberedContract[];
}

export function testFeed(
  baseUrl: string,
  options: Partial<Omit<FeedOptions, 'clock'>> & { readonly clock?: InstantClock } = {},
): TestFeed {
  const clock = options.clock ?? instantClock();
  const logged: string[] = [];
  const facts: RememberedContract[] = [];
  const feed = createFeed({
    baseUrl,
    apiKey: new Secret(CANARY_KEY),
    // Full jitter at its ceiling, so that waits can be foreseen.
    random: { next: () => 1 },
    log: recordingLog(logged),
    contract: { manifestPath: null, newerThanParameter: null },
    remembered: { manifestPath: null, newerThanParameter: null },
    onContractDiscovered: (remembered) => facts.push(remembered),
    http: { timeoutMs: PATIENCE_MS, connections: 8, maxJsonBytes: 1_000_000, maxRetryAfterMs: 900_000 },
    retry: { maxAttempts: 3, baseDelayMs: 500, maxDelayMs: 30_000 },
    downloads: { allowedOrigins: [] },
    diskReserveBytes: 0,
    proxy: { httpProxy: null, httpsProxy: null, noProxy: null },
    ...options,
    clock,
  });
  return { feed, clock, logged, facts };
}

/** The error that `work` ends with. @throws when it does not end with one of ours. */
export async function errorOf(work: Promise<unknown>): Promise<FeedSyncError> {
  const ended = await work.then(
    (value) => ({ value }),
    (error: unknown) => ({ error }),
  );
  if ('error' in ended && ended.error instanceof FeedSyncError) return ended.error;
  throw new Error(`expected one of the program's errors, got ${JSON.stringify(ended)}`, {
    cause: 'error' in ended ? ended.error : undefined,
  });
}

export function recordingLog(lines: string[]): Log {
  const record = (fields: LogFields, message: string): void => {
    lines.push(JSON.stringify({ ...fields, message }));
  };
  return { trace: record, debug: record, info: record, warn: record, error: record };
}
