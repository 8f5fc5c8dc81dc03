/**
 * The running work, as the engine reports it: kept for the state, counted, passed to observers, with a log line for every
 * commit. Everything that arrives feeds the watchdog.
 */

import type { Log } from '../lib/log.ts';
import type { CommitResult } from '../model/commits.ts';
import type { EventType, FeedEvent, UnreadableEvent } from '../model/event.ts';
import { type Need, needOf } from '../sync/plan/need.ts';
import { type Extent, logCommit, logRetirement, logStep, type Progress } from '../sync/progress.ts';
import type { DatasetResult } from '../sync/result.ts';
import type { Session } from './session.ts';
import type { Counters, DaemonEvent, ExportOutcome, ResyncReason, WorkState } from './state.ts';

export class Activity implements Progress {
  readonly #session: Session;
  readonly #log: Log;
  /** The live view. */
  readonly #shown: Progress;
  readonly #work = new Map<string, WorkState>();
  /** Why each running step is needed. */
  readonly #needs = new Map<string, Need>();
  /** By dataset id: when the running step began, and when its last bytes arrived; on the monotonic clock. */
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

  /** When the newest event that was read was created, else when it was read; null: none was read. */
  newestEventAt(subscriptionId: string): Date | null {
    return this.#newest.get(subscriptionId) ?? null;
  }

  read(subscriptionId: string, events: readonly (FeedEvent | UnreadableEvent)[]): void {
    this.#shown.read(subscriptionId, events);
    for (const event of events) {
      const type = event.kind === 'event' ? event.type : 'unreadable';
      this.#session.report({ kind: 'events', subscriptionId, type });
      const createdAt = event.kind === 'event' ? event.createdAt : null;
      this.#newest.set(subscriptionId, createdAt ?? this.#session.parts.clock.now());
    }
  }

  started(): void {}

  began(datasetId: string, step: string, extent: Extent): void {
    this.#shown.began(datasetId, step, extent);
    const { checkpoint, clock } = this.#session.parts;
    const desired = checkpoint.desired(datasetId);
    const observed = this.#session.mirror.observed.datasets.get(datasetId) ?? null;
    if (desired !== null) this.#needs.set(datasetId, needOf(observed, desired));
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
    this.#session.report({ kind: 'bytes', datasetId, bytes });
  }

  arrived(datasetId: string): void {
    this.#shown.arrived(datasetId);
  }

  committed(dataset: string, commit: CommitResult): void {
    this.#shown.committed(dataset, commit);
    this.#session.report({
      kind: 'commit',
      datasetId: dataset,
      commit,
      resync: this.#resyncOf(dataset, commit),
    });
    const { beganMs = 0, lastMs = null } = this.#arrivals.get(dataset) ?? {};
    if (lastMs !== null) {
      this.#session.report({ kind: 'download', datasetId: dataset, durationMs: lastMs - beganMs });
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
    this.#session.report({ kind: 'retired', datasetId: dataset });
    logRetirement(this.#log, dataset, result.table);
  }

  #resyncOf(datasetId: string, { kind, fromVersion }: CommitResult): ResyncReason | null {
    if (kind !== 'snapshot' || fromVersion === null) return null;
    const need = this.#needs.get(datasetId);
    return need === 'reload' || need === 'resync' || need === 'schema' ? need : 'version';
  }
}

export class Counts {
  readonly #counted = {
    events: new Map<EventType | 'unreadable', number>(),
    commits: new Map<CommitResult['kind'] | 'retirement', number>(),
    rows: new Map<'added' | 'changed' | 'removed' | 'loaded', number>(),
    resyncs: new Map<ResyncReason, number>(),
    requests: new Map<string, Map<string, number>>(),
    downloadedBytes: 0,
    exports: new Map<ExportOutcome, number>(),
    polls: 0,
    audits: 0,
    interruptions: 0,
  } satisfies Counters;

  add(daemonEvent: DaemonEvent): void {
    switch (daemonEvent.kind) {
      case 'request':
        this.#addRequest(daemonEvent.operation, daemonEvent.status);
        return;
      case 'events':
        increase(this.#counted.events, daemonEvent.type);
        return;
      case 'bytes':
        this.#counted.downloadedBytes += daemonEvent.bytes;
        return;
      case 'commit':
        this.#addCommit(daemonEvent);
        return;
      case 'retired':
        increase(this.#counted.commits, 'retirement');
        return;
      case 'poll':
        this.#counted.polls += 1;
        return;
      case 'audit':
        this.#counted.audits += 1;
        return;
      case 'export':
        increase(this.#counted.exports, daemonEvent.outcome);
        return;
      case 'interruption':
        this.#counted.interruptions += 1;
        return;
    }
  }

  /** Returns a copy. */
  counters(): Counters {
    return structuredClone(this.#counted);
  }

  #addRequest(operation: string, status: number | null): void {
    const byStatus = this.#counted.requests.get(operation) ?? new Map<string, number>();
    increase(byStatus, status === null ? 'none' : String(status));
    this.#counted.requests.set(operation, byStatus);
  }

  #addCommit({ commit, resync }: Extract<DaemonEvent, { kind: 'commit' }>): void {
    increase(this.#counted.commits, commit.kind);
    if (resync !== null) increase(this.#counted.resyncs, resync);
    if (commit.kind === 'snapshot') {
      increase(this.#counted.rows, 'loaded', commit.rowCount);
      return;
    }
    increase(this.#counted.rows, 'added', commit.net?.added ?? 0);
    increase(this.#counted.rows, 'changed', commit.net?.changed ?? 0);
    increase(this.#counted.rows, 'removed', commit.net?.removed ?? 0);
  }
}

function increase<Name>(counts: Map<Name, number>, name: Name, by = 1): void {
  counts.set(name, (counts.get(name) ?? 0) + by);
}
