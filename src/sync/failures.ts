/** Decides which facts of a failure are stored, and when the dataset is retried. Pure. */

import type { DifferingContent, Failure } from '../checkpoint/checkpoint.ts';
import { type Backoff, longestDelayMs } from '../lib/backoff.ts';
import { DATA_CODES, DataError, errorCodeOf, FeedSyncError } from '../model/errors.ts';
import { isOfContent, isOngoing, refusedContents } from './plan/content.ts';

/** The same bad content is not fetched again for a day, unless the service names other content or an operator asks. */
export const SAME_CONTENT_AGAIN_AFTER_MS = 24 * 3_600_000;
/** Content that differs from its statement may be right the next time; the wait doubles, up to that day. */
const DIFFERING_CONTENT_AGAIN_AFTER_MS = 15 * 60_000;
const RETRY: Backoff = { baseDelayMs: 60_000, maxDelayMs: 3_600_000 };
/** The most bad contents of one dataset that are remembered; the oldest are fetched again first. */
export const MAX_BAD_CONTENTS = 50;

/** Which content is not fetched again, and when the dataset is retried. */
type Consequences = Pick<Failure, 'contents' | 'differing' | 'retryAt'>;

/**
 * Returns the failure of a dataset. `contents` are the identities of the content being loaded, the newest first; they count only where the
 * content itself is at fault. Content that was found bad before stays bad.
 */
export function failureOf(
  datasetId: string,
  error: Error,
  contents: readonly string[],
  previous: Failure | null,
  now: Date,
): Failure {
  const attempts = (previous?.attempts ?? 0) + 1;
  return {
    datasetId,
    error: errorCodeOf(error),
    message: error.message,
    hint: error instanceof FeedSyncError ? error.hint : null,
    ...consequencesOf(error, contents, attempts, previous, now),
    attempts,
    failedAt: now,
  };
}

/** Returns the error of a stored failure of content, with the same code. */
export function errorOf({ error, message, hint }: Failure): DataError {
  const code = DATA_CODES.find((known) => known === error) ?? 'data_invalid';
  return new DataError(message, { code, ...(hint === null ? {} : { hint }) });
}

function consequencesOf(
  error: Error,
  contents: readonly string[],
  attempts: number,
  previous: Failure | null,
  now: Date,
): Consequences {
  const after = (waitMs: number): Date => new Date(now.getTime() + waitMs);
  const differing = previous?.differing ?? [];
  if (!(error instanceof DataError) || contents.length === 0) {
    return { contents: [], differing, retryAt: after(longestDelayMs(RETRY, attempts)) };
  }
  const ongoing = previous !== null && isOngoing(previous, now) ? previous : null;
  const stillBad = ongoing?.contents ?? [];
  if (error.code !== 'content_mismatch') {
    return {
      contents: newestContents([...contents, ...stillBad]),
      differing: differing.filter(({ content }) => !contents.includes(content)),
      retryAt: after(SAME_CONTENT_AGAIN_AFTER_MS),
    };
  }
  const differingNow = differingAgain(contents, differing, now);
  const isOtherStillBad = ongoing !== null && stillBad.length > 0;
  const retryAt = isOtherStillBad ? ongoing.retryAt : differingNow[0]?.retryAt;
  return { contents: stillBad, differing: differingNow, retryAt: retryAt ?? now };
}

/** All of `contents` wait as long as the first, because they were being fetched together. */
function differingAgain(
  contents: readonly string[],
  before: readonly DifferingContent[],
  now: Date,
): readonly DifferingContent[] {
  const last = before.find(({ content }) => content === contents[0]);
  const lastWaitMs = last === undefined ? null : last.retryAt.getTime() - last.failedAt.getTime();
  const waitMs =
    lastWaitMs === null
      ? DIFFERING_CONTENT_AGAIN_AFTER_MS
      : Math.min(SAME_CONTENT_AGAIN_AFTER_MS, 2 * lastWaitMs);
  const retryAt = new Date(now.getTime() + waitMs);
  const others = before.filter(({ content }) => !contents.includes(content));
  const again = contents.map((content) => ({ content, failedAt: now, retryAt }));
  return [...again, ...others].slice(0, MAX_BAD_CONTENTS);
}

/** Returns the failure to store: a failure of another kind does not clear the bad content of the previous one. */
export function toRemember(failure: Failure, previous: Failure | null): Failure {
  if (isOfContent(failure) || previous === null) return failure;
  return refusedContents(previous, failure.failedAt).length > 0 ? previous : failure;
}

/** Returns each content once, and no more than are remembered. */
export function newestContents(contents: readonly string[]): readonly string[] {
  return [...new Set(contents)].slice(0, MAX_BAD_CONTENTS);
}

/** Returns the error of a dataset of which `attempts` plans were stale before they were executed. */
export function changesTooFast(datasetId: string, attempts: number): DataError {
  return new DataError(
    `Dataset ${datasetId} changes faster than it downloads: ${attempts} attempts became stale.`,
    { hint: 'A faster connection to the service helps.' },
  );
}
