/**
 * The datasets that are not where they should be, and when each is worked on. What something new is known of is due at
 * once; what waits is tried again with growing waits; what the checkpoint tells when to try, then.
 *
 * Invariant: what is asked for while a dataset is worked on is not lost: it is due again when that work has ended.
 */

import type { Random } from '../lib/backoff.ts';
import { type ClockReading, type DueTime, LOOKING_AGAIN, retryWaitMs } from './clocks.ts';
import type { Session } from './session.ts';

/** A manifest that was read so shortly before a retry serves it: what waits for the same thing asks for it once. */
const ENTRIES_FRESH_MS = 10_000;

export interface Item {
  readonly datasetId: string;
  /** When it may be worked on, on the monotonic clock. */
  readonly dueMs: number;
  /** What manifests offer has to have been read since then. */
  readonly sinceMs: number;
  /** Retries so far, without anything new. */
  readonly attempts: number;
  /** For people; null: it was not tried yet. */
  readonly waitsFor: string | null;
  /** It failed because the service could not be reached: once it is, there is nothing to wait for. */
  readonly isOutage: boolean;
  /** It is worked on again with this poll, which says when it is due; null: it waits for none. */
  readonly poll: DueTime | null;
}

/** How long something is to wait, where its attempts do not say it. */
interface Wait {
  /** Null: as long as its attempts make it. */
  readonly waitMs?: number | null;
  readonly isOutage?: boolean;
  readonly poll?: DueTime | null;
}

export class WorkQueue {
  readonly #items = new Map<string, Item>();
  readonly #random: Random;

  constructor(random: Random) {
    this.#random = random;
  }

  get items(): ReadonlyMap<string, Item> {
    return this.#items;
  }

  /** Something new is known of the dataset, and manifests that were read since `sinceMs` may know it, too. */
  ask(datasetId: string, nowMs: number, sinceMs: number = nowMs): void {
    const asked = this.#items.get(datasetId);
    const isNewer = asked !== undefined && asked.attempts === 0 && asked.sinceMs > sinceMs;
    this.#items.set(datasetId, {
      ...newItem(datasetId, nowMs),
      sinceMs: isNewer ? asked.sinceMs : sinceMs,
    });
  }

  /** Unless it was asked for meanwhile. */
  postpone(item: Item, waitsFor: string, nowMs: number, wait: Wait = {}): void {
    const { waitMs = null, isOutage = false, poll = null } = wait;
    if (this.#items.has(item.datasetId)) return;
    const attempts = item.attempts + 1;
    const dueMs = nowMs + (waitMs ?? retryWaitMs(LOOKING_AGAIN, attempts, this.#random));
    this.#items.set(item.datasetId, {
      datasetId: item.datasetId,
      dueMs,
      sinceMs: dueMs - ENTRIES_FRESH_MS,
      attempts,
      waitsFor,
      isOutage,
      poll,
    });
  }

  /** It waits already, by a clock that is older than this process or this audit. */
  askLater(datasetId: string, waitsFor: string, nowMs: number, waitMs: number): void {
    this.postpone(newItem(datasetId, nowMs), waitsFor, nowMs, { waitMs });
  }

  /** It is worked on again with the next poll. */
  askWithPoll(datasetId: string, waitsFor: string, now: ClockReading, poll: DueTime): void {
    const nowMs = now.monotonicMs;
    const waitMs = poll.dueMs(now) - nowMs;
    this.postpone(newItem(datasetId, nowMs), waitsFor, nowMs, { waitMs, poll });
  }

  /** What is worked on with the next poll is due with it, however the clocks were set since. */
  followPolls(now: ClockReading): void {
    for (const [datasetId, item] of this.#items) {
      if (item.poll === null) continue;
      const dueMs = item.poll.dueMs(now);
      this.#items.set(datasetId, { ...item, dueMs, sinceMs: dueMs - ENTRIES_FRESH_MS });
    }
  }

  /** The service answers again. */
  outageOver(nowMs: number): void {
    for (const [datasetId, item] of this.#items) {
      if (item.isOutage)
        this.#items.set(datasetId, { ...item, dueMs: Math.min(item.dueMs, nowMs), isOutage: false });
    }
  }

  /** Takes the one that is due for longest, of those that `isFree` lets; null: none. */
  take(nowMs: number, isFree: (datasetId: string) => boolean): Item | null {
    let next: Item | null = null;
    for (const item of this.#items.values()) {
      if (item.dueMs > nowMs || (next !== null && item.dueMs >= next.dueMs)) continue;
      if (isFree(item.datasetId)) next = item;
    }
    if (next !== null) this.#items.delete(next.datasetId);
    return next;
  }

  /** Whether anything has its time come. */
  isDue(nowMs: number): boolean {
    for (const { dueMs } of this.#items.values()) if (dueMs <= nowMs) return true;
    return false;
  }
}

function newItem(datasetId: string, nowMs: number): Item {
  return {
    datasetId,
    dueMs: nowMs,
    sinceMs: nowMs,
    attempts: 0,
    waitsFor: null,
    isOutage: false,
    poll: null,
  };
}

export class Behind {
  readonly #session: Session;
  readonly #since = new Map<string, Date>();
  #caughtUpAt: Date | null = null;

  constructor(session: Session) {
    this.#session = session;
  }

  /** By dataset id. */
  get since(): ReadonlyMap<string, Date> {
    return this.#since;
  }

  /** Null: not yet. */
  get caughtUpAt(): Date | null {
    return this.#caughtUpAt;
  }

  /** It is known from when it came onto the agenda. `isSettled`: all was read, and nothing is worked on. */
  look(isSettled: boolean): void {
    const { workQueue, parts } = this.#session;
    const now = parts.clock.now();
    for (const datasetId of workQueue.items.keys()) {
      if (!this.#since.has(datasetId)) this.#since.set(datasetId, now);
    }
    if (this.#caughtUpAt === null && isSettled && !workQueue.isDue(this.#session.nowMs()))
      this.#caughtUpAt = now;
  }

  over(datasetId: string): void {
    this.#since.delete(datasetId);
  }
}
