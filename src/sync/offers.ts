/**
 * What the manifest of a subscription offers, whichever of its two shapes the service has: one list of all datasets,
 * or an entry for each. Read once a catch-up; read again only when an address in it has expired.
 */

import pLimit from 'p-limit';
import type { Feed } from '../feed/feed.ts';
import type { Manifest, ManifestEntry } from '../model/manifest.ts';
import type { Offer } from './plan.ts';

/** Manifest entries of single datasets that are asked for at once. */
const ENTRIES_AT_ONCE = 8;

export interface Offers {
  readonly subscriptionId: string;
  /** Null: no such dataset in the manifest. */
  of(datasetId: string): Offer | null;
  /** The entry as it is now. Calls made while one is under way share its answer. */
  refresh(datasetId: string, signal: AbortSignal): Promise<ManifestEntry | null>;
}

export function offersOfManifest(feed: Feed, manifest: Manifest): Offers {
  let entries = byDataset(manifest.datasets);
  let rereading: Promise<void> | null = null;
  const reread = async (signal: AbortSignal): Promise<void> => {
    const latest = await feed.manifest(manifest.subscriptionId, signal);
    entries = byDataset(latest.datasets);
  };
  return {
    subscriptionId: manifest.subscriptionId,
    of: (datasetId) =>
      offer(manifest.subscriptionId, manifest.lastEventId?.number ?? null, entries.get(datasetId)),
    async refresh(datasetId, signal) {
      rereading ??= reread(signal).finally(() => {
        rereading = null;
      });
      await rereading;
      return entries.get(datasetId) ?? null;
    },
  };
}

/** Reads the entries of `datasetIds`; an entry that cannot be had is told to `onTrouble` and not offered. */
export async function offersOfEntries(
  feed: Feed,
  subscriptionId: string,
  datasetIds: readonly string[],
  onTrouble: (error: unknown) => void,
  signal: AbortSignal,
): Promise<Offers> {
  const entries = new Map<string, ManifestEntry>();
  const limit = pLimit(ENTRIES_AT_ONCE);
  await limit.map(datasetIds, async (datasetId) => {
    try {
      entries.set(datasetId, await feed.manifestEntry(datasetId, signal));
    } catch (error) {
      onTrouble(error);
    }
  });
  return {
    subscriptionId,
    of: (datasetId) => offer(subscriptionId, null, entries.get(datasetId)),
    async refresh(datasetId, refreshSignal) {
      const entry = await feed.manifestEntry(datasetId, refreshSignal);
      entries.set(datasetId, entry);
      return entry;
    },
  };
}

function byDataset(entries: readonly ManifestEntry[]): Map<string, ManifestEntry> {
  return new Map(entries.map((entry) => [entry.datasetId, entry]));
}

function offer(
  subscriptionId: string,
  reflects: bigint | null,
  entry: ManifestEntry | undefined,
): Offer | null {
  return entry === undefined ? null : { subscriptionId, reflects, entry };
}
