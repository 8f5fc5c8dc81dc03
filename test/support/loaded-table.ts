/** Tables of the models of a destination, as a snapshot leaves them. */

import type { ObservedTable, SnapshotJob } from '../../src/model/write-jobs.ts';

/** Returns the part of an observed table that a model takes from the write job of the snapshot, as it stands there. */
export function takenFromJob({
  datasetId,
  version,
  schema: { schemaVersion, keyColumns },
  digest,
  digestKind,
  loadedThrough,
  loadedAt,
  publishedAt,
}: SnapshotJob) {
  return {
    datasetId,
    version,
    schemaVersion,
    keyColumns,
    snapshotVersion: version,
    snapshotDigest: digest,
    digestKind,
    loadedThrough,
    loadedAt,
    publishedAt,
  } satisfies Partial<ObservedTable>;
}
