/** How work of the client ends when its signal is aborted: always with an `InterruptedError`, or the error it was aborted with. */

import type { Clock } from '../../lib/clock.ts';
import { formatDuration } from '../../lib/units.ts';
import { FeedSyncError, InterruptedError } from '../../model/errors.ts';
import { TransientError } from './transient-errors.ts';

/** @throws the reason of `signal` where it is aborted. */
export function throwIfStopped(signal: AbortSignal): void {
  if (!signal.aborted) return;
  if (signal.reason instanceof FeedSyncError) throw signal.reason;
  throw new InterruptedError('Stopped before the work was done.', { cause: signal.reason });
}

export async function sleepUnlessStopped(
  clock: Clock,
  durationMs: number,
  signal: AbortSignal,
): Promise<void> {
  try {
    await clock.sleep(durationMs, signal);
  } catch (error) {
    throwIfStopped(signal);
    throw error;
  }
}

/** What `work` gives, unless `signal` is aborted before; then nobody waits for it any more, nor is told how it ended. */
export async function unlessStopped<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  const stopped = Promise.withResolvers<never>();
  const stop = (): void => stopped.reject(signal.reason);
  if (signal.aborted) stop();
  signal.addEventListener('abort', stop);
  try {
    return await Promise.race([stopped.promise, work]);
  } catch (error) {
    throwIfStopped(signal);
    throw error;
  } finally {
    signal.removeEventListener('abort', stop);
  }
}

export interface LeastThroughput {
  readonly bytesPerSecond: number;
  /** The time it is averaged over. */
  readonly overMs: number;
}

/**
 * Passes `body` on. Only the time spent waiting for bytes counts, so a slow disk is not taken for a slow service.
 * @throws TransientError when fewer bytes arrive than the least.
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
        throw new TransientError(`only ${bytes} bytes arrived in ${formatDuration(waitedMs)}`);
      }
      waitedMs = 0;
      bytes = 0;
    }
    yield chunk;
    askedAtMs = clock.monotonicMs();
  }
}
