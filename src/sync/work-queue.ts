/**
 * The datasets that are behind, and when each is due. A dataset with news is due at once, a dataset that waits for the service
 * after growing waits, and a failed dataset at the time that its failure states.
 *
 * Invariant: a request for a dataset that is being worked on is not lost: the dataset is due again when that work has ended.
 */

import { type Random, steadyDelayMs } from '../lib/backoff.ts';
import { type ClockReading, type DueTime, WAITING_AGAIN } from './clocks.ts';

/** A retry uses a manifest of this age, so that datasets which wait for the same manifest read it once. */
const ENTRIES_FRESH_MS = 10_000;

export interface Entry {
  readonly datasetId: string;
  /** When work may begin, on the monotonic clock. */
  readonly dueMs: number;
  /** Manifests have to be read since then, on the monotonic clock. */
  readonly sinceMs: number;
  /** Retries since the last news. */
  readonly attempts: number;
  /** For the operator; null: no attempt was made yet. */
  readonly waitsFor: string | null;
  /** The service could not be reached: the entry is due as soon as it can be. */
  readonly isOutage: boolean;
  /** The poll that the entry is due with; null: the entry waits for no poll. */
  readonly poll: DueTime | null;
}

/** How long an entry waits. */
interface Wait {
  /** Null: the number of attempts decides. */
  readonly waitMs?: number | null;
  readonly isOutage?: boolean;
  readonly poll?: DueTime | null;
}

export class WorkQueue {
  readonly #entries = new Map<string, Entry>();
  readonly #random: Random;

  constructor(random: Random) {
    this.#random = random;
  }

  get entries(): ReadonlyMap<string, Entry> {
    return this.#entries;
  }

  /** Queues a dataset of which there is news, and manifests that were read since `sinceMs` may reflect it. */
  ask(datasetId: string, nowMs: number, sinceMs: number = nowMs): void {
    const asked = this.#entries.get(datasetId);
    const isNewer = asked !== undefined && asked.attempts === 0 && asked.sinceMs > sinceMs;
    this.#entries.set(datasetId, {
      ...newEntry(datasetId, nowMs),
      sinceMs: isNewer ? asked.sinceMs : sinceMs,
    });
  }

  /** Does nothing where the dataset was asked for meanwhile. */
  postpone(entry: Entry, waitsFor: string, nowMs: number, wait: Wait = {}): void {
    const { waitMs = null, isOutage = false, poll = null } = wait;
    if (this.#entries.has(entry.datasetId)) return;
    const attempts = entry.attempts + 1;
    const dueMs = nowMs + (waitMs ?? steadyDelayMs(WAITING_AGAIN, attempts, this.#random));
    this.#entries.set(entry.datasetId, {
      datasetId: entry.datasetId,
      dueMs,
      sinceMs: dueMs - ENTRIES_FRESH_MS,
      attempts,
      waitsFor,
      isOutage,
      poll,
    });
  }

  /** Queues a dataset that waits already, since before this process or this audit. */
  askLater(datasetId: string, waitsFor: string, nowMs: number, waitMs: number): void {
    this.postpone(newEntry(datasetId, nowMs), waitsFor, nowMs, { waitMs });
  }

  /** Queues a dataset that is due with `poll`. */
  askWithPoll(datasetId: string, waitsFor: string, now: ClockReading, poll: DueTime): void {
    const nowMs = now.monotonicMs;
    const waitMs = poll.dueMs(now) - nowMs;
    this.postpone(newEntry(datasetId, nowMs), waitsFor, nowMs, { waitMs, poll });
  }

  /** Moves the entries that wait for a poll to the time of that poll, however the clocks were set since. */
  followPolls(now: ClockReading): void {
    for (const [datasetId, entry] of this.#entries) {
      if (entry.poll === null) continue;
      const dueMs = entry.poll.dueMs(now);
      this.#entries.set(datasetId, { ...entry, dueMs, sinceMs: dueMs - ENTRIES_FRESH_MS });
    }
  }

  /** Notes that the service answers again: entries that failed for its outage are due. */
  outageOver(nowMs: number): void {
    for (const [datasetId, entry] of this.#entries) {
      if (entry.isOutage)
        this.#entries.set(datasetId, { ...entry, dueMs: Math.min(entry.dueMs, nowMs), isOutage: false });
    }
  }

  /** Takes the entry that has been due for longest among the free ones; null: there is none. */
  take(nowMs: number, isFree: (datasetId: string) => boolean): Entry | null {
    let next: Entry | null = null;
    for (const entry of this.#entries.values()) {
      if (entry.dueMs > nowMs || (next !== null && entry.dueMs >= next.dueMs)) continue;
      if (isFree(entry.datasetId)) next = entry;
    }
    if (next !== null) this.#entries.delete(next.datasetId);
    return next;
  }

  /** Returns whether any entry is due. */
  isDue(nowMs: number): boolean {
    for (const { dueMs } of this.#entries.values()) if (dueMs <= nowMs) return true;
    return false;
  }
}

function newEntry(datasetId: string, nowMs: number): Entry {
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
