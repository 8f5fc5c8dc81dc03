/**
 * Identifies content that failed, so that the same content is not fetched again for a day. The identity includes what
 * the service states about the content, because a wrong statement fails the content, too. Pure.
 */

import { createHash } from 'node:crypto';
import type { Failure } from '../../checkpoint/checkpoint.ts';
import { formatBytes } from '../../lib/units.ts';
import { DataError } from '../../model/errors.ts';
import type { ManifestEntry } from '../../model/manifest.ts';
import type { Version } from '../../model/records.ts';

/** Whether content failed before and must not be fetched again yet. */
export interface FailedBefore {
  readonly snapshot: (entry: ManifestEntry, publishedAt: Date | null) => boolean;
  /** True where the changes have values that cannot be mirrored and therefore fail the dataset. */
  readonly changes: (version: Version) => boolean;
  /** True where the dataset fell back to the snapshot instead of the changes, and the snapshot failed. */
  readonly inapplicable: (version: Version) => boolean;
}

/**
 * Identifies a snapshot; `publishedAt` is the time of its version. Where the service states no digests, its other
 * statements identify the content.
 */
export function contentOf(
  { version, schemaVersion, rowCount, files }: ManifestEntry,
  publishedAt: Date | null,
): string {
  const stated = files.map((file) => [file.sha256, file.bytes, file.rowCount].join(' ')).sort();
  return `version ${version} (${digestOf([schemaVersion, rowCount, stated, publishedAt])})`;
}

/** Identifies the changes of a path as a whole. */
export function pathContentOf(versions: readonly Version[]): string {
  return `changes of ${versions.length} versions (${digestOf(versions.map(versionContentOf))})`;
}

/** Identifies the changes of a version that contain values which cannot be mirrored. */
export function changesContentOf(record: Version): string {
  return `changes of ${versionContentOf(record)}`;
}

/** Identifies changes that are inapplicable although their values are fine. */
export function inapplicableContentOf(record: Version): string {
  return `unusable changes of ${versionContentOf(record)}`;
}

/** Identifies changes that alone exceed the limit of staged bytes; with another limit they count as other content. */
export function oversizedContentOf(record: Version, maxStagedBytes: number): string {
  return `changes of more than ${maxStagedBytes} bytes of ${versionContentOf(record)}`;
}

/** Returns the identity of a version: one that is published again under the same number is another version. */
export function versionContentOf(record: Version): string {
  const { version, previousVersion, schemaVersion, rowCount, counts, publishedAt } = record;
  return `version ${version} (${digestOf([previousVersion, schemaVersion, rowCount, counts, publishedAt])})`;
}

function digestOf(stated: readonly unknown[]): string {
  return createHash('sha256').update(JSON.stringify(stated)).digest('hex').slice(0, 32);
}

/**
 * Returns whether a failure still counts. A failure with a future time was stored by a wrong clock, and would otherwise stand until that
 * time.
 */
export function isOngoing({ failedAt, retryAt }: Pick<Failure, 'failedAt' | 'retryAt'>, now: Date): boolean {
  return failedAt <= now && now < retryAt;
}

/**
 * Returns whether the content is at fault, so that the same content is not fetched again at once. A failure may also remember
 * content that differed earlier.
 */
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

/** Returns whether the changes of a version exceeded the same limit of staged bytes before. */
export function oversizedBefore(
  failure: Failure | null,
  now: Date,
  maxStagedBytes: number,
): (version: Version) => boolean {
  const contents = new Set(failure === null ? [] : refusedContents(failure, now));
  return (version) => contents.has(oversizedContentOf(version, maxStagedBytes));
}

/** Returns the identities that must not be fetched again yet. */
export function refusedContents(failure: Failure, now: Date): readonly string[] {
  const differing = failure.differing.filter((one) => isOngoing(one, now)).map(({ content }) => content);
  return isOngoing(failure, now) ? [...failure.contents, ...differing] : differing;
}

const HINT = [
  'The snapshot of this version or a later one is loaded once the service offers it.',
  'To apply the changes instead, raise changes.maxStagedBytes.',
].join(' ');

/** Returns a clause about the changes of one version. */
export function whyOversized(maxStagedBytes: number): string {
  return `they have more than the ${formatBytes(maxStagedBytes)} that may be staged (changes.maxStagedBytes)`;
}

/** Returns the error of a dataset that waits for a snapshot because its changes are oversized. */
export function oversizedChanges({ datasetId, version }: Version, maxStagedBytes: number): DataError {
  const why = whyOversized(maxStagedBytes);
  return new DataError(`The changes of ${datasetId} version ${version} cannot be applied: ${why}.`, {
    hint: HINT,
  });
}
