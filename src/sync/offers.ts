/**
 * What the manifest of a subscription offers, whichever of its two shapes the service has: one list of all datasets,
 * or an entry for each. Read once a catch-up; read again where an address in it has expired, or something is asked for that
 * it may not reflect.
 */

import pLimit from 'p-limit';
import type { DatasetManifest, Feed } from '../feed/feed.ts';
import type { ManifestEntry } from '../model/manifest.ts';
import { watermarkOf } from '../model/watermark.ts';
import type { Parts } from './parts.ts';
import type { Offer } from './plan/step.ts';
import { type ManifestReading, readManifest } from './read-manifest.ts';
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

export function offersOfManifest(reading: ManifestReading, parts: Parts): Offers {
  const { subscriptionId } = reading.manifest;
  let latest = listed(reading);
  let rereading: Promise<void> | null = null;
  const reread = async (signal: AbortSignal): Promise<void> => {
    latest = listed(await readManifest(subscriptionId, false, parts, signal));
  };
  return {
    subscriptionId,
    of: (datasetId) => latest.get(datasetId) ?? null,
    async refresh(expired, signal) {
      const { datasetId } = expired;
      if (latest.get(datasetId)?.entry === expired) {
        rereading ??= reread(signal).finally(() => {
          rereading = null;
        });
        await rereading;
      }
      return latest.get(datasetId)?.entry ?? null;
    },
  };
}

function listed({ manifest, logNumber, watermark }: ManifestReading): ReadonlyMap<string, Offer> {
  const { subscriptionId, readAt, datasets } = manifest;
  return new Map(
    datasets.map((entry) => [
      entry.datasetId,
      { subscriptionId, logNumber, through: subscriptionId, watermark, readAt, entry },
    ]),
  );
}

/** Reads the entries of `datasetIds`. @throws the first trouble that is not of one dataset alone. */
export async function readEntries(
  feed: Feed,
  datasetIds: readonly string[],
  signal: AbortSignal,
): Promise<ReadonlyMap<string, DatasetManifest | Error>> {
  const read = new Map<string, DatasetManifest | Error>();
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
  subscriptionId: string,
  read: ReadonlyMap<string, DatasetManifest | Error>,
  { feed, checkpoint, choices: { manifestLagMs } }: Parts,
): Offers {
  const logNumber = checkpoint.followed().get(subscriptionId)?.logNumber ?? 1;
  const offerOf = ({ entry, readAt }: DatasetManifest): Offer => {
    const watermark = watermarkOf({ lastEventId: null, readAt, manifestLagMs });
    return { subscriptionId, logNumber, through: null, watermark, readAt, entry };
  };
  const latest = new Map(
    [...read].map(([datasetId, one]) => [datasetId, one instanceof Error ? one : offerOf(one)]),
  );
  return {
    subscriptionId,
    of(datasetId) {
      const offer = latest.get(datasetId);
      if (offer instanceof Error) throw offer;
      return offer ?? null;
    },
    async refresh({ datasetId }, signal) {
      const renewed = await feed.manifestEntry(datasetId, signal);
      latest.set(datasetId, offerOf(renewed));
      return renewed.entry;
    },
  };
}
