/** What is seen of the work on datasets while it goes on: kept as it is told, and looked at whenever the view is drawn. */

import type { Clock } from '../../lib/clock.ts';
import type { Extent, Progress } from '../../sync/progress.ts';
import type { Commit, DatasetResult } from '../../sync/result.ts';
import { Meter } from './meter.ts';

/** A step that is under way for a dataset. */
export interface StepSeen {
  readonly datasetId: string;
  /** For people: `loading version 12`. */
  readonly step: string;
  readonly extent: Extent;
  readonly bytes: Meter;
  /** Nothing more has to arrive for it. */
  readonly isHere: boolean;
}

export class WorkSeen implements Progress {
  readonly #clock: Clock;
  readonly #steps = new Map<string, StepSeen>();
  /** Of the whole. */
  bytes: Meter;
  readonly startedMs: number;
  events = 0;
  /** Null: it is not known yet how many there are. */
  datasets: number | null = null;
  settledDatasets = 0;
  commits = 0;
  failed = 0;
  held = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
    this.startedMs = clock.monotonicMs();
    this.bytes = new Meter(this.startedMs);
  }

  /** What was done is counted from here on. */
  countAnew(): void {
    this.settledDatasets = 0;
    this.commits = 0;
    this.failed = 0;
    this.held = 0;
    if (this.bytes.total > 0) this.bytes = new Meter(this.#clock.monotonicMs());
  }

  /** Those that are under way, the one first that began first. */
  get steps(): readonly StepSeen[] {
    return [...this.#steps.values()];
  }

  read(_subscriptionId: string, events: readonly unknown[]): void {
    this.events += events.length;
  }

  started(datasets: number): void {
    this.datasets = datasets;
  }

  began(datasetId: string, step: string, extent: Extent): void {
    // One that goes on with its next step keeps its place.
    const bytes = new Meter(this.#clock.monotonicMs());
    this.#steps.set(datasetId, { datasetId, step, extent, bytes, isHere: false });
  }

  downloaded(bytes: number, datasetId: string): void {
    const nowMs = this.#clock.monotonicMs();
    this.bytes.add(bytes, nowMs);
    this.#steps.get(datasetId)?.bytes.add(bytes, nowMs);
  }

  arrived(datasetId: string): void {
    const step = this.#steps.get(datasetId);
    if (step !== undefined) this.#steps.set(datasetId, { ...step, isHere: true });
  }

  committed(_datasetId: string, _commit: Commit): void {
    this.commits += 1;
  }

  settled({ datasetId, kind }: DatasetResult): void {
    this.#steps.delete(datasetId);
    this.settledDatasets += 1;
    if (kind === 'failed') this.failed += 1;
    if (kind === 'held') this.held += 1;
  }
}
