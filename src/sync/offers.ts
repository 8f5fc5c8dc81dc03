/**
 * What the manifest of a subscription offers, whichever of its two shapes the service has: one list of all datasets,
 * or an entry for each. Read once a catch-up; read again only when an address in it has expired.
 */

import pLimit from 'p-limit';
import type { Feed } from '../feed/feed.ts';
import type { Manifest, ManifestEntry } from '../model/manifest.ts';
import type { Offer } from './plan/step.ts';
import { isOfOneDataset } from './trouble.ts';

/** Manifest entries of single datasets that are asked for at once. */
const ENTRIES_AT_ONCE = 8;

export interface Offers {
  readonly subscriptionId: string;
  /** Null: no such dataset in the manifest. @throws what the reading of this dataset's own manifest threw. */
  of(datasetId: string): Offer | null;
  /**
   * The entry as it is now, in place of `expired`. The manifest is read again only where it was not since: links of
   * many datasets expire together.
   */
  refresh(expired: ManifestEntry, signal: AbortSignal): Promise<ManifestEntry | null>;
}

export function offersOfManifest(feed: Feed, manifest: Manifest): Offers {
  const { subscriptionId } = manifest;
  let latest = listed(manifest);
  let rereading: Promise<void> | null = null;
  const reread = async (signal: AbortSignal): Promise<void> => {
    latest = listed(await feed.manifest(subscriptionId, signal));
  };
  return {
    subscriptionId,
    of(datasetId) {
      const entry = latest.entries.get(datasetId);
      return entry === undefined ? null : { subscriptionId, reflects: latest.reflects, entry };
    },
    async refresh(expired, signal) {
      const { datasetId } = expired;
      if (latest.entries.get(datasetId) === expired) {
        rereading ??= reread(signal).finally(() => {
          rereading = null;
        });
        await rereading;
      }
      return latest.entries.get(datasetId) ?? null;
    },
  };
}

/** Reads the entries of `datasetIds`. @throws the first trouble that is not of one dataset alone. */
export async function readEntries(
  feed: Feed,
  datasetIds: readonly string[],
  signal: AbortSignal,
): Promise<ReadonlyMap<string, ManifestEntry | Error>> {
  const read = new Map<string, ManifestEntry | Error>();
  const ended: unknown[] = [];
  await pLimit(ENTRIES_AT_ONCE).map(datasetIds, async (datasetId) => {
    if (ended.length > 0) return;
    try {
      read.set(datasetId, await feed.manifestEntry(datasetId, signal));
    } catch (error) {
      if (isOfOneDataset(error)) read.set(datasetId, error);
      else ended.push(error);
    }
  });
  if (ended.length > 0) throw ended[0];
  return read;
}

/** A manifest for each dataset says nothing of the log. */
export function offersOfEntries(
  feed: Feed,
  subscriptionId: string,
  read: ReadonlyMap<string, ManifestEntry | Error>,
): Offers {
  const latest = new Map(read);
  return {
    subscriptionId,
    of(datasetId) {
      const entry = latest.get(datasetId);
      if (entry instanceof Error) throw entry;
      return entry === undefined ? null : { subscriptionId, reflects: null, entry };
    },
    async refresh({ datasetId }, signal) {
      const entry = await feed.manifestEntry(datasetId, signal);
      latest.set(datasetId, entry);
      return entry;
    },
  };
}

interface Listed {
  readonly reflects: bigint | null;
  readonly entries: ReadonlyMap<string, ManifestEntry>;
}

function listed({ lastEventId, datasets }: Manifest): Listed {
  return {
    reflects: lastEventId?.number ?? null,
    entries: new Map(datasets.map((entry) => [entry.datasetId, entry])),
  };
}
