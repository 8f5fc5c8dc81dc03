/**
 * What is done right now, as the catch-up tells it: kept for the state, counted, told to observers, and a line in the
 * log for every commit. Everything that arrives feeds the watchdog.
 */

import type { Log } from '../lib/log.ts';
import type { FeedEvent, UnreadableEvent } from '../model/event.ts';
import { type Need, needOf } from '../sync/plan/need.ts';
import type { Extent, Progress } from '../sync/progress.ts';
import { logCommit, logRetirement, logStep } from '../sync/progress-log.ts';
import type { Commit, DatasetResult } from '../sync/result.ts';
import type { Session } from './session.ts';
import type { ResyncReason, WorkState } from './state.ts';

export class Activity implements Progress {
  readonly #session: Session;
  readonly #log: Log;
  /** Whoever shows it while it goes on. */
  readonly #shown: Progress;
  readonly #work = new Map<string, WorkState>();
  /** What the steps that are under way are for. */
  readonly #needs = new Map<string, Need>();
  /** By dataset id: when the step that is under way began, and when the last bytes for it arrived; on the monotonic clock. */
  readonly #arrivals = new Map<string, { readonly beganMs: number; readonly lastMs: number | null }>();
  /** By subscription id: when the newest event was created, where its page said so. */
  readonly #newest = new Map<string, Date>();

  constructor(session: Session, log: Log, shown: Progress) {
    this.#session = session;
    this.#log = log;
    this.#shown = shown;
  }

  /** By dataset id. */
  get work(): ReadonlyMap<string, WorkState> {
    return this.#work;
  }

  /** When the newest event that was read here was created, else when it was read; null: none was. */
  newestEventAt(subscriptionId: string): Date | null {
    return this.#newest.get(subscriptionId) ?? null;
  }

  read(subscriptionId: string, events: readonly (FeedEvent | UnreadableEvent)[]): void {
    this.#shown.read(subscriptionId, events);
    for (const event of events) {
      const type = event.kind === 'event' ? event.type : 'unreadable';
      this.#session.tell({ kind: 'events', subscriptionId, type });
      const createdAt = event.kind === 'event' ? event.createdAt : null;
      this.#newest.set(subscriptionId, createdAt ?? this.#session.parts.clock.now());
    }
  }

  started(): void {}

  began(datasetId: string, step: string, extent: Extent): void {
    this.#shown.began(datasetId, step, extent);
    const { checkpoint, clock } = this.#session.parts;
    const want = checkpoint.want(datasetId);
    const held = this.#session.mirror.held.datasets.get(datasetId) ?? null;
    if (want !== null) this.#needs.set(datasetId, needOf(held, want));
    this.#work.set(datasetId, { step, since: clock.now(), bytes: 0 });
    this.#arrivals.set(datasetId, { beganMs: clock.monotonicMs(), lastMs: null });
    logStep(this.#log, datasetId, step);
  }

  downloaded(bytes: number, datasetId: string): void {
    this.#shown.downloaded(bytes, datasetId);
    const work = this.#work.get(datasetId);
    if (work !== undefined) this.#work.set(datasetId, { ...work, bytes: work.bytes + bytes });
    const arrival = this.#arrivals.get(datasetId);
    if (arrival !== undefined) this.#arrivals.set(datasetId, { ...arrival, lastMs: this.#session.nowMs() });
    this.#session.tell({ kind: 'bytes', datasetId, bytes });
  }

  arrived(datasetId: string): void {
    this.#shown.arrived(datasetId);
  }

  committed(dataset: string, commit: Commit): void {
    this.#shown.committed(dataset, commit);
    this.#session.tell({
      kind: 'commit',
      datasetId: dataset,
      commit,
      resync: this.#resyncOf(dataset, commit),
    });
    const { beganMs = 0, lastMs = null } = this.#arrivals.get(dataset) ?? {};
    if (lastMs !== null) {
      this.#session.tell({ kind: 'download', datasetId: dataset, durationMs: lastMs - beganMs });
    }
    logCommit(this.#log, dataset, commit);
  }

  settled(result: DatasetResult): void {
    this.#shown.settled(result);
    const { datasetId: dataset } = result;
    this.#work.delete(dataset);
    this.#needs.delete(dataset);
    this.#arrivals.delete(dataset);
    if (result.kind !== 'retired') return;
    this.#session.tell({ kind: 'retired', datasetId: dataset });
    logRetirement(this.#log, dataset, result.table);
  }

  #resyncOf(datasetId: string, { kind, fromVersion }: Commit): ResyncReason | null {
    if (kind !== 'snapshot' || fromVersion === null) return null;
    const need = this.#needs.get(datasetId);
    return need === 'reload' || need === 'resync' || need === 'schema' ? need : 'version';
  }
}
