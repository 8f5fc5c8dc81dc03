/**
 * The identities by which content that failed is told from other content: the same is not fetched again for a day. What
 * the service states of content belongs to it, because a statement that was wrong fails it, too. Pure.
 */

import { createHash } from 'node:crypto';
import type { Failure } from '../../checkpoint/checkpoint.ts';
import { formatBytes } from '../../lib/units.ts';
import { DataError } from '../../model/errors.ts';
import type { ManifestEntry } from '../../model/manifest.ts';
import type { Version } from '../../model/records.ts';

/** Whether something failed before and is not to be fetched again yet. */
export interface FailedBefore {
  readonly snapshot: (entry: ManifestEntry, publishedAt: Date | null) => boolean;
  /** They have values that cannot be mirrored, and fail their dataset. */
  readonly changes: (version: Version) => boolean;
  /** They give way to the snapshot, and that failed. */
  readonly inapplicable: (version: Version) => boolean;
}

/**
 * Of a snapshot; `publishedAt` is that of its version. Where the service states no digests, what else it states has to do.
 */
export function contentOf(
  { version, schemaVersion, rowCount, files }: ManifestEntry,
  publishedAt: Date | null,
): string {
  const stated = files.map((file) => [file.sha256, file.bytes, file.rowCount].join(' ')).sort();
  return `version ${version} (${digestOf([schemaVersion, rowCount, stated, publishedAt])})`;
}

/** Of the changes of a version, which hold what cannot be mirrored. */
export function changesContentOf(record: Version): string {
  return `changes of ${versionContentOf(record)}`;
}

/** Of the same, where they cannot be used though nothing is wrong with their values. */
export function inapplicableContentOf(record: Version): string {
  return `unusable changes of ${versionContentOf(record)}`;
}

/** Of the same, where they alone have more bytes than may be staged; with another limit they are other content. */
export function oversizedContentOf(record: Version, maxStagedBytes: number): string {
  return `changes of more than ${maxStagedBytes} bytes of ${versionContentOf(record)}`;
}

/** A version that is published anew under its number is another one. */
function versionContentOf(record: Version): string {
  const { version, previousVersion, schemaVersion, rowCount, counts, publishedAt } = record;
  return `version ${version} (${digestOf([previousVersion, schemaVersion, rowCount, counts, publishedAt])})`;
}

function digestOf(stated: readonly unknown[]): string {
  return createHash('sha256').update(JSON.stringify(stated)).digest('hex').slice(0, 32);
}

/** What failed in the future was written down by a clock that was wrong: its word would hold for as long. */
export function isOngoing({ failedAt, retryAt }: Pick<Failure, 'failedAt' | 'retryAt'>, now: Date): boolean {
  return failedAt <= now && now < retryAt;
}

/** Whether content is at fault, so that the same is not fetched again at once. What differed earlier may be remembered, too. */
export function isOfContent({ contents, differing, failedAt }: Failure): boolean {
  return contents.length > 0 || differing.some((one) => one.failedAt.getTime() === failedAt.getTime());
}

export function failedBefore(failure: Failure | null, now: Date): FailedBefore {
  const contents = new Set(failure === null ? [] : refusedContents(failure, now));
  return {
    snapshot: (entry, publishedAt) => contents.has(contentOf(entry, publishedAt)),
    changes: (version) => contents.has(changesContentOf(version)),
    inapplicable: (version) => contents.has(inapplicableContentOf(version)),
  };
}

/** Whether the changes of a version had more bytes than may be staged, with the same limit. */
export function oversizedBefore(
  failure: Failure | null,
  now: Date,
  maxStagedBytes: number,
): (version: Version) => boolean {
  const contents = new Set(failure === null ? [] : refusedContents(failure, now));
  return (version) => contents.has(oversizedContentOf(version, maxStagedBytes));
}

/** What is not fetched again yet. */
export function refusedContents(failure: Failure, now: Date): readonly string[] {
  const differing = failure.differing.filter((one) => isOngoing(one, now)).map(({ content }) => content);
  return isOngoing(failure, now) ? [...failure.contents, ...differing] : differing;
}

const HINT = [
  'The snapshot of this version or a later one is loaded once the service offers it.',
  'To apply the changes instead, raise changes.maxStagedBytes.',
].join(' ');

/** A clause about the changes of one version. */
export function whyOversized(maxStagedBytes: number): string {
  return `they have more than the ${formatBytes(maxStagedBytes)} that may be staged (changes.maxStagedBytes)`;
}

/** What a dataset failed with that waits for such a snapshot. */
export function oversizedChanges({ datasetId, version }: Version, maxStagedBytes: number): DataError {
  const why = whyOversized(maxStagedBytes);
  return new DataError(`The changes of ${datasetId} version ${version} cannot be applied: ${why}.`, {
    hint: HINT,
  });
}
