/**
 * A subscription taken anew: at the first start, and whenever its position in the log is lost. The position is taken
 * before the manifest is read and is never later than what the manifest reflects, so no event falls between the two.
 * It never goes back behind what was read before it was lost: those events are wanted already, and the service keeps
 * them no more.
 */

import type { Held, HeldDataset } from '../../destination/destination.ts';
import { type EventId, earlierEvent, laterEvent } from '../../model/event.ts';
import { type Manifest, type ManifestEntry, snapshotDigest } from '../../model/manifest.ts';
import type { Subscription } from '../../model/subscription.ts';
import type { FollowStep, Want, WantChange } from '../../model/want.ts';

/** A manifest that was read completely. */
export interface Listing {
  readonly manifest: Manifest;
  /** The members that neither it lists nor the complete read of it before. */
  readonly lacked: readonly string[];
}

/**
 * The step that takes `subscription` from its manifest; `subscription` was read before the manifest. `lost` is the
 * position that the log cannot be read on from; null at the first start. What is lacked has left before the new position:
 * where the log adds it again from there on, it may have begun anew.
 */
export function stepFromManifest(
  subscription: Subscription,
  { manifest, lacked }: Listing,
  lost: EventId | null,
  held: Held,
): FollowStep {
  const { lastEventId: reflects } = manifest;
  const cursor = laterEvent(positionOf(subscription.lastEventId, reflects), lost);
  const isQuiet = cursor === null || (lost !== null && cursor.number === lost.number);
  const standing = standingAt(reflects, cursor);
  const listed = manifest.datasets.flatMap((entry): readonly WantChange[] => {
    const { datasetId, version } = entry;
    const table = held.datasets.get(datasetId) ?? null;
    // Versions may have begun anew since: what was announced before, and what an older manifest lists, may be gone.
    const announced = reflects === null || isOlder(reflects, cursor) ? null : version;
    return [
      { kind: 'member', datasetId, ...standing },
      { kind: 'announced', datasetId, version: announced },
      ...(table === null || isLoadedFrom(entry, table)
        ? []
        : [
            reloadAt(
              { datasetId, version: isOlder(reflects, cursor) ? null : version },
              cursor?.number ?? null,
            ),
          ]),
      ...(announced === null ? [{ kind: 'look' as const, datasetId }] : []),
    ];
  });
  const left = lacked.map((datasetId) => ({ kind: 'no-member' as const, datasetId, ...standing }));
  const changes = [...listed, ...left];
  return { subscriptionId: subscription.id, subscriptionName: subscription.name, cursor, isQuiet, changes };
}

/**
 * The step that takes `subscription` anew where every dataset has a manifest of its own: its log is read from the
 * start, and its datasets are looked at, because the log need not reach back to their last change. `entries` are
 * those of the datasets that have a table, as far as they could be read; a table without one is loaded again, too.
 */
export function stepFromMembers(
  subscription: Subscription,
  entries: readonly ManifestEntry[],
  lost: EventId | null,
  wants: ReadonlyMap<string, Want>,
  held: Held,
): FollowStep {
  const newest = laterEvent(subscription.lastEventId, lost);
  const byId = new Map(entries.map((entry) => [entry.datasetId, entry]));
  const changes = membersOf(subscription, wants).flatMap((datasetId): readonly WantChange[] => {
    const table = held.datasets.get(datasetId) ?? null;
    const entry = byId.get(datasetId) ?? null;
    const isRight = table === null || (entry !== null && isLoadedFrom(entry, table));
    const version = entry?.version ?? wants.get(datasetId)?.atLeastVersion ?? null;
    return [
      { kind: 'member', datasetId },
      { kind: 'look', datasetId },
      ...(isRight ? [] : [reloadAt({ datasetId, version }, newest?.number ?? null)]),
    ];
  });
  return {
    subscriptionId: subscription.id,
    subscriptionName: subscription.name,
    cursor: lost,
    isQuiet: true,
    changes,
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

/**
 * Where the word of a manifest stands among the events read up to `cursor`. One that is older than some of them stands
 * at its own place, so that it undoes no later event. One that reflects them all, or does not say, is believed.
 */
export function standingAt(
  reflects: EventId | null,
  cursor: EventId | null,
): { readonly eventNumber?: bigint } {
  return reflects !== null && isOlder(reflects, cursor) ? { eventNumber: reflects.number } : {};
}

function isOlder(reflects: EventId | null, cursor: EventId | null): boolean {
  return reflects !== null && cursor !== null && reflects.number < cursor.number;
}

/** The smaller of the two; where only one is known, that one; null: the log is read from its start. */
function positionOf(ofSubscription: EventId | null, ofManifest: EventId | null): EventId | null {
  if (ofSubscription === null || ofManifest === null) return ofSubscription ?? ofManifest;
  return earlierEvent(ofSubscription, ofManifest);
}

/**
 * A reload that no event asked for, as if by the newest that is known, or that may have been lost. It is one that has
 * happened: a number of the future would swallow the reload of the event that gets it. A table whose snapshot reflects
 * that event is in need of none.
 */
export function reloadAt(
  { datasetId, version }: { readonly datasetId: string; readonly version: number | null },
  newest: bigint | null,
): WantChange {
  return { kind: 'reload', datasetId, eventNumber: newest ?? 0n, version };
}
