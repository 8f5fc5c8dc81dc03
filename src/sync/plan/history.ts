/** What the service says of a dataset's past: the authority on what happened between the table's version and the newest. */

import type { Feed } from '../../feed/feed.ts';
import type { ManifestEntry } from '../../model/manifest.ts';
import type { Schema } from '../../model/schema.ts';
import type { Version } from '../../model/version.ts';

/** Read after every event and manifest that is planned by. */
export interface History {
  /** What `versions` are newer than; null: they are all there are. */
  readonly newerThan: number | null;
  /** Newest first. */
  readonly versions: readonly Version[];
  /** Newest first, all there are. */
  readonly schemas: readonly Schema[];
  /** When the versions were read, in service time. */
  readonly readAt: Date;
  /** The manifest entries that were read before the versions: only of these does it say whether they count. */
  readonly entriesBefore: ReadonlySet<ManifestEntry>;
}

/** Reads what is newer than `newerThan`; everything where it is null. `entriesBefore`: the manifest entries read so far. */
export async function readHistory(
  feed: Feed,
  datasetId: string,
  newerThan: number | null,
  entriesBefore: ReadonlySet<ManifestEntry>,
  signal: AbortSignal,
): Promise<History> {
  const { versions, readAt } = await feed.versions(datasetId, newerThan, signal);
  const schemas = await feed.schemas(datasetId, signal);
  return { newerThan, versions, schemas, readAt, entriesBefore };
}
