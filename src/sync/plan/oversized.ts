/**
 * What is told of changes that by themselves have more bytes than may be staged: they give way to the snapshot, and an
 * operator may allow more. Pure.
 */

import { formatBytes } from '../../lib/units.ts';
import { DataError } from '../../model/errors.ts';
import type { Version } from '../../model/version.ts';

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
