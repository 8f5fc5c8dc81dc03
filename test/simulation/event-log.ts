/** What a history does to the logs on their way: events that are lost for good, that come twice, in another order, or unreadable. */

import type { FeedEvent } from '../../fixtures/feed/model.ts';
import { eventId } from '../../fixtures/feed/wire-records.ts';
import type { FeedSide } from './stage.ts';

interface Page {
  readonly events: readonly WireEvent[];
  readonly hasMore: boolean;
}

interface WireEvent {
  readonly id: string;
}

export type ChangePage = (events: readonly unknown[]) => readonly unknown[];

export class EventLogs {
  readonly #feed: FeedSide;
  readonly #perPage: number;
  readonly #lost = new Set<string>();
  /** By subscription id: what happens to its next pages, one each. */
  readonly #next = new Map<string, ChangePage[]>();

  constructor(feed: FeedSide, eventsPerPage: number) {
    this.#feed = feed;
    this.#perPage = eventsPerPage;
  }

  /** Makes pages as they are to be; called again after the faults of the feed were cleared. */
  install(): void {
    for (const subscriptionId of this.#feed.store.subscriptions.keys()) this.installFor(subscriptionId);
  }

  installFor(subscriptionId: string): void {
    this.#feed.faults.add({
      match: { operation: 'events', subscriptionId, times: 'always' },
      act: { kind: 'rewrite', rewrite: (body) => (isPage(body) ? this.#page(body, subscriptionId) : body) },
    });
  }

  /** The events that `publish` logs never arrive anywhere. */
  losing<T>(publish: () => T): T {
    const { subscriptions } = this.#feed.store;
    const before = new Map([...subscriptions].map(([id, { log }]) => [id, log.lastNumber ?? 0]));
    const result = publish();
    for (const [id, { log }] of subscriptions) {
      for (let number = (before.get(id) ?? 0) + 1; number <= (log.lastNumber ?? 0); number += 1)
        this.#lost.add(`${id} ${eventId(number)}`);
    }
    return result;
  }

  /** The log restarts: losses of the old log say nothing about numbers of the new one. */
  noteRestart(subscriptionId: string): void {
    for (const lost of this.#lost) if (lost.startsWith(`${subscriptionId} `)) this.#lost.delete(lost);
  }

  /** The next page of the subscription that is not empty arrives as `change` makes it. */
  changeNextPage(change: ChangePage, subscriptionId: string): void {
    this.#next.set(subscriptionId, [...(this.#next.get(subscriptionId) ?? []), change]);
  }

  /** Pages arrive as they are again, but for what is lost. */
  settle(): void {
    this.#next.clear();
  }

  /** The events of a subscription that are kept. */
  kept(subscriptionId: string): readonly FeedEvent[] {
    const { store, clock } = this.#feed;
    const query = { after: null, types: null, limit: Number.POSITIVE_INFINITY, now: clock.now() };
    const page = store.subscription(subscriptionId).log.read(query);
    return page.kind === 'page' ? page.events : [];
  }

  #page({ events, hasMore }: Page, subscriptionId: string): Page {
    const arriving = events.filter(({ id }) => !this.#lost.has(`${subscriptionId} ${id}`));
    const cut = arriving.slice(0, this.#perPage);
    const change = cut.length === 0 ? undefined : this.#next.get(subscriptionId)?.shift();
    const changed = change === undefined ? cut : change(cut);
    return { events: changed as readonly WireEvent[], hasMore: hasMore || arriving.length > cut.length };
  }
}

function isPage(body: unknown): body is Page {
  return Array.isArray(Object(body).events);
}
