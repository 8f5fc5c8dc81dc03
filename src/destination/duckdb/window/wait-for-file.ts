/** Waiting for a file that another process has open. DuckDB itself does not wait: it refuses at once. */

import { backoffDelayMs } from '../../../lib/backoff.ts';
import type { Clock } from '../../../lib/clock.ts';
import type { Random } from '../../../lib/random.ts';
import { InterruptedError } from '../../../model/errors.ts';
import { DuckDbError } from '../engine/diagnosis.ts';
import { busy } from '../engine/failures.ts';

const LOCK_BACKOFF = { baseDelayMs: 20, maxDelayMs: 1_000 };

export interface WaitOptions {
  readonly path: string;
  readonly lockWaitMs: number;
  readonly clock: Clock;
  readonly random: Random;
  readonly signal?: AbortSignal;
}

/**
 * Repeats `attempt` while it is refused because another process has the file open.
 * @throws BusyError once `lockWaitMs` have passed; InterruptedError; whatever else `attempt` throws, at once.
 */
export async function waitForFile<T>(options: WaitOptions, attempt: () => Promise<T>): Promise<T> {
  const { clock, lockWaitMs, path, random, signal } = options;
  const deadlineMs = clock.monotonicMs() + lockWaitMs;
  for (let retry = 1; ; retry += 1) {
    if (signal?.aborted) throw interrupted(path, signal.reason);
    try {
      return await attempt();
    } catch (error) {
      if (!(error instanceof DuckDbError) || error.trouble !== 'locked') throw error;
      const remainingMs = deadlineMs - clock.monotonicMs();
      if (remainingMs <= 0) throw busy(path, error.holderProcessId, error);
      // At least a millisecond: without the jitter of chance this would be a busy loop.
      const delayMs = Math.min(remainingMs, Math.max(1, backoffDelayMs(LOCK_BACKOFF, retry, random)));
      await clock.sleep(delayMs, signal).catch((cause: unknown) => {
        throw interrupted(path, cause);
      });
    }
  }
}

export function interrupted(path: string, cause: unknown): InterruptedError {
  return new InterruptedError(`The wait for the mirror ${path} was interrupted.`, { cause });
}
