/**
 * Decides when the workers of the pool begin, and when a dataset that they have settled is due again.
 *
 * Invariants: during an incident of the run no work begins before the retry clock is due; a refused workspace stops all work at once.
 */

import { NO_DATASET } from '../checkpoint/requests.ts';
import type { DesiredState } from '../model/desired-state.ts';
import { InterruptedError, ServiceUnavailableError } from '../model/errors.ts';
import { RetryClock, WORKING_AGAIN } from '../sync/clocks.ts';
import { datasetState, isBehind } from '../sync/dataset-states.ts';
import { liveExecutor } from '../sync/execute/executor.ts';
import { failureOf } from '../sync/failures.ts';
import { type Incidents, watchIncidents } from '../sync/incidents.ts';
import { asksTheSame } from '../sync/plan/need.ts';
import type { VerdictOf } from '../sync/plan/retirement.ts';
import { logWaiting } from '../sync/progress.ts';
import type { DatasetResult, Incident } from '../sync/result.ts';
import { currentSuspensions } from '../sync/suspensions.ts';
import type { Entry } from '../sync/work-queue.ts';
import { type Settled, WorkerPool } from '../sync/worker-pool.ts';
import { ofDataset, RUN } from './incident-log.ts';
import type { Session } from './session.ts';

const UNSETTLED = 'what the lists of versions and schemas say is to be confirmed by a later reading';

interface WorkOptions {
  readonly session: Session;
  readonly isAtHead: (subscriptionId: string) => boolean;
  /** Whether a table that no subscription contains may retire now. */
  readonly verdictOf: VerdictOf;
  /** The work on a dataset has ended, whatever the result. */
  readonly onSettled: (result: DatasetResult) => void;
  /** A request brought a decision of an operator. */
  readonly onDecided: () => void;
}

export class Work {
  readonly pool: WorkerPool;
  readonly #session: Session;
  readonly #clock: RetryClock;
  readonly #onSettled: WorkOptions['onSettled'];

  constructor({ session, isAtHead, verdictOf, onSettled, onDecided }: WorkOptions) {
    const { engine, parts, workQueue, signal } = session;
    this.#session = session;
    this.#onSettled = onSettled;
    this.#clock = new RetryClock(WORKING_AGAIN, session.random);
    const isAsked = (subscriptionId: string): boolean =>
      currentSuspensions(parts).ofSubscription(subscriptionId) === null;
    this.pool = new WorkerPool({
      engine,
      queue: workQueue,
      signal,
      makeExecutor: liveExecutor,
      watch: (ofWork) => this.#watch(ofWork),
      sourceOf: ({ sinceMs }) => engine.entriesSince(sinceMs, isAsked),
      isAtHead,
      verdictOf,
      onSettled: (settled) => this.#settle(settled),
      onGone: (datasetId) => session.incidents.forget(ofDataset(datasetId)),
      onPerformed: (datasetId) => (datasetId === NO_DATASET ? onDecided() : this.#askIfBehind(datasetId)),
      onError: (error, entry) => {
        if (entry !== null) workQueue.postpone(entry, 'an error of the run as a whole', session.nowMs());
        this.#noteError(error);
      },
    });
  }

  /** Starts whatever is due. Existing tables would be loaded again if the mirror had not been read. */
  fill(): void {
    const { workQueue, signal, mirror, parts } = this.#session;
    if (signal.aborted || this.#session.nowMs() < this.#clock.dueMs || workQueue.entries.size === 0) return;
    workQueue.followPolls(this.#session.readClocks());
    if (!mirror.isRead || currentSuspensions(parts).workspace !== null) return;
    this.pool.fill();
  }

  /** A request of an operator may have left the dataset behind. */
  #askIfBehind(datasetId: string): void {
    const { mirror, parts, workQueue } = this.#session;
    const known = datasetState(datasetId, mirror.observed, parts);
    if (known !== null && isBehind(known)) workQueue.ask(datasetId, this.#session.nowMs());
  }

  /** Records `error` as the failure of every dataset that is worked on, so that none starts again at once. Never throws. */
  giveUp(error: Error): void {
    const { parts, mirror } = this.#session;
    for (const datasetId of this.pool.underWay) {
      try {
        const failure = parts.checkpoint.failure(datasetId);
        const known = datasetState(datasetId, mirror.observed, parts);
        if (known !== null)
          parts.checkpoint.fail(failureOf(datasetId, error, [], failure, parts.clock.now()));
      } catch (cause) {
        this.#noteError(cause);
      }
    }
  }

  /** The incident log reports bugs like other errors. */
  #watch(signal: AbortSignal): Incidents {
    return watchIncidents(this.#session.parts, signal, () => {});
  }

  #noteError(error: unknown): void {
    const incidents = this.#watch(this.#session.signal);
    incidents.record(error, null);
    this.#noteIncidents(incidents.incidents);
  }

  #noteIncidents(incidents: readonly Incident[]): void {
    const ofTheRun = incidents.filter(({ error }) => !(error instanceof InterruptedError));
    for (const { error } of ofTheRun) this.#session.raise(RUN, error);
    const nowMs = this.#session.nowMs();
    // All running work meets the same error: together that is one failed attempt.
    if (ofTheRun.length > 0 && nowMs >= this.#clock.dueMs) this.#clock.failed(nowMs);
  }

  #settle({ entry, before, result, incidents }: Settled): void {
    this.#session.watchdogs.working.moved(this.#session.nowMs());
    this.#noteIncidents(incidents);
    if (result.commits.length > 0) {
      this.#clock.succeeded();
      if (incidents.length === 0) this.#session.resolve(RUN);
    }
    this.#session.activity.settled(result);
    this.#scheduleAgain(entry, before, result);
    if (currentSuspensions(this.#session.parts).workspace !== null) {
      this.pool.halt(new InterruptedError('The workspace is refused.'));
    }
    this.#onSettled(result);
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
}
