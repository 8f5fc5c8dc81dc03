/** Ends work when its signal is aborted, always with an `InterruptedError` or the error of the abort. */

import type { Clock } from '../../lib/clock.ts';
import { formatDuration } from '../../lib/units.ts';
import { FeedSyncError, InterruptedError } from '../../model/errors.ts';
import { TransientError } from './transient-errors.ts';

/** @throws the reason of `signal` when it is aborted. */
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

/** Returns the result of `work`, unless `signal` is aborted first. Then the work's own result or error is ignored. */
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
  /** The time over which the throughput is averaged. */
  readonly overMs: number;
}

/**
 * Passes `body` on. Counts only the time spent waiting for bytes, so a slow disk does not look like a slow service.
 * @throws TransientError when fewer bytes arrive than the minimum.
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
