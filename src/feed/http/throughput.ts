/** Ends a body that drips: an idle time-out is kept alive for ever by one byte now and then. */

import type { Clock } from '../../lib/clock.ts';
import { formatDuration } from '../../lib/units.ts';
import { TransientTrouble } from './trouble.ts';

export interface LeastThroughput {
  readonly bytesPerSecond: number;
  /** The time it is averaged over. */
  readonly overMs: number;
}

/**
 * Passes `body` on. Only the time spent waiting for bytes counts, so a slow disk is not taken for a slow service.
 * @throws TransientTrouble when fewer bytes arrive than the least.
 */
export async function* watchThroughput(
  body: AsyncIterable<Buffer>,
  least: LeastThroughput,
  clock: Clock,
): AsyncGenerator<Buffer> {
  let waitedMs = 0;
  let bytes = 0;
  let askedAtMs = clock.monotonicMs();
  for await (const chunk of body) {
    waitedMs += clock.monotonicMs() - askedAtMs;
    bytes += chunk.length;
    if (waitedMs >= least.overMs) {
      if (bytes * 1_000 < waitedMs * least.bytesPerSecond) {
        throw new TransientTrouble(`only ${bytes} bytes arrived in ${formatDuration(waitedMs)}`);
      }
      waitedMs = 0;
      bytes = 0;
    }
    yield chunk;
    askedAtMs = clock.monotonicMs();
  }
}
