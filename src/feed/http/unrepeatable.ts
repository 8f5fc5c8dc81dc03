/**
 * For what must not be done twice. Invariant: after a request that may have arrived there is no further one, and the
 * person is told that it is not known whether it was done.
 */

import { FeedSyncError, InterruptedError, ServiceUnavailableError } from '../../model/errors.ts';
import { TransientTrouble } from './trouble.ts';

/**
 * Runs `repeat` with attempts that end for good once one may have been carried out. `hint` says what to do then.
 * @throws ServiceUnavailableError, or an InterruptedError, with that hint; else what `repeat` throws.
 */
export async function unlessDone<T>(
  title: string,
  hint: string,
  ask: () => Promise<T>,
  repeat: (attempt: () => Promise<T>) => Promise<T>,
): Promise<T> {
  let doubt: Error | null = null;
  const attempt = async (): Promise<T> => {
    try {
      return await ask();
    } catch (error) {
      doubt = doubtOf(error, title, hint);
      throw doubt ?? error;
    }
  };
  try {
    return await repeat(attempt);
  } catch (error) {
    // Where the work was stopped meanwhile, `repeat` throws the reason for that, which knows of no doubt.
    throw doubt ?? error;
  }
}

/** Null where the request surely never arrived. */
function doubtOf(error: unknown, title: string, hint: string): Error | null {
  if (error instanceof TransientTrouble) {
    if (!error.mayBeDone) return null;
    return new ServiceUnavailableError(`Could not ${title}: ${error.message}.`, { hint, cause: error });
  }
  if (error instanceof InterruptedError) return new InterruptedError(error.message, { hint, cause: error });
  if (error instanceof FeedSyncError)
    return new ServiceUnavailableError(error.message, { hint, cause: error });
  return null;
}
