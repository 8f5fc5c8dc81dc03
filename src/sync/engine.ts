/**
 * The engine of `once` and `run`: it connects, follows the logs, refreshes the manifests, judges retirements, reconciles
 * datasets and stores the progress. Its callers decide when: `once` takes each step until nothing more can be done now, the
 * daemon takes each step when its clocks say so.
 */

import type { StoredProgress } from '../destination/destination.ts';
import type { Subscription } from '../model/records.ts';
import { type ReportedMissing, reloadMissing, warnOfDamagedPast } from './damage.ts';
import { datasetStateNow, datasetStates, MirrorView } from './dataset-states.ts';
import { follow } from './follow/follow.ts';
import { readLogsOf } from './follow/read-log.ts';
import { askReload } from './follow/reload-requests.ts';
import { type Connected, connect } from './follow/subscriptions.ts';
import { type EntrySource, KeptManifests } from './manifest-cache.ts';
import type { Parts } from './parts.ts';
import type { DatasetState } from './plan/dataset-state.ts';
import type { VerdictOf } from './plan/retirement.ts';
import { type Reconciliation, reconcile } from './reconcile.ts';
import type { DatasetResult } from './result.ts';
import { shareResyncs } from './resyncs.ts';
import { type Judging, judgeRetirements } from './retirements.ts';
import { isSameProgress, progressToStore } from './stored-progress.ts';

/** The decisions of the caller about the reconciliation of one dataset. */
export type Reconciling = Omit<Reconciliation, 'parts' | 'askReload' | 'readLogs' | 'readAgain'>;

export class Engine {
  /** The destination among them is watched: the view of the mirror follows every commit. */
  readonly parts: Parts;
  readonly mirror: MirrorView;
  readonly #manifests: KeptManifests;
  /** A daemon connects again and again, and warns of what is damaged for ever at its start only. */
  #isPastReported = false;
  readonly #reportedMissing = new Map<string, ReportedMissing>();

  constructor(given: Parts) {
    this.mirror = new MirrorView(given.destination, (observed) =>
      progressToStore(observed, given, 'with-commits'),
    );
    this.parts = { ...given, destination: this.mirror.destination };
    this.#manifests = new KeptManifests(given);
  }

  /** Lists the subscriptions and reads the observed state. `isMirrorIdle`: nobody works on the mirror, so it answers at once. */
  async connect(isMirrorIdle: boolean, signal: AbortSignal): Promise<Connected> {
    const connected = await connect(this.parts, () => this.mirror.refresh(isMirrorIdle), signal);
    await this.shareResyncs();
    if (!this.#isPastReported) warnOfDamagedPast(connected.observed, this.parts.log);
    this.#isPastReported = true;
    return connected;
  }

  /**
   * Requests a reload of each table that somebody dropped, as the mirror was read last. Called once the logs were read: a lost checkpoint
   * does not know before which datasets the subscriptions contain.
   */
  reloadMissing(): Promise<void> {
    return reloadMissing(this.mirror.observed, this.#reportedMissing, this.parts);
  }

  /** Reads the log of the subscription to its head, compares its manifest with the desired state, and keeps the manifest. */
  async follow(record: Subscription, readAt: Date, signal: AbortSignal): Promise<void> {
    const startedMs = this.parts.clock.monotonicMs();
    const listedEntries = await follow({ record, readAt }, this.mirror.observed, this.parts, signal);
    this.#manifests.keep(listedEntries, startedMs);
  }

  /** Reads manifest entries: see `KeptManifests`. */
  entriesSince(
    sinceMs: number,
    isAsked: (subscriptionId: string) => boolean,
    withEntries = false,
  ): EntrySource {
    return this.#manifests.sourceSince(sinceMs, isAsked, withEntries);
  }

  /** Returns every dataset with a desired or an observed state, as both stores know it. */
  datasets(): readonly DatasetState[] {
    return datasetStates(this.parts, this.mirror.observed);
  }

  /** Judges which tables may go. `readToHead`: the subscriptions whose logs were read since the datasets left. */
  judgeRetirements(judging: Omit<Judging, 'observed'>): VerdictOf {
    return judgeRetirements({ ...judging, observed: this.mirror.observed }, this.parts);
  }

  /** Returns the progress that the mirror is to store without a commit; null where the mirror has it, or may not have it yet. */
  progressToStore(): StoredProgress | null {
    const { observed } = this.mirror;
    const progress = progressToStore(observed, this.parts, 'alone');
    return progress === null || isSameProgress(observed.progress, progress) ? null : progress;
  }

  /** Stores with the mirror what the tables owe to operators, where another instance may take it over. */
  shareResyncs(): Promise<void> {
    return shareResyncs(this.mirror.observed, this.parts);
  }

  /** Reconciles a dataset. Never throws. */
  reconcile(known: DatasetState, reconciling: Reconciling): Promise<DatasetResult> {
    const { parts } = this;
    const { signal } = reconciling;
    const tableOf = (datasetId: string) => this.mirror.table(datasetId);
    return reconcile(known, {
      ...reconciling,
      parts,
      askReload: (request) => askReload(request, tableOf, parts, signal),
      readAgain: (before) => datasetStateNow(before, this.mirror.observed, parts),
      readLogs: (datasetId) => readLogsOf(datasetId, tableOf, parts, signal),
    });
  }
}
