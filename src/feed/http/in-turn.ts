/**
 * Has requests wait for their turn here, where no deadline runs yet, and not in the connections, where it would.
 *
 * Invariant: a request has its place until the body of its answer has ended, in whatever way, and no longer.
 */

import type { LimitFunction } from 'p-limit';
import { unlessStopped } from './stop.ts';

export interface Exchange<Answer> {
  readonly answer: Answer;
  /** Resolves once its connection is free for another. Never rejects. */
  readonly ended: Promise<void>;
}

/**
 * What `send` gives, once there is a place. @throws what `send` throws
 * @throws InterruptedError at once when `signal` is aborted, also while others have all places
 */
export function inTurn<Answer>(
  places: LimitFunction,
  send: () => Promise<Exchange<Answer>>,
  signal: AbortSignal,
): Promise<Answer> {
  const { promise, resolve, reject } = Promise.withResolvers<Answer>();
  const takePlace = async (): Promise<void> => {
    try {
      const { answer, ended } = await send();
      resolve(answer);
      await ended;
    } catch (error) {
      reject(error);
    }
  };
  void places(takePlace);
  return unlessStopped(promise, signal);
}
