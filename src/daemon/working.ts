/**
 * Works on the datasets of the agenda: several side by side, each alone, beside the following of the logs. How one
 * ended decides when it is worked on again.
 *
 * Invariants: a dataset is never worked on twice at once; while trouble of the run lasts nothing is begun before its
 * retry clock says so; what the workspace was refused stops everything at once.
 */

import type { DesiredState } from '../model/desired-state.ts';
import { InterruptedError, ServiceUnavailableError } from '../model/errors.ts';
import { datasetState, isBehind } from '../sync/dataset-states.ts';
import { DATASETS_AT_ONCE, type Reconciling } from '../sync/engine.ts';
import { liveExecutor, type StepExecutor } from '../sync/execute/executor.ts';
import { failureOf } from '../sync/failures.ts';
import { watchIncidents } from '../sync/incidents.ts';
import { asksTheSame } from '../sync/plan/need.ts';
import type { DatasetState } from '../sync/plan/plan.ts';
import type { VerdictOf } from '../sync/plan/retirement.ts';
import { logWaiting } from '../sync/progress.ts';
import type { DatasetResult, Incident } from '../sync/result.ts';
import { currentSuspensions } from '../sync/suspensions.ts';
import { RetryClock, WORKING_AGAIN } from './clocks.ts';
import { ofDataset, RUN } from './incident-log.ts';
import type { Session } from './session.ts';
import type { Item } from './work-queue.ts';

/** A bug is told by the trouble log like other trouble. */
const NOBODY = (): void => {};

const UNSETTLED = 'what the lists of versions and schemas say is to be confirmed by a later reading';

interface WorkingOptions {
  readonly session: Session;
  readonly isAtHead: (subscriptionId: string) => boolean;
  /** Whether a table that no subscription contains may go now. */
  readonly verdictOf: VerdictOf;
  /** A dataset has ended, well or not. */
  readonly onSettled: (result: DatasetResult) => void;
}

export class Working {
  readonly #options: WorkingOptions;
  readonly #session: Session;
  readonly #underWay = new Map<string, Promise<void>>();
  readonly #enrolled = new Set<string>();
  readonly #clock: RetryClock;
  #enrolling: Promise<void> | null = null;
  #workerSession: WorkerSession | null = null;

  constructor(options: WorkingOptions) {
    this.#options = options;
    this.#session = options.session;
    this.#clock = new RetryClock(WORKING_AGAIN, options.session.random);
  }

  get isIdle(): boolean {
    return this.#underWay.size === 0;
  }

  /** How many are worked on now. */
  get underWay(): number {
    return this.#underWay.size;
  }

  isUnderWay(datasetId: string): boolean {
    return this.#underWay.has(datasetId);
  }

  /** Begins what is due, as far as there is room. */
  fill(): void {
    const { workQueue, signal } = this.#session;
    const nowMs = this.#session.nowMs();
    if (signal.aborted || nowMs < this.#clock.dueMs || workQueue.items.size === 0) return;
    workQueue.followPolls(this.#session.readClocks());
    // What is there already is not loaded because nobody has looked.
    if (!this.#session.mirror.isRead || currentSuspensions(this.#session.parts).workspace !== null) return;
    while (this.#underWay.size < DATASETS_AT_ONCE) {
      const item = workQueue.take(nowMs, (datasetId) => !this.#underWay.has(datasetId));
      if (item === null) return;
      this.#begin(item);
    }
  }

  /** What is under way ends; it is taken up again when `fill` is called. */
  halt(reason: Error): void {
    this.#workerSession?.controller.abort(reason);
    this.#workerSession = null;
  }

  /** Names that tables are to have, and subscriptions that were given up, become known to the mirror with the next work. */
  enrollAgain(): void {
    this.#enrolled.clear();
  }

  /** What is worked on now has failed so: it is not begun at once again. Never throws. */
  giveUp(error: Error): void {
    const { parts, mirror } = this.#session;
    const incidents = watchIncidents(parts, this.#session.signal, NOBODY);
    for (const datasetId of this.#underWay.keys()) {
      try {
        const failure = parts.checkpoint.failure(datasetId);
        const known = datasetState(datasetId, mirror.observed, parts);
        if (known !== null)
          parts.checkpoint.fail(failureOf(datasetId, error, [], failure, parts.clock.now()));
      } catch (cause) {
        incidents.record(cause, null);
      }
    }
    this.#afterIncidents(incidents.incidents);
  }

  async ended(): Promise<void> {
    while (this.#underWay.size > 0) await Promise.all(this.#underWay.values());
    await this.#workerSession?.executor.ended();
  }

  #begin(item: Item): void {
    this.#workerSession ??= this.#startWorkerSession();
    const work = this.#work(item, this.#workerSession).finally(() => this.#underWay.delete(item.datasetId));
    this.#underWay.set(item.datasetId, work);
  }

  #startWorkerSession(): WorkerSession {
    const { parts, signal } = this.#session;
    const controller = new AbortController();
    const both = AbortSignal.any([signal, controller.signal]);
    const onError = (error: unknown): void => {
      const incidents = watchIncidents(parts, both, NOBODY);
      incidents.record(error, null);
      this.#afterIncidents(incidents.incidents);
    };
    return { controller, signal: both, executor: liveExecutor(parts, both, onError) };
  }

  /** Never rejects. */
  async #work(item: Item, workerSession: WorkerSession): Promise<void> {
    const { parts, mirror } = this.#session;
    const incidents = watchIncidents(parts, workerSession.signal, NOBODY);
    try {
      const known = datasetState(item.datasetId, mirror.observed, parts);
      if (known === null) {
        this.#session.incidents.forget(`dataset ${item.datasetId}`);
        return;
      }
      await this.#enroll(known, workerSession.executor);
      const reconciling = this.#reconciling(item, workerSession, (error, dataset) =>
        incidents.recordForDataset(error, dataset),
      );
      this.#settle(
        item,
        known.desired,
        await this.#session.engine.reconcile(known, reconciling),
        incidents.incidents,
      );
    } catch (error) {
      incidents.record(error, null);
      this.#session.workQueue.postpone(item, 'the run is in trouble', this.#session.nowMs());
      this.#afterIncidents(incidents.incidents);
    }
  }

  #reconciling(item: Item, { signal, executor }: WorkerSession, record: Reconciling['record']): Reconciling {
    const { parts, engine } = this.#session;
    const { isAtHead, verdictOf } = this.#options;
    const isAsked = (subscriptionId: string): boolean =>
      currentSuspensions(parts).ofSubscription(subscriptionId) === null;
    return {
      executor,
      signal,
      entriesFor: () => engine.entriesSince(item.sinceMs, isAsked),
      isAtHead,
      readAgain: (known) => engine.datasetNow(known),
      verdictOf,
      record,
    };
  }

  /** Every table has its name before it is made: all that are known get theirs at once, in order. */
  async #enroll({ desired }: DatasetState, executor: StepExecutor): Promise<void> {
    if (this.#enrolled.has(desired.datasetId)) return;
    this.#enrolling ??= this.#enrollAll(executor).finally(() => {
      this.#enrolling = null;
    });
    await this.#enrolling;
  }

  async #enrollAll(executor: StepExecutor): Promise<void> {
    const known = this.#session.engine.datasets();
    await executor.open(known, this.#underWay.keys());
    for (const { desired } of known) this.#enrolled.add(desired.datasetId);
  }

  #settle(item: Item, before: DesiredState, result: DatasetResult, incidents: readonly Incident[]): void {
    this.#session.watchdogs.working.moved(this.#session.nowMs());
    this.#afterIncidents(incidents);
    if (result.commits.length > 0) this.#clock.succeeded();
    if (result.commits.length > 0 && incidents.length === 0) this.#session.over(RUN);
    this.#session.activity.settled(result);
    this.#scheduleAgain(item, before, result);
    if (currentSuspensions(this.#session.parts).workspace !== null) {
      this.halt(new InterruptedError('The workspace is refused.'));
    }
    this.#options.onSettled(result);
  }

  /** `before`: what was wanted when the work began. */
  #scheduleAgain(item: Item, before: DesiredState, result: DatasetResult): void {
    const { workQueue, parts } = this.#session;
    const of = ofDataset(item.datasetId);
    const nowMs = this.#session.nowMs();
    switch (result.kind) {
      case 'waiting':
        if (item.attempts === 0) logWaiting(parts.log, item.datasetId, result);
        workQueue.postpone(item, result.why, nowMs);
        return;
      case 'failed': {
        this.#session.met(of, result.error);
        const waitMs =
          result.failure === null ? null : result.failure.retryAt.getTime() - parts.clock.now().getTime();
        workQueue.postpone(item, result.error.message, nowMs, {
          waitMs: waitMs === null ? null : Math.max(0, waitMs),
          isOutage: result.error instanceof ServiceUnavailableError,
        });
        return;
      }
      case 'suspended':
        this.#session.incidents.forget(of);
        return;
      default: {
        this.#session.over(of);
        const known = datasetState(item.datasetId, this.#session.mirror.observed, parts);
        if (known === null || !isBehind(known)) return;
        // Something may have been asked for after the last plan was made. Where nothing was, and nothing could be done, the
        // lists do not settle it yet: they are read again with the next poll.
        const isUnsettled = result.commits.length === 0 && asksTheSame(before, known.desired);
        if (!isUnsettled) workQueue.ask(item.datasetId, nowMs);
        else {
          const poll = this.#session.nextPoll();
          workQueue.askWithPoll(item.datasetId, UNSETTLED, this.#session.readClocks(), poll);
        }
      }
    }
  }

  #afterIncidents(incidents: readonly Incident[]): void {
    const ofTheRun = incidents.filter(({ error }) => !(error instanceof InterruptedError));
    for (const { error } of ofTheRun) this.#session.met(RUN, error);
    const nowMs = this.#session.nowMs();
    // Whatever was under way beside it meets the same trouble: however many they are, that is one attempt in vain.
    if (ofTheRun.length > 0 && nowMs >= this.#clock.dueMs) this.#clock.failed(nowMs);
  }
}

/** Work that is stopped together. */
interface WorkerSession {
  readonly controller: AbortController;
  readonly signal: AbortSignal;
  readonly executor: StepExecutor;
}
