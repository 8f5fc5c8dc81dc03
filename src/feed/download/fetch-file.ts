/**
 * Downloads one file, whole and verified, under its final name: continues an existing part, retries temporary errors, replaces an
 * expired link, and starts over where the content differs from the manifest.
 */

import { backoffDelayMs } from '../../lib/backoff.ts';
import { formatDuration } from '../../lib/units.ts';
import { DataError, ServiceUnavailableError } from '../../model/errors.ts';
import { sleepUnlessStopped } from '../http/failures.ts';
import type { FeedLimits, FeedOptions } from '../http/options.ts';
import { type RetryPolicy, withRetries } from '../http/retry.ts';
import { type AttemptParts, attemptFile, type FileSource, keptOf, LinkExpired } from './attempt-file.ts';
import type { FreshLinks } from './download.ts';
import { ContentDiffers, type FetchedFile, isStillVerified, type ReceivingParts } from './receive-file.ts';
import type { RangeSlots } from './side-by-side.ts';
import { describeJob, type FileJob, sizeOf } from './snapshot-file.ts';

/** The most downloads of one file whose content differs from the manifest. */
const MAX_WRONG_CONTENTS = 3;
/** The most expired links to one file in a row, without a byte in between. */
const MAX_EXPIRED_LINKS = 4;

/** The parts that all files of a download share. */
export interface FetchParts extends ReceivingParts {
  readonly source: FileSource;
  readonly options: FeedOptions;
  readonly limits: FeedLimits;
  readonly retryPolicy: RetryPolicy;
  readonly rangeSlots: RangeSlots;
}

export interface Fetched extends FetchedFile {
  /** How often the links had been replaced before the file was downloaded. */
  readonly renewals: number;
}

/** Fetches a file, with fresh links and retries. @throws DataError, ServiceUnavailableError, StorageError, InterruptedError, Superseded */
export async function fetchFile(job: FileJob, links: FreshLinks, parts: FetchParts): Promise<Fetched> {
  const verified = await alreadyVerified(job, parts);
  if (verified !== null) return { ...verified, renewals: links.renewals };
  const spent: Spent = { startedMs: parts.options.clock.monotonicMs(), wrongContents: 0, expiredLinks: 0 };
  const onBytes = (bytes: number): void => {
    spent.expiredLinks = 0;
    parts.onBytes(bytes);
  };
  const breadth = { atOnce: parts.limits.ranges.atOnce };
  for (;;) {
    const link = links.of(job.position);
    const { renewals } = links;
    try {
      return { ...(await fetchByLink(job, link, { ...parts, onBytes, breadth })), renewals };
    } catch (error) {
      if (error instanceof ContentDiffers) {
        // A service may put together ranges of different contents, and one stream may still be right.
        breadth.atOnce = 1;
        await fetchAgain(job, error, spent, parts);
      } else if (error instanceof LinkExpired) {
        await beforeFreshLink(job, error, spent, parts);
        await links.replace(job.position, link);
      } else throw error;
    }
  }
}

interface Spent {
  readonly startedMs: number;
  wrongContents: number;
  /** Expired links in a row, without a byte in between. */
  expiredLinks: number;
}

/** @throws DataError after too many attempts. */
async function fetchAgain(
  job: FileJob,
  error: ContentDiffers,
  spent: Spent,
  parts: FetchParts,
): Promise<void> {
  spent.wrongContents += 1;
  if (spent.wrongContents >= MAX_WRONG_CONTENTS) throw wrongContent(job, error);
  await pause(spent.wrongContents, parts);
}

/** @throws ServiceUnavailableError when fresh links have expired, too. */
async function beforeFreshLink(
  job: FileJob,
  error: LinkExpired,
  spent: Spent,
  parts: FetchParts,
): Promise<void> {
  const { options, limits } = parts;
  spent.expiredLinks += 1;
  if (spent.expiredLinks >= MAX_EXPIRED_LINKS) throw noLinkOpens(job, error);
  if (options.clock.monotonicMs() - spent.startedMs > limits.fileDeadlineMs) throw tooSlow(job, limits);
  // The first fresh link is requested at once: links expire in the ordinary course of a long queue.
  if (spent.expiredLinks > 1) await pause(spent.expiredLinks - 1, parts);
}

/**
 * A file whose name is its digest was verified before it got the name. Where other files of the entry have no digest, the tag
 * has to prove that the file still belongs to them.
 */
async function alreadyVerified(job: FileJob, parts: FetchParts): Promise<FetchedFile | null> {
  const { file, path } = job;
  if (file.sha256 === null || (await keptOf(job)) !== null) return null;
  const bytes = await sizeOf(path);
  if (bytes === null || (file.bytes !== null && file.bytes !== bytes)) return null;
  const written = { bytes, sha256: file.sha256 };
  if (!(await isStillVerified(job, written, parts))) return null;
  return { ...written, etag: null, isUnchanged: true };
}

function fetchByLink(job: FileJob, link: string, parts: AttemptParts): Promise<FetchedFile> {
  const { retryPolicy, limits, options, signal } = parts;
  let arrivedBytes = 0;
  const onBytes = (bytes: number): void => {
    arrivedBytes += bytes;
    parts.onBytes(bytes);
  };
  const task = {
    title: `download ${describeJob(job)}`,
    attempt: () => {
      arrivedBytes = 0;
      return attemptFile(job, link, { ...parts, onBytes });
    },
    hasProgressed: () => arrivedBytes >= limits.forgivingProgressBytes,
  };
  return withRetries(task, retryPolicy, options, signal);
}

function pause(retry: number, { retryPolicy, options, signal }: FetchParts): Promise<void> {
  const { clock, random } = options;
  return sleepUnlessStopped(clock, backoffDelayMs(retryPolicy, retry, random), signal);
}

function wrongContent(job: FileJob, { stated, found, isStated }: ContentDiffers): DataError {
  const difference = `stated ${stated}, found ${found}, in each of ${MAX_WRONG_CONTENTS} downloads`;
  const message = `The ${describeJob(job)} differs from what its manifest states: ${difference}.`;
  const hint = 'The service has to publish the file or its manifest anew. Report the name of the file to it.';
  return new DataError(message, { code: isStated ? 'content_mismatch' : 'data_invalid', hint });
}

function noLinkOpens(job: FileJob, { status }: LinkExpired): ServiceUnavailableError {
  const fault = `its link has expired (${status}), and ${MAX_EXPIRED_LINKS - 1} fresh links did not open either`;
  return new ServiceUnavailableError(`Could not download ${describeJob(job)}: ${fault}.`, {
    hint: 'If it stays so, report it to the service.',
  });
}

function tooSlow(job: FileJob, { fileDeadlineMs }: FeedLimits): ServiceUnavailableError {
  return new ServiceUnavailableError(
    `Could not download ${describeJob(job)}: it was not whole after ${formatDuration(fileDeadlineMs)}.`,
    { hint: 'What has arrived is kept, and the rest is asked for at the next catch-up.' },
  );
}
