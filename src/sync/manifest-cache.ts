/**
 * Provides the manifest entries of one dataset to its plan: entries that the audit of a catch-up read, or entries that
 * a plan requests and shares with other datasets that ask at about the same time.
 *
 * Invariant: entries were read after the desired state was known. An earlier manifest may lack what was requested.
 */

import pLimit from 'p-limit';
import type { DatasetManifest, Feed, SubscriptionList } from '../feed/feed.ts';
import { present } from '../lib/assert.ts';
import type { DesiredState } from '../model/desired-state.ts';
import {
  type ListedEntry,
  type Manifest,
  type ManifestEntry,
  type Watermark,
  watermarkOf,
} from '../model/manifest.ts';
import { isOfOneDataset } from './incidents.ts';
import type { Parts } from './parts.ts';

/** Manifests that plans may read at once. */
const MANIFESTS_AT_ONCE = 4;

export interface EntrySource {
  /**
   * Returns the entries of the subscriptions that contain the dataset; null: they are to be read first. @throws the error of reading an
   * entry.
   */
  of(desired: DesiredState): readonly ListedEntry[] | null;
  /** Reads the entries that `of` returns afterwards. */
  read(desired: DesiredState, signal: AbortSignal): Promise<void>;
  /** Voids earlier readings, because the desired state has changed. */
  renew(): void;
  /** Returns the manifest of the entry. */
  manifestOf(listedEntry: ListedEntry): ListedEntries;
}

/** The manifests as they were last read, each with the start time of its reading. */
export class KeptManifests {
  readonly #parts: Parts;
  readonly #kept = new Map<string, Kept>();
  readonly #reading = new Map<string, Reading & { readonly done: Promise<void> }>();
  readonly #atOnce = pLimit(MANIFESTS_AT_ONCE);
  #readings = 0;

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  /** Keeps the entries of a reading. `startedMs`: when the reading began, on the monotonic clock. */
  keep(listedEntries: ListedEntries, startedMs: number): void {
    this.#readings += 1;
    this.#kept.set(listedEntries.subscriptionId, { listedEntries, startedMs, number: this.#readings });
  }

  /**
   * Returns a source of the manifests whose reading began at `sinceMs` or later; where each dataset has its own
   * manifest, kept ones count only with `withEntries`. `isAsked` says whether the service may be asked for the manifest
   * of a subscription.
   */
  sourceSince(
    sinceMs: number,
    isAsked: (subscriptionId: string) => boolean,
    withEntries = false,
  ): EntrySource {
    if (this.#parts.feed.manifestShape() !== 'dataset') return this.#sourceOfLists(sinceMs, isAsked);
    const kept = [...this.#kept.values()].map(({ listedEntries }) => listedEntries);
    return sourceOfEntries(this.#parts, isAsked, withEntries ? kept : null);
  }

  #sourceOfLists(beginsMs: number, isAsked: (subscriptionId: string) => boolean): EntrySource {
    let since: Reading = { startedMs: beginsMs, number: 0 };
    const fresh = (subscriptionId: string): ListedEntries | null => {
      const kept = this.#kept.get(subscriptionId);
      return kept === undefined || !isSince(kept, since) ? null : kept.listedEntries;
    };
    const asked = ({ members }: DesiredState): readonly string[] => [...members.keys()].filter(isAsked);
    return {
      of(desired) {
        const manifests = asked(desired).map(fresh);
        if (manifests.includes(null)) return null;
        return manifests.flatMap((manifest) => manifest?.of(desired.datasetId) ?? []);
      },
      read: async (desired, signal) => {
        const missing = asked(desired).filter((subscriptionId) => fresh(subscriptionId) === null);
        await Promise.all(missing.map((subscriptionId) => this.#read(subscriptionId, since, signal)));
      },
      renew: () => {
        since = { startedMs: this.#parts.clock.monotonicMs(), number: this.#readings + 1 };
      },
      manifestOf: ({ subscriptionId }) =>
        present(this.#kept.get(subscriptionId), 'an entry comes from a manifest that was read').listedEntries,
    };
  }

  /** Reads a manifest; one reading serves every caller that may use it. */
  async #read(subscriptionId: string, since: Reading, signal: AbortSignal): Promise<void> {
    const running = this.#reading.get(subscriptionId);
    if (running !== undefined && isSince(running, since)) return running.done;
    this.#readings += 1;
    const begun: Reading = { startedMs: this.#parts.clock.monotonicMs(), number: this.#readings };
    const done = this.#atOnce(async () => {
      const read = await readManifest(subscriptionId, false, this.#parts, signal);
      this.#kept.set(subscriptionId, { listedEntries: readingOfManifest(read, this.#parts), ...begun });
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

/** The start of a reading: its time on the monotonic clock, and its number in the order of all readings. */
interface Reading {
  readonly startedMs: number;
  readonly number: number;
}

interface Kept extends Reading {
  readonly listedEntries: ListedEntries;
}

function isSince(reading: Reading, since: Reading): boolean {
  return reading.startedMs >= since.startedMs && reading.number >= since.number;
}

/** Every dataset has a manifest of its own, which is the same for all subscriptions that contain the dataset. */
function sourceOfEntries(
  parts: Parts,
  isAsked: (subscriptionId: string) => boolean,
  kept: readonly ListedEntries[] | null,
): EntrySource {
  const byId = (listedEntries: readonly ListedEntries[]): ReadonlyMap<string, ListedEntries> =>
    new Map(listedEntries.map((each) => [each.subscriptionId, each]));
  let read: ReadonlyMap<string, ListedEntries> | null = kept === null ? null : byId(kept);
  return {
    of({ datasetId, members }) {
      if (read === null) return null;
      const manifests = read;
      return [...members.keys()].flatMap((id) => manifests.get(id)?.of(datasetId) ?? []);
    },
    async read({ datasetId, members }, signal) {
      const manifest = await parts.feed.manifestEntry(datasetId, signal);
      const entries = new Map([[datasetId, manifest]]);
      read = byId([...members.keys()].filter(isAsked).map((id) => readingOfEntries(id, entries, parts)));
    },
    renew() {
      read = null;
    },
    manifestOf: ({ subscriptionId }) =>
      present(read?.get(subscriptionId), 'an entry comes from a manifest that was read'),
  };
}

/** Manifest entries of single datasets that are requested at once. */
const ENTRIES_AT_ONCE = 8;

export interface ListedEntries {
  readonly subscriptionId: string;
  /**
   * Returns the entry of a dataset. Null: the manifest does not list the dataset. @throws the error of reading this dataset's own manifest.
   */
  of(datasetId: string): ListedEntry | null;
  /**
   * Returns the current entry in place of `expired`. The manifest is read again at most once, because the links of many datasets
   * expire together.
   */
  refresh(expired: ManifestEntry, signal: AbortSignal): Promise<ManifestEntry | null>;
}

export function readingOfManifest(reading: ManifestReading, parts: Parts): ListedEntries {
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

function listed({ manifest, logNumber, watermark }: ManifestReading): ReadonlyMap<string, ListedEntry> {
  const { subscriptionId, readAt, datasets } = manifest;
  return new Map(
    datasets.map((entry) => [
      entry.datasetId,
      { subscriptionId, logNumber, through: subscriptionId, watermark, readAt, entry },
    ]),
  );
}

/** Reads the entries of `datasetIds`. @throws the first error that concerns more than one dataset. */
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

/** Returns the reading of single manifests, which say nothing about the log. */
export function readingOfEntries(
  subscriptionId: string,
  read: ReadonlyMap<string, DatasetManifest | Error>,
  { feed, checkpoint, choices: { manifestLagMs } }: Parts,
): ListedEntries {
  const logNumber = checkpoint.followed().get(subscriptionId)?.logNumber ?? 1;
  const listedEntryOf = ({ entry, readAt }: DatasetManifest): ListedEntry => {
    const watermark = watermarkOf({ lastEventId: null, readAt, manifestLagMs });
    return { subscriptionId, logNumber, through: null, watermark, readAt, entry };
  };
  const latest = new Map(
    [...read].map(([datasetId, one]) => [datasetId, one instanceof Error ? one : listedEntryOf(one)]),
  );
  return {
    subscriptionId,
    of(datasetId) {
      const listedEntry = latest.get(datasetId);
      if (listedEntry instanceof Error) throw listedEntry;
      return listedEntry ?? null;
    },
    async refresh({ datasetId }, signal) {
      const renewed = await feed.manifestEntry(datasetId, signal);
      latest.set(datasetId, listedEntryOf(renewed));
      return renewed.entry;
    },
  };
}

interface ManifestReading {
  /** Without datasets where the manifest belongs to an old log: nothing is loaded from such a manifest. */
  readonly manifest: Manifest;
  /** The log that the manifest belongs to, counted as in positions. */
  readonly logNumber: number;
  readonly watermark: Watermark;
  /** The subscriptions as they were listed after the manifest; null: they were not listed then. */
  readonly listedAfter: SubscriptionList | null;
}

/** A watermark that covers no event. */
const NOTHING: Watermark = { kind: 'number', through: -1n };

/** Reads the manifest of a subscription. `isListed`: the subscriptions are listed afterwards even where the manifest has no watermark. */
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

/** Returns whether the manifest belongs to a log that the service has restarted since. */
export function isOfOldLog({ watermark }: Pick<ManifestReading, 'watermark'>): boolean {
  return watermark === NOTHING;
}
