/** What is remembered of something that failed, and when it is tried again. Pure. */

import type { Failure } from '../checkpoint/checkpoint.ts';
import { DataError, FeedSyncError } from '../model/errors.ts';
import { isStanding } from './plan/content.ts';

/** The same bad content is not fetched again for a day, unless the service names other content or a person asks. */
export const SAME_CONTENT_AGAIN_AFTER_MS = 24 * 3_600_000;
const FIRST_RETRY_AFTER_MS = 60_000;
const LAST_RETRY_AFTER_MS = 3_600_000;
/** Bad contents of one dataset that are remembered; the oldest are fetched again first. */
export const MAX_BAD_CONTENTS = 50;

/**
 * `contents` are the identities of what was being loaded, the newest first; they count only where the content itself is
 * at fault. What was found bad before and still stands is bad still.
 */
export function failureOf(
  datasetId: string,
  error: Error,
  contents: readonly string[],
  previous: Failure | null,
  now: Date,
): Failure {
  const attempts = (previous?.attempts ?? 0) + 1;
  const standing = previous !== null && isStanding(previous, now) ? previous : null;
  const contentAtFault = error instanceof DataError && contents.length > 0;
  const waitMs = contentAtFault
    ? SAME_CONTENT_AGAIN_AFTER_MS
    : Math.min(LAST_RETRY_AFTER_MS, FIRST_RETRY_AFTER_MS * 2 ** (attempts - 1));
  return {
    datasetId,
    error: error.name,
    message: error.message,
    hint: error instanceof FeedSyncError ? error.hint : null,
    contents: contentAtFault ? newest([...contents, ...(standing?.contents ?? [])]) : [],
    attempts,
    failedAt: now,
    retryAt: new Date(now.getTime() + waitMs),
  };
}

/** What is stored of a failure: other trouble does not make bad content forgotten that still stands. */
export function toRemember(failure: Failure, previous: Failure | null): Failure {
  const isOfContent = failure.contents.length > 0;
  if (isOfContent || previous === null || previous.contents.length === 0) return failure;
  return isStanding(previous, failure.failedAt) ? previous : failure;
}

function newest(contents: readonly string[]): readonly string[] {
  return [...new Set(contents)].slice(0, MAX_BAD_CONTENTS);
}
