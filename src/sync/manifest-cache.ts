/**
 * What manifests offer of one dataset, for who plans it: read already by the audit of a catch-up, or read where a plan
 * asks for it and then shared with the other datasets that ask at about the same time.
 *
 * Invariant: what is offered was read after what is wanted was known. A manifest from before may lack what was asked for.
 */

import pLimit from 'p-limit';
import type { DatasetManifest, Feed, SubscriptionList } from '../feed/feed.ts';
import { present } from '../lib/assert.ts';
import type { Want } from '../model/desired-state.ts';
import { type Manifest, type ManifestEntry, type Watermark, watermarkOf } from '../model/manifest.ts';
import { isOfOneDataset } from './incidents.ts';
import type { Parts } from './parts.ts';
import type { Offer } from './plan/step.ts';

/** Manifests that are read at once where plans ask for them. */
const MANIFESTS_AT_ONCE = 4;

export interface OfferBook {
  /** Of the subscriptions that contain the dataset; null: to be read first. @throws what the reading of an entry threw. */
  of(want: Want): readonly Offer[] | null;
  /** Reads what `of` then gives. */
  read(want: Want, signal: AbortSignal): Promise<void>;
  /** Something else is wanted from now on: what was read before it counts no more. */
  renew(): void;
  /** What the offer is of. */
  manifestOf(offer: Offer): Offers;
}

/** Manifests as they were last read, each with when its reading began. */
export class KeptManifests {
  readonly #parts: Parts;
  readonly #kept = new Map<string, Kept>();
  readonly #reading = new Map<string, Reading & { readonly done: Promise<void> }>();
  readonly #atOnce = pLimit(MANIFESTS_AT_ONCE);
  #readings = 0;

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  /** `startedMs`: when the reading began, on the monotonic clock. */
  keep(offers: Offers, startedMs: number): void {
    this.#readings += 1;
    this.#kept.set(offers.subscriptionId, { offers, startedMs, number: this.#readings });
  }

  /**
   * A book of the manifests whose reading began at `sinceMs` or later; where each dataset has its own, of those that were kept
   * only with `withEntries`. `isAsked` says of a subscription whether the service may be asked for its manifest.
   */
  book(sinceMs: number, isAsked: (subscriptionId: string) => boolean, withEntries = false): OfferBook {
    if (this.#parts.feed.manifestShape() !== 'dataset') return this.#bookOfLists(sinceMs, isAsked);
    const kept = [...this.#kept.values()].map(({ offers }) => offers);
    return bookOfEntries(this.#parts, isAsked, withEntries ? kept : null);
  }

  #bookOfLists(beginsMs: number, isAsked: (subscriptionId: string) => boolean): OfferBook {
    let since: Reading = { startedMs: beginsMs, number: 0 };
    const fresh = (subscriptionId: string): Offers | null => {
      const kept = this.#kept.get(subscriptionId);
      return kept === undefined || !isSince(kept, since) ? null : kept.offers;
    };
    const asked = ({ members }: Want): readonly string[] => [...members.keys()].filter(isAsked);
    return {
      of(want) {
        const manifests = asked(want).map(fresh);
        if (manifests.includes(null)) return null;
        return manifests.flatMap((manifest) => manifest?.of(want.datasetId) ?? []);
      },
      read: async (want, signal) => {
        const missing = asked(want).filter((subscriptionId) => fresh(subscriptionId) === null);
        await Promise.all(missing.map((subscriptionId) => this.#read(subscriptionId, since, signal)));
      },
      renew: () => {
        since = { startedMs: this.#parts.clock.monotonicMs(), number: this.#readings + 1 };
      },
      manifestOf: ({ subscriptionId }) =>
        present(this.#kept.get(subscriptionId), 'an offer comes from a manifest that was read').offers,
    };
  }

  /** One reading serves all who may use it. */
  async #read(subscriptionId: string, since: Reading, signal: AbortSignal): Promise<void> {
    const running = this.#reading.get(subscriptionId);
    if (running !== undefined && isSince(running, since)) return running.done;
    this.#readings += 1;
    const begun: Reading = { startedMs: this.#parts.clock.monotonicMs(), number: this.#readings };
    const done = this.#atOnce(async () => {
      const read = await readManifest(subscriptionId, false, this.#parts, signal);
      this.#kept.set(subscriptionId, { offers: offersOfManifest(read, this.#parts), ...begun });
    });
    const reading = { ...begun, done };
    this.#reading.set(subscriptionId, reading);
    try {
      await done;
    } finally {
      if (this.#reading.get(subscriptionId) === reading) this.#reading.delete(subscriptionId);
    }
  }
}

/** When a reading began: on the monotonic clock, and as which of all. */
interface Reading {
  readonly startedMs: number;
  readonly number: number;
}

interface Kept extends Reading {
  readonly offers: Offers;
}

function isSince(reading: Reading, since: Reading): boolean {
  return reading.startedMs >= since.startedMs && reading.number >= since.number;
}

/** Every dataset has a manifest of its own, which says the same to all subscriptions that contain it. */
function bookOfEntries(
  parts: Parts,
  isAsked: (subscriptionId: string) => boolean,
  kept: readonly Offers[] | null,
): OfferBook {
  const byId = (offers: readonly Offers[]): ReadonlyMap<string, Offers> =>
    new Map(offers.map((each) => [each.subscriptionId, each]));
  let read: ReadonlyMap<string, Offers> | null = kept === null ? null : byId(kept);
  return {
    of({ datasetId, members }) {
      if (read === null) return null;
      const manifests = read;
      return [...members.keys()].flatMap((id) => manifests.get(id)?.of(datasetId) ?? []);
    },
    async read({ datasetId, members }, signal) {
      const manifest = await parts.feed.manifestEntry(datasetId, signal);
      const entries = new Map([[datasetId, manifest]]);
      read = byId([...members.keys()].filter(isAsked).map((id) => offersOfEntries(id, entries, parts)));
    },
    renew() {
      read = null;
    },
    manifestOf: ({ subscriptionId }) =>
      present(read?.get(subscriptionId), 'an offer comes from a manifest that was read'),
  };
}

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

interface ManifestReading {
  /** Without datasets where it belongs to an old log: nothing is loaded from it. */
  readonly manifest: Manifest;
  /** The log that the manifest belongs to, counted as positions are. */
  readonly logNumber: number;
  readonly watermark: Watermark;
  /** The subscriptions as they were listed after the manifest; null: they were not. */
  readonly listedAfter: SubscriptionList | null;
}

/** No event is covered by it. */
const NOTHING: Watermark = { kind: 'number', through: -1n };

/** `isListed`: the subscriptions are listed after it also where the manifest does not say how far it goes. */
export async function readManifest(
  subscriptionId: string,
  isListed: boolean,
  { feed, checkpoint, choices: { manifestLagMs } }: Parts,
  signal: AbortSignal,
): Promise<ManifestReading> {
  const logNumber = checkpoint.followed().get(subscriptionId)?.logNumber ?? 1;
  const manifest = await feed.manifest(subscriptionId, signal);
  const { lastEventId, readAt } = manifest;
  const isToBeListed = isListed || lastEventId !== null;
  const listedAfter = isToBeListed ? await feed.subscriptions(signal) : null;
  const record = listedAfter?.subscriptions.find(({ id }) => id === subscriptionId);
  const newest = record?.lastEventId ?? null;
  const isOfOldLog = lastEventId !== null && newest !== null && newest.number < lastEventId.number;
  if (isOfOldLog)
    return { manifest: { ...manifest, datasets: [] }, logNumber, watermark: NOTHING, listedAfter };
  return { manifest, logNumber, watermark: watermarkOf({ lastEventId, readAt, manifestLagMs }), listedAfter };
}

/** Whether the manifest belongs to a log that the service has begun anew since. */
export function isOfOldLog({ watermark }: Pick<ManifestReading, 'watermark'>): boolean {
  return watermark === NOTHING;
}
