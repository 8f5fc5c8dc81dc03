/**
 * The one writer of the destination. A job that becomes ready during a write session joins it or the next one, so that many small
 * datasets share a session.
 */

import type { Destination, JobQueue, JobResult, ValidatedJob } from '../../destination/destination.ts';
import { AssertionError, present } from '../../lib/assert.ts';

/** The most jobs of one batch. */
const JOBS_AT_ONCE = 100;

export interface Writer {
  /** Resolves once the job is committed, has failed, or its plan is stale. */
  commit(job: ValidatedJob): Promise<JobResult>;
  /** Resolves once the running commits are on the disk and the write session has ended. */
  release(): Promise<void>;
  /** Resolves once no write session is open and no job waits for one; the results were reported before. */
  ended(): Promise<void>;
}

interface WriterParts {
  readonly destination: Pick<Destination, 'commit'>;
  /** Called with the error of a write session whose jobs all have a result already. */
  readonly onError: (error: unknown) => void;
}

interface Waiting {
  readonly job: ValidatedJob;
  readonly settle: PromiseWithResolvers<JobResult>;
}

export function startWriter({ destination, onError }: WriterParts): Writer {
  const queue: Waiting[] = [];
  let working: Promise<void> | null = null;
  let committing = Promise.resolve();
  let arrival = Promise.withResolvers<void>();

  /** Never rejects: an error of the destination goes to every job that was taken and has no result. */
  const runWriteSession = async (): Promise<void> => {
    const taken = new Map<ValidatedJob, Waiting['settle']>();
    const take = (): readonly ValidatedJob[] => {
      const next = queue.splice(0, JOBS_AT_ONCE);
      for (const { job, settle } of next) taken.set(job, settle);
      return next.map(({ job }) => job);
    };
    let wasAsked = false;
    const jobs: JobQueue = {
      take() {
        wasAsked = true;
        return take();
      },
      async arrival() {
        if (queue.length === 0) await arrival.promise;
      },
      report(job, result) {
        present(taken.get(job), 'only jobs that were taken have a result').resolve(result);
        taken.delete(job);
      },
    };
    let sessionError: unknown = null;
    try {
      await destination.commit(jobs);
    } catch (error) {
      sessionError = error;
    }
    // A destination that takes no job would keep the writer in its loop for ever.
    if (!wasAsked) take();
    if (taken.size === 0 && sessionError !== null) onError(sessionError);
    const unreported =
      sessionError ?? new AssertionError('A write job was taken, and its result was not reported.');
    for (const settle of taken.values()) settle.reject(unreported);
  };

  const work = async (): Promise<void> => {
    while (queue.length > 0) {
      committing = runWriteSession();
      await committing;
    }
    working = null;
  };

  return {
    commit(job) {
      const settle = Promise.withResolvers<JobResult>();
      queue.push({ job, settle });
      arrival.resolve();
      arrival = Promise.withResolvers();
      working ??= work();
      return settle.promise;
    },
    release: () => committing,
    async ended() {
      await working;
    },
  };
}
