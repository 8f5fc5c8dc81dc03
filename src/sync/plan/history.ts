/** What the service says of a dataset's past: the authority on what happened between the table's version and the newest. */

import type { Feed } from '../../feed/feed.ts';
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
}

/** Reads what is newer than `newerThan`; everything where it is null. */
export async function readHistory(
  feed: Feed,
  datasetId: string,
  newerThan: number | null,
  signal: AbortSignal,
): Promise<History> {
  const versions = await feed.versions(datasetId, newerThan, signal);
  return { newerThan, versions, schemas: await feed.schemas(datasetId, signal) };
}
