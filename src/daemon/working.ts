/**
 * Works on the datasets of the queue, several side by side, while the logs are followed. The result of a dataset decides when
 * it is due again.
 *
 * Invariants: a dataset has one worker at a time; during an incident of the run no work begins before the retry clock is due; a
 * refused workspace stops all work at once.
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
import type { Entry } from './work-queue.ts';

/** The incident log reports bugs like other errors. */
const NOBODY = (): void => {};

const UNSETTLED = 'what the lists of versions and schemas say is to be confirmed by a later reading';

interface WorkingOptions {
  readonly session: Session;
  readonly isAtHead: (subscriptionId: string) => boolean;
  /** Whether a table that no subscription contains may retire now. */
  readonly verdictOf: VerdictOf;
  /** The work on a dataset has ended, whatever the result. */
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

  /** Datasets that are worked on now. */
  get underWay(): number {
    return this.#underWay.size;
  }

  isUnderWay(datasetId: string): boolean {
    return this.#underWay.has(datasetId);
  }

  /** Starts whatever is due, as far as there is room. */
  fill(): void {
    const { workQueue, signal } = this.#session;
    const nowMs = this.#session.nowMs();
    if (signal.aborted || nowMs < this.#clock.dueMs || workQueue.entries.size === 0) return;
    workQueue.followPolls(this.#session.readClocks());
    // Existing tables would be loaded again if the mirror had not been read.
    if (!this.#session.mirror.isRead || currentSuspensions(this.#session.parts).workspace !== null) return;
    while (this.#underWay.size < DATASETS_AT_ONCE) {
      const entry = workQueue.take(nowMs, (datasetId) => !this.#underWay.has(datasetId));
      if (entry === null) return;
      this.#begin(entry);
    }
  }

  /** Interrupts running work; `fill` starts it again. */
  halt(reason: Error): void {
    this.#workerSession?.controller.abort(reason);
    this.#workerSession = null;
  }

  /** The next work enrolls the table names and the forgotten subscriptions again. */
  enrollAgain(): void {
    this.#enrolled.clear();
  }

  /** Records `error` as the failure of every dataset that is worked on, so that none starts again at once. Never throws. */
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

  #begin(entry: Entry): void {
    this.#workerSession ??= this.#startWorkerSession();
    const work = this.#work(entry, this.#workerSession).finally(() => this.#underWay.delete(entry.datasetId));
    this.#underWay.set(entry.datasetId, work);
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
  async #work(entry: Entry, workerSession: WorkerSession): Promise<void> {
    const { parts, mirror } = this.#session;
    const incidents = watchIncidents(parts, workerSession.signal, NOBODY);
    try {
      const known = datasetState(entry.datasetId, mirror.observed, parts);
      if (known === null) {
        this.#session.incidents.forget(`dataset ${entry.datasetId}`);
        return;
      }
      await this.#enroll(known, workerSession.executor);
      const reconciling = this.#reconciling(entry, workerSession, (error, dataset) =>
        incidents.recordForDataset(error, dataset),
      );
      this.#settle(
        entry,
        known.desired,
        await this.#session.engine.reconcile(known, reconciling),
        incidents.incidents,
      );
    } catch (error) {
      incidents.record(error, null);
      this.#session.workQueue.postpone(entry, 'an error of the run as a whole', this.#session.nowMs());
      this.#afterIncidents(incidents.incidents);
    }
  }

  #reconciling(
    entry: Entry,
    { signal, executor }: WorkerSession,
    record: Reconciling['record'],
  ): Reconciling {
    const { parts, engine } = this.#session;
    const { isAtHead, verdictOf } = this.#options;
    const isAsked = (subscriptionId: string): boolean =>
      currentSuspensions(parts).ofSubscription(subscriptionId) === null;
    return {
      executor,
      signal,
      entriesFor: () => engine.entriesSince(entry.sinceMs, isAsked),
      isAtHead,
      readAgain: (known) => engine.datasetNow(known),
      verdictOf,
      record,
    };
  }

  /** Every table gets its name before it is created: all known datasets at once, in order. */
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

  #settle(entry: Entry, before: DesiredState, result: DatasetResult, incidents: readonly Incident[]): void {
    this.#session.watchdogs.working.moved(this.#session.nowMs());
    this.#afterIncidents(incidents);
    if (result.commits.length > 0) this.#clock.succeeded();
    if (result.commits.length > 0 && incidents.length === 0) this.#session.resolve(RUN);
    this.#session.activity.settled(result);
    this.#scheduleAgain(entry, before, result);
    if (currentSuspensions(this.#session.parts).workspace !== null) {
      this.halt(new InterruptedError('The workspace is refused.'));
    }
    this.#options.onSettled(result);
  }

  /** `before`: the desired state when the work began. */
  #scheduleAgain(entry: Entry, before: DesiredState, result: DatasetResult): void {
    const { workQueue, parts } = this.#session;
    const of = ofDataset(entry.datasetId);
    const nowMs = this.#session.nowMs();
    switch (result.kind) {
      case 'waiting':
        if (entry.attempts === 0) logWaiting(parts.log, entry.datasetId, result);
        workQueue.postpone(entry, result.why, nowMs);
        return;
      case 'failed': {
        this.#session.raise(of, result.error);
        const waitMs =
          result.failure === null ? null : result.failure.retryAt.getTime() - parts.clock.now().getTime();
        workQueue.postpone(entry, result.error.message, nowMs, {
          waitMs: waitMs === null ? null : Math.max(0, waitMs),
          isOutage: result.error instanceof ServiceUnavailableError,
        });
        return;
      }
      case 'suspended':
        this.#session.incidents.forget(of);
        return;
      default: {
        this.#session.resolve(of);
        const known = datasetState(entry.datasetId, this.#session.mirror.observed, parts);
        if (known === null || !isBehind(known)) return;
        // The desired state may have changed after the last plan. Where it has not, and nothing was committed, the lists of
        // versions and schemas do not decide yet: they are read again with the next poll.
        const isUnsettled = result.commits.length === 0 && asksTheSame(before, known.desired);
        if (!isUnsettled) workQueue.ask(entry.datasetId, nowMs);
        else {
          const poll = this.#session.nextPoll();
          workQueue.askWithPoll(entry.datasetId, UNSETTLED, this.#session.readClocks(), poll);
        }
      }
    }
  }

  #afterIncidents(incidents: readonly Incident[]): void {
    const ofTheRun = incidents.filter(({ error }) => !(error instanceof InterruptedError));
    for (const { error } of ofTheRun) this.#session.raise(RUN, error);
    const nowMs = this.#session.nowMs();
    // All running work meets the same error: together that is one failed attempt.
    if (ofTheRun.length > 0 && nowMs >= this.#clock.dueMs) this.#clock.failed(nowMs);
  }
}

/** Work that is interrupted together. */
interface WorkerSession {
  readonly controller: AbortController;
  readonly signal: AbortSignal;
  readonly executor: StepExecutor;
}
