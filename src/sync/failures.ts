/** When something that failed is tried again. Pure. */

import type { Failure } from '../checkpoint/checkpoint.ts';
import { DataError, FeedSyncError } from '../model/errors.ts';

/** The same bad content is not fetched again for a day, unless the service names other content or a person asks. */
export const SAME_CONTENT_AGAIN_AFTER_MS = 24 * 3_600_000;
const FIRST_RETRY_AFTER_MS = 60_000;
const LAST_RETRY_AFTER_MS = 3_600_000;

/** `content` is the identity of what was being loaded; it counts only where the content itself is at fault. */
export function failureOf(
  datasetId: string,
  error: Error,
  content: string | null,
  previous: Failure | null,
  now: Date,
): Failure {
  const attempts = (previous?.attempts ?? 0) + 1;
  const contentAtFault = error instanceof DataError && content !== null;
  const waitMs = contentAtFault
    ? SAME_CONTENT_AGAIN_AFTER_MS
    : Math.min(LAST_RETRY_AFTER_MS, FIRST_RETRY_AFTER_MS * 2 ** (attempts - 1));
  return {
    datasetId,
    error: error.name,
    message: error.message,
    hint: error instanceof FeedSyncError ? error.hint : null,
    content: contentAtFault ? content : null,
    attempts,
    failedAt: now,
    retryAt: new Date(now.getTime() + waitMs),
  };
}
