/** The operator's client for tests: with its own clock, without waiting, and with everything it logged. */

import { createOperator } from '../../src/feed/create-feed.ts';
import type { ConnectionOptions } from '../../src/feed/http/options.ts';
import type { Operator } from '../../src/feed/operator.ts';
import { Secret } from '../../src/lib/secret.ts';
import { CANARY_KEY, type InstantClock, instantClock, recordingLog } from './feed-client.ts';
import { PATIENCE_MS } from './patience.ts';

export interface TestOperator {
  readonly operator: Operator;
  readonly clock: InstantClock;
  /** What was logged, as JSON lines. */
  readonly logged: readonly string[];
}

export function testOperator(
  baseUrl: string,
  options: Partial<Omit<ConnectionOptions, 'clock'>> & { readonly clock?: InstantClock } = {},
): TestOperator {
  const clock = options.clock ?? instantClock();
  const logged: string[] = [];
  const operator = createOperator({
    baseUrl,
    apiKey: new Secret(CANARY_KEY),
    // Full jitter at its ceiling, so that waits can be foreseen.
    random: { next: () => 1 },
    log: recordingLog(logged),
    http: { timeoutMs: PATIENCE_MS, connections: 8, maxJsonBytes: 1_000_000, maxRetryAfterMs: 900_000 },
    retry: { maxAttempts: 3, baseDelayMs: 500, maxDelayMs: 30_000 },
    proxy: { httpProxy: null, httpsProxy: null, noProxy: null },
    ...options,
    clock,
  });
  return { operator, clock, logged };
}
