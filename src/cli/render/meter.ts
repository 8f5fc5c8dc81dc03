/**
 * Counts the bytes that arrive. The rate is that of the last seconds, so that it follows a changing network. Time is passed
 * in.
 */

import type { Clock } from '../../lib/clock.ts';
import type { CommitResult } from '../../model/commits.ts';
import type { Extent, Progress } from '../../sync/progress.ts';
import type { DatasetResult } from '../../sync/result.ts';

/** Long enough for a steady figure, short enough to show a standstill soon. */
const WINDOW_MS = 10_000;
/** Bytes that arrive within this time are one sample, so that few samples are kept. */
const SAMPLE_EVERY_MS = 500;
/** A rate over a shorter time is mostly chance. */
const LEAST_SPAN_MS = 1_000;

interface Sample {
  readonly atMs: number;
  /** The bytes that had arrived before. */
  readonly before: number;
}

export class Meter {
  #total = 0;
  #samples: readonly Sample[];

  /** `nowMs` is a reading of a monotonic clock, as everywhere in this file. */
  constructor(nowMs: number) {
    this.#samples = [{ atMs: nowMs, before: 0 }];
  }

  get total(): number {
    return this.#total;
  }

  add(amount: number, nowMs: number): void {
    const newest = this.#samples.at(-1);
    if (newest === undefined || nowMs - newest.atMs >= SAMPLE_EVERY_MS) {
      this.#samples = [...this.#within(nowMs), { atMs: nowMs, before: this.#total }];
    }
    this.#total += amount;
  }

  /** Returns bytes per second, or null where the time is too short for a rate. */
  rate(nowMs: number): number | null {
    const [oldest] = this.#within(nowMs);
    // Nothing has arrived for the whole window.
    if (oldest === undefined) return 0;
    const spanMs = nowMs - oldest.atMs;
    return spanMs < LEAST_SPAN_MS ? null : ((this.#total - oldest.before) * 1_000) / spanMs;
  }

  #within(nowMs: number): readonly Sample[] {
    return this.#samples.filter(({ atMs }) => nowMs - atMs <= WINDOW_MS);
  }
}

/** Returns the milliseconds until the rest has arrived, or null where nothing allows an estimate. */
export function timeLeftMs(meter: Meter, total: number | null, nowMs: number): number | null {
  const rate = meter.rate(nowMs);
  if (total === null || rate === null || rate <= 0) return null;
  return (Math.max(0, total - meter.total) * 1_000) / rate;
}

/** An estimate from fewer datasets, or from a shorter time, is mostly chance. */
const LEAST_SETTLED = 3;
const LEAST_PASSED_MS = 5_000;

/** Returns the milliseconds until all datasets are caught up, by those that are; null where nothing allows an estimate. */
export function allLeftMs({ datasets, datasetsMs, settledDatasets }: WorkSeen, nowMs: number): number | null {
  const passedMs = nowMs - datasetsMs;
  if (datasets === null || settledDatasets < LEAST_SETTLED || passedMs < LEAST_PASSED_MS) return null;
  return (Math.max(0, datasets - settledDatasets) * passedMs) / settledDatasets;
}

/** A step in progress. */
export interface StepSeen {
  readonly datasetId: string;
  /** For people: `loading version 12`. */
  readonly step: string;
  readonly extent: Extent;
  readonly bytes: Meter;
  /** Everything that the step needs has arrived. */
  readonly isHere: boolean;
}

export class WorkSeen implements Progress {
  readonly #clock: Clock;
  readonly #steps = new Map<string, StepSeen>();
  /** All steps together. */
  bytes: Meter;
  readonly startedMs: number;
  events = 0;
  /** Null until the number of datasets is known. */
  datasets: number | null = null;
  /** When that number became known, on the monotonic clock. */
  datasetsMs = 0;
  settledDatasets = 0;
  commits = 0;
  failed = 0;
  suspended = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
    this.startedMs = clock.monotonicMs();
    this.bytes = new Meter(this.startedMs);
  }

  /** Starts the counts again. */
  restartCount(): void {
    this.settledDatasets = 0;
    this.commits = 0;
    this.failed = 0;
    this.suspended = 0;
    if (this.bytes.total > 0) this.bytes = new Meter(this.#clock.monotonicMs());
  }

  /** Returns the steps in progress, the oldest first. */
  get steps(): readonly StepSeen[] {
    return [...this.#steps.values()];
  }

  read(_subscriptionId: string, events: readonly unknown[]): void {
    this.events += events.length;
  }

  started(datasets: number): void {
    this.datasets = datasets;
    this.datasetsMs = this.#clock.monotonicMs();
  }

  began(datasetId: string, step: string, extent: Extent): void {
    // A dataset keeps its place when its next step begins.
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

  committed(_datasetId: string, _commit: CommitResult): void {
    this.commits += 1;
  }

  settled({ datasetId, kind }: DatasetResult): void {
    this.#steps.delete(datasetId);
    this.settledDatasets += 1;
    if (kind === 'failed') this.failed += 1;
    if (kind === 'suspended') this.suspended += 1;
  }
}

const SECOND_MS = 1_000;
const MINUTE_MS = 60 * SECOND_MS;
const HOUR_MS = 60 * MINUTE_MS;

/** Formats a past duration, rounded down: `12 s`, `3 m 12 s`, `5 h 2 m`. */
export function passed(durationMs: number): string {
  const seconds = Math.floor(Math.max(0, durationMs) / SECOND_MS);
  if (durationMs < MINUTE_MS) return `${seconds} s`;
  const minutes = Math.floor(seconds / 60);
  return durationMs < HOUR_MS
    ? `${minutes} m ${seconds % 60} s`
    : `${Math.floor(minutes / 60)} h ${minutes % 60} m`;
}

/** Formats an estimate, rounded up: `12 s`, `4 m`, `5 h 2 m`. */
export function roughly(durationMs: number): string {
  if (durationMs <= 59 * SECOND_MS) return `${Math.ceil(durationMs / SECOND_MS)} s`;
  const minutes = Math.ceil(durationMs / MINUTE_MS);
  return minutes < 60 ? `${minutes} m` : `${Math.floor(minutes / 60)} h ${minutes % 60} m`;
}
