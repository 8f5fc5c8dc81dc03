/**
 * Reconciles the datasets of the work queue, several side by side: `once` drains the queue, `run` fills the pool as long as it lasts.
 *
 * Invariants: a dataset has one worker at a time, and work on it begins once its table is enrolled.
 */

import type { DesiredState } from '../model/desired-state.ts';
import { endIfOver } from './candidates.ts';
import { datasetState } from './dataset-states.ts';
import type { Engine } from './engine.ts';
import type { MakeExecutor, StepExecutor } from './execute/executor.ts';
import type { Incidents } from './incidents.ts';
import type { EntrySource } from './manifest-cache.ts';
import { requestsOf } from './parts.ts';
import type { VerdictOf } from './plan/retirement.ts';
import type { Performing } from './request-handler.ts';
import { performRequests, type Unanswered } from './requests.ts';
import type { DatasetResult, Incident } from './result.ts';
import type { Entry, WorkQueue } from './work-queue.ts';

/**
 * Datasets reconciled side by side: enough that small ones fill the write sessions they share. A write session costs more the
 * more tables there are.
 */
const DATASETS_AT_ONCE = 128;

interface WorkerPoolOptions {
  readonly engine: Engine;
  readonly queue: WorkQueue;
  /** Aborted when all work is to end. */
  readonly signal: AbortSignal;
  readonly makeExecutor: MakeExecutor;
  /** Returns the place where the errors of one dataset's work are recorded. */
  readonly watch: (signal: AbortSignal) => Incidents;
  readonly sourceOf: (entry: Entry) => EntrySource;
  /** Whether the log of a subscription was just read to its head. */
  readonly isAtHead: (subscriptionId: string) => boolean;
  readonly verdictOf: VerdictOf;
  /** Decides what becomes of a dataset whose work has ended. */
  readonly onSettled: (settled: Settled) => void;
  /** The entry names a dataset that no subscription contains and that has no table. */
  readonly onGone: (datasetId: string) => void;
  /** Requests of operators about the dataset were performed. */
  readonly onPerformed: (datasetId: string) => void;
  /** An error that no dataset's result shows. `entry` is null where all work had ended. */
  readonly onError: (error: unknown, entry: Entry | null) => void;
}

export interface Settled {
  readonly entry: Entry;
  /** The desired state when the work began. */
  readonly before: DesiredState;
  readonly result: DatasetResult;
  /** The errors of the run as a whole that the work has met. */
  readonly incidents: readonly Incident[];
}

export class WorkerPool {
  readonly #options: WorkerPoolOptions;
  readonly #underWay = new Map<string, Promise<void>>();
  readonly #enrolled = new Set<string>();
  /** The datasets of requests that wait until other work on the dataset has ended. */
  readonly #requested = new Set<string>();
  /** Requests that the next reconciliation of a dataset answers. */
  readonly #unanswered = new Map<string, readonly Unanswered[]>();
  #enrolling: Promise<void> | null = null;
  #session: WorkerSession | null = null;

  constructor(options: WorkerPoolOptions) {
    this.#options = options;
  }

  /** The ids of the datasets that are worked on now. */
  get underWay(): ReadonlySet<string> {
    return new Set(this.#underWay.keys());
  }

  get isIdle(): boolean {
    return this.#underWay.size === 0;
  }

  /** Starts whatever is due, as far as there is room. */
  fill(): void {
    const { engine, queue } = this.#options;
    while (this.#underWay.size < DATASETS_AT_ONCE) {
      const nowMs = engine.parts.clock.monotonicMs();
      const entry = queue.take(nowMs, (datasetId) => !this.#underWay.has(datasetId));
      if (entry === null) return;
      this.#begin(entry.datasetId, this.#work(entry, this.#open()));
    }
  }

  /** Performs the requests of operators about these datasets, each as soon as no other work on its dataset is under way. */
  perform(datasetIds: Iterable<string>): void {
    for (const datasetId of datasetIds) this.#requested.add(datasetId);
    for (const datasetId of this.#requested) {
      if (this.#underWay.has(datasetId)) continue;
      this.#requested.delete(datasetId);
      this.#begin(datasetId, this.#perform(datasetId, this.#open()));
    }
  }

  /** Works until nothing is due, and returns the executor once its last write session has ended. @throws the error of enrolling. */
  async drain(): Promise<StepExecutor> {
    const { executor } = this.#open();
    await this.#enrollAll(executor);
    for (this.fill(); !this.isIdle; this.fill()) await Promise.race(this.#underWay.values());
    await executor.ended();
    return executor;
  }

  /** Interrupts running work; `fill` starts anew. */
  halt(reason: Error): void {
    this.#session?.controller.abort(reason);
    this.#session = null;
  }

  /** Has the next work enroll the table names and the forgotten subscriptions again. */
  enrollAgain(): void {
    this.#enrolled.clear();
  }

  async ended(): Promise<void> {
    while (!this.isIdle) await Promise.all(this.#underWay.values());
    await this.#session?.executor.ended();
  }

  /** `work` never rejects. */
  #begin(datasetId: string, work: Promise<void>): void {
    const ended = work.then(() => {
      this.#underWay.delete(datasetId);
      if (this.#requested.size > 0) this.perform([]);
    });
    this.#underWay.set(datasetId, ended);
  }

  #open(): WorkerSession {
    if (this.#session !== null) return this.#session;
    const { engine, signal, makeExecutor, onError } = this.#options;
    const controller = new AbortController();
    const both = AbortSignal.any([signal, controller.signal]);
    const executor = makeExecutor(engine.parts, both, (error) => onError(error, null));
    this.#session = { controller, signal: both, executor };
    return this.#session;
  }

  /** Never rejects. */
  async #work(entry: Entry, { signal, executor }: WorkerSession): Promise<void> {
    const { engine, watch, sourceOf, isAtHead, verdictOf, onSettled, onGone, onError } = this.#options;
    try {
      const known = datasetState(entry.datasetId, engine.mirror.observed, engine.parts);
      if (known === null) return onGone(entry.datasetId);
      await this.#enroll(entry.datasetId, executor);
      const incidents = watch(signal);
      const result = await engine.reconcile(known, {
        executor,
        signal,
        entriesFor: () => sourceOf(entry),
        isAtHead,
        verdictOf,
        record: (error, dataset) => incidents.recordForDataset(error, dataset),
      });
      onSettled({ entry, before: known.desired, result, incidents: incidents.incidents });
      await this.#answer(result);
    } catch (error) {
      onError(error, entry);
    }
  }

  /** Never rejects. */
  async #perform(datasetId: string, { executor }: WorkerSession): Promise<void> {
    const { engine, queue, onPerformed, onError } = this.#options;
    const { forRequests } = executor;
    if (forRequests === null) return;
    const performingNow = (): Performing => ({
      ...forRequests,
      parts: engine.parts,
      known: datasetState(datasetId, engine.mirror.observed, engine.parts),
      shareResyncs: () => engine.shareResyncs(),
    });
    try {
      if (performingNow().known !== null) await this.#enroll(datasetId, executor);
      try {
        await performRequests(datasetId, performingNow, (unanswered) => {
          this.#unanswered.set(datasetId, [...(this.#unanswered.get(datasetId) ?? []), unanswered]);
          queue.ask(datasetId, engine.parts.clock.monotonicMs());
        });
        const after = performingNow().known;
        if (after !== null && (await endIfOver(after, engine.parts)))
          await executor.discardCandidate(datasetId);
      } finally {
        // Requests before the one that failed were performed.
        onPerformed(datasetId);
      }
    } catch (error) {
      onError(error, null);
    }
  }

  /** Answers the requests whose effect came with the reconciliation. */
  async #answer(result: DatasetResult): Promise<void> {
    const requests = requestsOf(this.#options.engine.parts);
    const unanswered = this.#unanswered.get(result.datasetId) ?? [];
    this.#unanswered.delete(result.datasetId);
    for (const { requestId, answerAfter } of unanswered) {
      await requests.answer(requestId, answerAfter(result));
    }
  }

  /** Every table gets its name before it is created: all known datasets at once, in order. */
  async #enroll(datasetId: string, executor: StepExecutor): Promise<void> {
    if (this.#enrolled.has(datasetId)) return;
    this.#enrolling ??= this.#enrollAll(executor).finally(() => {
      this.#enrolling = null;
    });
    await this.#enrolling;
  }

  async #enrollAll(executor: StepExecutor): Promise<void> {
    const known = this.#options.engine.datasets();
    await executor.open(known, this.#underWay.keys());
    for (const { desired } of known) this.#enrolled.add(desired.datasetId);
  }
}

/** Work that is interrupted together. */
interface WorkerSession {
  readonly controller: AbortController;
  readonly signal: AbortSignal;
  readonly executor: StepExecutor;
}
