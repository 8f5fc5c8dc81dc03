/**
 * Downloads one file, whole and verified, under its final name: continues an existing part, retries temporary errors, replaces an
 * expired link, and starts over where the content differs from the manifest.
 */

import { backoffDelayMs } from '../../lib/backoff.ts';
import { formatDuration } from '../../lib/units.ts';
import { DataError, ServiceUnavailableError } from '../../model/errors.ts';
import type { ManifestEntry, ManifestFile } from '../../model/manifest.ts';
import { sleepUnlessStopped } from '../http/cancellation.ts';
import type { FeedLimits } from '../http/options.ts';
import { type RetryPolicy, type RetryTools, withRetries } from '../http/retry.ts';
import { type AttemptParts, attemptFile, keptOf, LinkExpired } from './attempt-file.ts';
import { describeJob, type FileJob, pathOf, statesDigests } from './file-job.ts';
import { sizeOf } from './part-file.ts';
import { ContentDiffers, type FetchedFile } from './receive-file.ts';

/** The most downloads of one file whose content differs from the manifest. */
const MAX_WRONG_CONTENTS = 3;
/** The most expired links to one file in a row, without a byte in between. */
const MAX_EXPIRED_LINKS = 4;

export interface FetchParts extends AttemptParts {
  readonly retryPolicy: RetryPolicy;
  readonly tools: RetryTools;
  readonly limits: FeedLimits;
}

export interface Fetched extends FetchedFile {
  /** How often the links had been replaced before the file was downloaded. */
  readonly renewals: number;
}

/** @throws DataError, ServiceUnavailableError, StorageError, InterruptedError, Superseded */
export async function fetchFile(
  job: FileJob,
  links: FreshLinks,
  parts: FetchParts,
  onBytes: (bytes: number) => void,
  signal: AbortSignal,
): Promise<Fetched> {
  const verified = await alreadyVerified(job);
  if (verified !== null) return { ...verified, renewals: links.renewals };
  const spent: Spent = { startedMs: parts.tools.clock.monotonicMs(), wrongContents: 0, expiredLinks: 0 };
  const countBytes = (bytes: number): void => {
    spent.expiredLinks = 0;
    onBytes(bytes);
  };
  for (;;) {
    const link = links.of(job.position);
    const { renewals } = links;
    try {
      return { ...(await fetchByLink(job, link, parts, countBytes, signal)), renewals };
    } catch (error) {
      if (error instanceof ContentDiffers) await fetchAgain(job, error, spent, parts, signal);
      else if (error instanceof LinkExpired)
        await takeFreshLink(job, link, links, error, spent, parts, signal);
      else throw error;
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
  signal: AbortSignal,
): Promise<void> {
  spent.wrongContents += 1;
  if (spent.wrongContents >= MAX_WRONG_CONTENTS) throw wrongContent(job, error);
  await pause(spent.wrongContents, parts, signal);
}

/** @throws ServiceUnavailableError when fresh links have expired, too; Superseded, and the errors of reading the manifest. */
async function takeFreshLink(
  job: FileJob,
  link: string,
  links: FreshLinks,
  error: LinkExpired,
  spent: Spent,
  parts: FetchParts,
  signal: AbortSignal,
): Promise<void> {
  spent.expiredLinks += 1;
  if (spent.expiredLinks >= MAX_EXPIRED_LINKS) throw noLinkOpens(job, error);
  if (parts.tools.clock.monotonicMs() - spent.startedMs > parts.limits.fileDeadlineMs)
    throw tooSlow(job, parts);
  // The first fresh link is requested at once: links expire in the ordinary course of a long queue.
  if (spent.expiredLinks > 1) await pause(spent.expiredLinks - 1, parts, signal);
  await links.replace(job.position, link);
}

/**
 * A file whose name is its digest was verified before it got the name. Where other files of the entry have no digest, the
 * tag has to
 * prove that the file still belongs to them.
 */
async function alreadyVerified(job: FileJob): Promise<FetchedFile | null> {
  const { file, path } = job;
  if (file.sha256 === null || (await keptOf(job)) !== null) return null;
  const bytes = await sizeOf(path);
  if (bytes === null || (file.bytes !== null && file.bytes !== bytes)) return null;
  return { bytes, sha256: file.sha256, etag: null, isUnchanged: true };
}

function fetchByLink(
  job: FileJob,
  link: string,
  parts: FetchParts,
  onBytes: (bytes: number) => void,
  signal: AbortSignal,
): Promise<FetchedFile> {
  let arrivedBytes = 0;
  const task = {
    title: `download ${describeJob(job)}`,
    attempt: () => {
      arrivedBytes = 0;
      return attemptFile(
        job,
        link,
        parts,
        (bytes) => {
          arrivedBytes += bytes;
          onBytes(bytes);
        },
        signal,
      );
    },
    hasProgressed: () => arrivedBytes >= parts.limits.forgivingProgressBytes,
  };
  const policy = { ...parts.retryPolicy, deadlineMs: parts.limits.fileDeadlineMs };
  return withRetries(task, policy, parts.tools, signal);
}

function pause(retry: number, { retryPolicy, tools }: FetchParts, signal: AbortSignal): Promise<void> {
  return sleepUnlessStopped(tools.clock, backoffDelayMs(retryPolicy, retry, tools.random), signal);
}

function wrongContent(job: FileJob, { stated, found, isStated }: ContentDiffers): DataError {
  const difference = `stated ${stated}, found ${found}, in each of ${MAX_WRONG_CONTENTS} downloads`;
  const message = `The ${describeJob(job)} differs from what its manifest states: ${difference}.`;
  const hint = 'The service has to publish the file or its manifest anew. Tell it the name of the file.';
  return new DataError(message, { code: isStated ? 'content_mismatch' : 'data_invalid', hint });
}

function noLinkOpens(job: FileJob, { status }: LinkExpired): ServiceUnavailableError {
  const fault = `its link has expired (${status}), and ${MAX_EXPIRED_LINKS - 1} fresh links did not open either`;
  return new ServiceUnavailableError(`Could not download ${describeJob(job)}: ${fault}.`, {
    hint: 'It is tried again at the next catch-up. If it stays so, tell the service.',
  });
}

function tooSlow(job: FileJob, { limits }: FetchParts): ServiceUnavailableError {
  return new ServiceUnavailableError(
    `Could not download ${describeJob(job)}: it was not whole after ${formatDuration(limits.fileDeadlineMs)}.`,
    { hint: 'What has arrived is kept, and the rest is asked for at the next catch-up.' },
  );
}

/** The manifest names other content by now, or no longer lists the dataset. Ends the download of the snapshot. */
export class Superseded extends Error {
  readonly entry: ManifestEntry | null;

  constructor(entry: ManifestEntry | null) {
    super('the manifest names other content');
    this.entry = entry;
  }
}

export class FreshLinks {
  readonly #refresh: () => Promise<ManifestEntry | null>;
  #entry: ManifestEntry;
  #refreshing: Promise<void> | null = null;
  #renewals = 0;

  constructor(entry: ManifestEntry, refresh: () => Promise<ManifestEntry | null>) {
    this.#entry = entry;
    this.#refresh = refresh;
  }

  /** How often all links were replaced. */
  get renewals(): number {
    return this.#renewals;
  }

  /** The newest link to the file at `position`. */
  of(position: number): string {
    return this.#entry.files[position]?.url ?? '';
  }

  /**
   * `expired` is the link to the file at `position` that has expired. Does nothing where the link was replaced already. @throws
   * Superseded, and the errors of reading the manifest
   */
  async replace(position: number, expired: string): Promise<void> {
    if (this.of(position) !== expired) return;
    this.#refreshing ??= this.#readAgain().finally(() => {
      this.#refreshing = null;
    });
    await this.#refreshing;
  }

  async #readAgain(): Promise<void> {
    const latest = await this.#refresh();
    if (latest === null || !isSameContent(latest, this.#entry)) throw new Superseded(latest);
    this.#entry = latest;
    this.#renewals += 1;
  }

  /** Returns the error for a renewed entry that is not proven to have the content of the files fetched before. */
  supersededByRenewal(): Superseded {
    return new Superseded(this.#entry);
  }

  /**
   * Returns the error for content that was replaced under its links; reads the manifest again, which may name the new
   * content by now.
   */
  async supersededByReplacement(): Promise<Superseded> {
    return new Superseded(await this.#refresh());
  }
}

/**
 * Whether both entries may be the same version in the same files. Files without a digest are compared by their place: an
 * entity tag says
 * nothing about a file elsewhere.
 */
function isSameContent(left: ManifestEntry, right: ManifestEntry): boolean {
  if (left.version !== right.version || left.files.length !== right.files.length) return false;
  const isSameFile = (file: ManifestFile, other: ManifestFile | undefined): boolean =>
    file.sha256 === other?.sha256 && file.bytes === other.bytes;
  if (!left.files.every((file, position) => isSameFile(file, right.files[position]))) return false;
  return statesDigests(left) || isStatedAlike(left, right);
}

function isStatedAlike(left: ManifestEntry, right: ManifestEntry): boolean {
  if (left.rowCount !== right.rowCount || left.schemaVersion !== right.schemaVersion) return false;
  return left.files.every(({ url, rowCount }, position) => {
    const other = right.files[position];
    return other !== undefined && rowCount === other.rowCount && pathOf(url) === pathOf(other.url);
  });
}
