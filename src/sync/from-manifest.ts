/**
 * A subscription taken from its manifest: at the first start, and whenever the position in the log is lost. The
 * position is taken before the manifest is read and is never later than what the manifest reflects, so no event
 * falls between the two.
 */

import type { Held, HeldDataset } from '../destination/destination.ts';
import { type EventId, earlierEvent } from '../model/event.ts';
import { type Manifest, type ManifestEntry, snapshotDigest } from '../model/manifest.ts';
import type { Subscription } from '../model/subscription.ts';
import type { FollowStep, Want, WantChange } from '../model/want.ts';

/** The step that starts `subscription` from `manifest`; `subscription` was read before the manifest. */
export function stepFromManifest(subscription: Subscription, manifest: Manifest, held: Held): FollowStep {
  const cursor = positionOf(subscription.lastEventId, manifest.lastEventId);
  const changes = manifest.datasets.flatMap((entry) =>
    changesOf(entry, held.datasets.get(entry.datasetId) ?? null, cursor, manifest.lastEventId === null),
  );
  return { subscriptionId: subscription.id, subscriptionName: subscription.name, cursor, changes };
}

/**
 * The step that starts `subscription` where every dataset has a manifest of its own: its log is read from the start,
 * and its datasets are looked at, because the log need not reach back to their last change.
 */
export function stepFromMembers(subscription: Subscription, wants: ReadonlyMap<string, Want>): FollowStep {
  return {
    subscriptionId: subscription.id,
    subscriptionName: subscription.name,
    cursor: null,
    changes: membersOf(subscription, wants).flatMap((datasetId) => [
      { kind: 'member', datasetId },
      { kind: 'look', datasetId },
    ]),
  };
}

/** The datasets of the subscription record and those that its log has added, without those that it has removed. */
export function membersOf(
  { id, datasetIds }: Subscription,
  wants: ReadonlyMap<string, Want>,
): readonly string[] {
  const added = [...wants.values()].filter(({ members }) => members.has(id));
  const own = datasetIds.filter((datasetId) => !wants.get(datasetId)?.formerMembers.has(id));
  return [...new Set([...own, ...added.map(({ datasetId }) => datasetId)])];
}

/** True where the table is this very snapshot: same version, same content, nothing applied since. */
export function isLoadedFrom(entry: ManifestEntry, held: HeldDataset): boolean {
  return (
    held.version === entry.version &&
    held.snapshotVersion === entry.version &&
    held.snapshotDigest === snapshotDigest(entry.files)
  );
}

/** The smaller of the two; where only one is known, that one; null: the log is read from its start. */
function positionOf(ofSubscription: EventId | null, ofManifest: EventId | null): EventId | null {
  if (ofSubscription === null || ofManifest === null) return ofSubscription ?? ofManifest;
  return earlierEvent(ofSubscription, ofManifest);
}

function changesOf(
  entry: ManifestEntry,
  held: HeldDataset | null,
  cursor: EventId | null,
  look: boolean,
): readonly WantChange[] {
  const { datasetId, version } = entry;
  const changes: WantChange[] = [
    { kind: 'member', datasetId },
    { kind: 'at-least', datasetId, version },
  ];
  if (held !== null && !isLoadedFrom(entry, held)) {
    changes.push({ kind: 'reload', datasetId, eventNumber: cursor?.number ?? 0n, version });
  }
  if (look) changes.push({ kind: 'look', datasetId });
  return changes;
}
