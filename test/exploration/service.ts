/**
 * The service, as small as it can be: one dataset, one or two subscriptions, and time, which moves only where a step moves it.
 * The content of the dataset is a text: that of a snapshot, and the changes of the versions since (`c1+2+3`).
 */

import type { Step, StepKind } from './history.ts';
import { type Setting, type SubscriptionId, subscriptionsOf } from './setting.ts';

export const DATASET = 'parcels';
const SECOND_MS = 1_000;
export const MINUTE_MS = 60 * SECOND_MS;
const DAY_MS = 24 * 60 * MINUTE_MS;
const EVENTS_KEPT_MS = 90 * DAY_MS;
const FROZEN_MS = 14 * MINUTE_MS;
const LACKING_MS = 8 * MINUTE_MS;
const STARTED_MS = Date.parse('2026-03-01T12:00:00Z');

export interface ListedVersion {
  readonly version: number;
  readonly previousVersion: number | null;
  readonly publishedMs: number;
  readonly content: string;
  /** What its changes add to the content of the version before; null: they are not recorded. */
  readonly changes: string | null;
}

export interface LogEvent {
  readonly number: number;
  readonly type: 'dataset.added' | 'dataset.updated' | 'dataset.resync_required' | 'dataset.removed';
  readonly version: number | null;
  readonly createdMs: number;
}

/** What a manifest says. */
export interface Said {
  readonly lastNumber: number | null;
  /** Null: the dataset is not in it. */
  readonly entry: ListedVersion | null;
}

interface Log {
  readonly events: readonly LogEvent[];
  /** Counts the restarts. */
  readonly restarts: number;
}

/** What the dataset was at some time. */
export interface Past {
  readonly content: string;
  readonly version: number;
  readonly sinceMs: number;
}

/** A change that the logs of some subscriptions announced. */
export interface Announcement {
  readonly atMs: number;
  readonly by: readonly { readonly of: SubscriptionId; readonly restarts: number }[];
}

export class Service {
  readonly setting: Setting;
  nowMs = STARTED_MS;
  #serial = 0;
  #versions: readonly ListedVersion[] = [];
  readonly #members = new Set<SubscriptionId>();
  readonly #logs = new Map<SubscriptionId, Log>();
  readonly #frozen = new Map<SubscriptionId | 'entry', { readonly untilMs: number; readonly said: Said }>();
  /** What the dataset was, oldest first. */
  readonly past: Past[] = [];
  readonly reported: Announcement[] = [];
  /** When a subscription got the dataset by an event that its log has still. */
  readonly #addedMs = new Map<SubscriptionId, number>();
  /** A manifest did not contain an entry, which a first reading cannot know. */
  hasLacked = false;
  /** Whatever is asked about the dataset is refused. */
  isRefusing = false;
  /** When 90 days last passed. */
  expiredMs = 0;
  /** When the list of versions last named other versions. */
  listChangedMs = STARTED_MS;
  /** When no subscription contained the dataset for the last time. */
  uncontainedMs = STARTED_MS;

  constructor(setting: Setting) {
    this.setting = setting;
    for (const id of subscriptionsOf(setting)) this.#logs.set(id, { events: [], restarts: 0 });
    this.#publish(true);
    this.#join('A', true);
    if (setting.subscriptions === 'two') this.#join('B', true);
    this.nowMs += 60 * MINUTE_MS;
    this.#publish(true);
    this.nowMs += 60 * MINUTE_MS;
  }

  /** Each step takes a second. */
  take({ kind, of }: Step): void {
    this.nowMs += SECOND_MS;
    const id = of ?? 'A';
    const effects: Readonly<Partial<Record<StepKind, () => void>>> = {
      P: () => this.#publish(true),
      Q: () => this.#publish(false),
      R: () => this.#replace(),
      W: () => this.#withdraw(),
      N: () => this.#restart(true),
      n: () => this.#restart(false),
      J: () => this.#join(id, true),
      j: () => this.#join(id, false),
      L: () => this.#leave(id, true),
      l: () => this.#leave(id, false),
      F: () => this.#freeze(of ?? 'entry', FROZEN_MS, this.#saidNow(of)),
      E: () => this.#lackEntry(id),
      A: () => this.#restartLog(id),
      X: () => this.#expire(),
      T: () => this.#pass(20 * MINUTE_MS),
      S: () => {
        this.isRefusing = true;
      },
    };
    const effect = effects[kind];
    if (effect === undefined) throw new Error(`${kind} is no step of the service.`);
    effect();
  }

  get versions(): readonly ListedVersion[] {
    return this.#versions;
  }

  get newest(): ListedVersion {
    const newest = this.#versions.at(-1);
    if (newest === undefined) throw new Error('There is always a version.');
    return newest;
  }

  contains(id: SubscriptionId): boolean {
    return this.#members.has(id);
  }

  get isContained(): boolean {
    return this.#members.size > 0;
  }

  /** Since when the log of a subscription that contains the dataset says so; null: none does. */
  get addedMs(): number | null {
    const added = [...this.#addedMs.values()];
    return added.length === 0 ? null : Math.min(...added);
  }

  /** Whether some log that announced it is still there. */
  isStillAnnounced({ by }: Announcement): boolean {
    return by.some(({ of, restarts }) => this.logOf(of).restarts === restarts);
  }

  logOf(id: SubscriptionId): Log {
    const log = this.#logs.get(id);
    if (log === undefined) throw new Error(`There is no subscription ${id}.`);
    return log;
  }

  lastNumberOf(id: SubscriptionId): number | null {
    return this.logOf(id).events.at(-1)?.number ?? null;
  }

  /** The highest number that the log keeps no more; 0: it keeps all. */
  expiredUpTo(id: SubscriptionId): number {
    const expired = this.logOf(id).events.filter(({ createdMs }) => createdMs < this.nowMs - EVENTS_KEPT_MS);
    return expired.at(-1)?.number ?? 0;
  }

  /** Of a subscription; null: of the dataset. */
  manifestOf(id: SubscriptionId | null): Said {
    const frozen = this.#frozen.get(id ?? 'entry');
    return frozen !== undefined && this.nowMs < frozen.untilMs ? frozen.said : this.#saidNow(id);
  }

  /** All state that decides its further answers, as of now. */
  state(): unknown {
    const frozen = [...this.#frozen].map(([id, { untilMs, said }]) => {
      const isOver = untilMs <= this.nowMs;
      return [id, isOver ? null : [untilMs - this.nowMs, said.lastNumber, said.entry?.content]];
    });
    return [
      this.isRefusing,
      this.#versions.map(({ publishedMs, ...rest }) => [publishedMs - this.nowMs, rest]),
      [...this.#members].sort(),
      [...this.#logs].map(([id, { events }]) => [
        id,
        events.map(({ createdMs, ...rest }) => [createdMs - this.nowMs, rest]),
      ]),
      frozen,
    ];
  }

  #saidNow(id: SubscriptionId | null): Said {
    if (id === null) return { lastNumber: null, entry: this.newest };
    const lastNumber = this.setting.manifest === 'number' ? this.lastNumberOf(id) : null;
    return { lastNumber, entry: this.contains(id) ? this.newest : null };
  }

  #publish(isRecorded: boolean): void {
    this.#serial += 1;
    const before = this.#versions.at(-1) ?? null;
    const version = (before?.version ?? 0) + 1;
    const content = before === null ? `c${this.#serial}` : `${before.content}+${this.#serial}`;
    this.#versions = [
      ...this.#versions,
      {
        version,
        previousVersion: before?.version ?? null,
        publishedMs: this.nowMs,
        content,
        changes: isRecorded && before !== null ? `+${this.#serial}` : null,
      },
    ];
    this.#became(content, version);
    this.#report('dataset.updated', version);
  }

  #replace(): void {
    this.#serial += 1;
    const content = `c${this.#serial}`;
    // Content without an event is another version: nothing else could show it where no digests are stated.
    const publishedMs = this.isContained ? this.newest.publishedMs : this.nowMs;
    if (!this.isContained) this.listChangedMs = this.nowMs;
    this.#versions = [...this.#versions.slice(0, -1), { ...this.newest, content, publishedMs }];
    this.#became(content, this.newest.version);
    this.#report('dataset.resync_required', this.newest.version);
  }

  #withdraw(): void {
    if (this.#versions.length < 2) return;
    this.#versions = this.#versions.slice(0, -1);
    this.listChangedMs = this.nowMs;
    this.#became(this.newest.content, this.newest.version);
  }

  #restart(isReported: boolean): void {
    this.#serial += 1;
    const content = `c${this.#serial}`;
    this.#versions = [{ version: 1, previousVersion: null, publishedMs: this.nowMs, content, changes: null }];
    this.#became(content, 1);
    this.listChangedMs = this.nowMs;
    if (isReported) this.#report('dataset.resync_required', 1);
  }

  #became(content: string, version: number): void {
    this.past.push({ content, version, sinceMs: this.nowMs });
  }

  #report(type: LogEvent['type'], version: number): void {
    const by = [...this.#members].map((of) => ({ of, restarts: this.logOf(of).restarts }));
    for (const { of } of by) this.#log(of, type, version);
    if (by.length > 0) this.reported.push({ atMs: this.nowMs, by });
  }

  #log(id: SubscriptionId, type: LogEvent['type'], version: number | null): void {
    const { events, restarts } = this.logOf(id);
    const number = (this.lastNumberOf(id) ?? 0) + 1;
    this.#logs.set(id, { events: [...events, { number, type, version, createdMs: this.nowMs }], restarts });
  }

  #join(id: SubscriptionId, isReported: boolean): void {
    if (this.contains(id)) return;
    if (!this.isContained) this.uncontainedMs = this.nowMs;
    this.#members.add(id);
    if (!isReported) return;
    this.#addedMs.set(id, this.nowMs);
    this.#log(id, 'dataset.added', this.newest.version);
  }

  #leave(id: SubscriptionId, isReported: boolean): void {
    if (!this.#members.delete(id)) return;
    this.#addedMs.delete(id);
    if (!this.isContained) this.uncontainedMs = this.nowMs;
    if (isReported) this.#log(id, 'dataset.removed', null);
  }

  /** The new log names the datasets that the subscription contains. */
  #restartLog(id: SubscriptionId): void {
    this.#logs.set(id, { events: [], restarts: this.logOf(id).restarts + 1 });
    this.#addedMs.delete(id);
    if (this.contains(id)) this.#log(id, 'dataset.added', this.newest.version);
  }

  #lackEntry(id: SubscriptionId): void {
    this.hasLacked = true;
    this.#freeze(id, LACKING_MS, { ...this.#saidNow(id), entry: null });
  }

  #expire(): void {
    this.expiredMs = this.nowMs;
    this.#pass(EVENTS_KEPT_MS);
  }

  #pass(ms: number): void {
    this.nowMs += ms;
  }

  #freeze(id: SubscriptionId | 'entry', forMs: number, said: Said): void {
    const frozen = this.#frozen.get(id);
    if (frozen !== undefined && this.nowMs < frozen.untilMs) return;
    this.#frozen.set(id, { untilMs: this.nowMs + forMs, said });
  }
}
