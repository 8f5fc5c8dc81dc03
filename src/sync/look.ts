/** A look: what did the versions list say after the event that asked for it? */

import type { HeldDataset } from '../destination/destination.ts';
import type { Feed } from '../feed/feed.ts';

/** The newest published version past the table's, or null where the table is at the head. */
export async function newestVersionPast(
  feed: Feed,
  datasetId: string,
  held: HeldDataset,
  signal: AbortSignal,
): Promise<number | null> {
  const newer = await feed.versions(datasetId, held.version, signal);
  return newer.reduce<number | null>((head, { version }) => Math.max(head ?? version, version), null);
}
