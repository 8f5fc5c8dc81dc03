/**
 * What manifests offer of one dataset, for who plans it: read already by the audit of a catch-up, or read where a plan
 * asks for it and then shared with the other datasets that ask at about the same time.
 *
 * Invariant: what is offered was read after what is wanted was known. A manifest from before may lack what was asked for.
 */

import pLimit from 'p-limit';
import type { Feed } from '../feed/feed.ts';
import { present } from '../lib/assert.ts';
import type { Clock } from '../lib/clock.ts';
import type { Want } from '../model/want.ts';
import { type Offers, offersOfEntries, offersOfManifest } from './offers.ts';
import type { Offer } from './plan/step.ts';

/** Manifests that are read at once where plans ask for them. */
const MANIFESTS_AT_ONCE = 4;

export interface OfferBook {
  /** Of the subscriptions that hold the dataset; null: to be read first. @throws what the reading of an entry threw. */
  of(want: Want): readonly Offer[] | null;
  /** Reads what `of` then gives. */
  read(want: Want, signal: AbortSignal): Promise<void>;
  /** Something else is wanted from now on: what was read before it counts no more. */
  renew(): void;
  /** What the offer is of. */
  manifestOf(offer: Offer): Offers;
}

/** `offers`: of every subscription whose manifest could be read. */
export function bookOfRead(offers: readonly Offers[]): OfferBook {
  return {
    of: ({ datasetId, members }) =>
      offers
        .filter(({ subscriptionId }) => members.has(subscriptionId))
        .flatMap((each) => each.of(datasetId) ?? []),
    async read() {},
    renew() {},
    manifestOf: ({ subscriptionId }) =>
      present(
        offers.find((each) => each.subscriptionId === subscriptionId),
        'an offer comes from a manifest that was read',
      ),
  };
}

/** Manifests as they were last read, each with when its reading began. */
export class KeptManifests {
  readonly #feed: Feed;
  readonly #clock: Clock;
  readonly #kept = new Map<string, Kept>();
  readonly #reading = new Map<string, { readonly startedMs: number; readonly done: Promise<void> }>();
  readonly #atOnce = pLimit(MANIFESTS_AT_ONCE);

  constructor({ feed, clock }: { readonly feed: Feed; readonly clock: Clock }) {
    this.#feed = feed;
    this.#clock = clock;
  }

  /** `startedMs`: when the reading began, on the monotonic clock. */
  keep(offers: Offers, startedMs: number): void {
    this.#kept.set(offers.subscriptionId, { offers, startedMs });
  }

  /**
   * A book of the manifests whose reading began at `sinceMs` or later. `isAsked` says of a subscription whether the
   * service may be asked for its manifest.
   */
  book(sinceMs: number, isAsked: (subscriptionId: string) => boolean): OfferBook {
    return this.#feed.manifestShape() === 'dataset'
      ? bookOfEntries(this.#feed, isAsked)
      : this.#bookOfLists(sinceMs, isAsked);
  }

  #bookOfLists(beginsMs: number, isAsked: (subscriptionId: string) => boolean): OfferBook {
    let sinceMs = beginsMs;
    const fresh = (subscriptionId: string): Offers | null => {
      const kept = this.#kept.get(subscriptionId);
      return kept === undefined || kept.startedMs < sinceMs ? null : kept.offers;
    };
    const asked = ({ members }: Want): readonly string[] => [...members].filter(isAsked);
    return {
      of(want) {
        const manifests = asked(want).map(fresh);
        if (manifests.includes(null)) return null;
        return manifests.flatMap((manifest) => manifest?.of(want.datasetId) ?? []);
      },
      read: async (want, signal) => {
        const missing = asked(want).filter((subscriptionId) => fresh(subscriptionId) === null);
        await Promise.all(missing.map((subscriptionId) => this.#read(subscriptionId, sinceMs, signal)));
      },
      renew: () => {
        sinceMs = this.#clock.monotonicMs();
      },
      manifestOf: ({ subscriptionId }) =>
        present(this.#kept.get(subscriptionId), 'an offer comes from a manifest that was read').offers,
    };
  }

  /** One reading serves all who may use it. */
  async #read(subscriptionId: string, sinceMs: number, signal: AbortSignal): Promise<void> {
    const running = this.#reading.get(subscriptionId);
    if (running !== undefined && running.startedMs >= sinceMs) return running.done;
    const startedMs = this.#clock.monotonicMs();
    const done = this.#atOnce(async () => {
      const manifest = await this.#feed.manifest(subscriptionId, signal);
      this.keep(offersOfManifest(this.#feed, manifest), startedMs);
    });
    const reading = { startedMs, done };
    this.#reading.set(subscriptionId, reading);
    try {
      await done;
    } finally {
      if (this.#reading.get(subscriptionId) === reading) this.#reading.delete(subscriptionId);
    }
  }
}

interface Kept {
  readonly offers: Offers;
  readonly startedMs: number;
}

/** Every dataset has a manifest of its own, which says the same to all subscriptions that hold it. */
function bookOfEntries(feed: Feed, isAsked: (subscriptionId: string) => boolean): OfferBook {
  let read: ReadonlyMap<string, Offers> | null = null;
  return {
    of({ datasetId, members }) {
      if (read === null) return null;
      const manifests = read;
      return [...members].flatMap((subscriptionId) => manifests.get(subscriptionId)?.of(datasetId) ?? []);
    },
    async read({ datasetId, members }, signal) {
      const entry = await feed.manifestEntry(datasetId, signal);
      const holders = [...members].filter(isAsked);
      read = new Map(
        holders.map((subscriptionId) => [
          subscriptionId,
          offersOfEntries(feed, subscriptionId, new Map([[datasetId, entry]])),
        ]),
      );
    },
    renew() {
      read = null;
    },
    manifestOf: ({ subscriptionId }) =>
      present(read?.get(subscriptionId), 'an offer comes from a manifest that was read'),
  };
}
