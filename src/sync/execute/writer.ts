/**
 * The one writer of the destination. Units that become ready while a window is open go into it or into the next one, so many
 * small datasets share a window.
 */

import type { Destination, JobQueue, JobResult, ValidatedJob } from '../../destination/destination.ts';
import { AssertionError, present } from '../../lib/assert.ts';

/** Units that are handed to the destination at once. */
const JOBS_AT_ONCE = 100;

export interface Writer {
  /** Resolves once the job is committed, has failed, or its plan is stale. */
  commit(job: ValidatedJob): Promise<JobResult>;
  /** Resolves once what is being committed by now is on the disk, and the destination is let go of. */
  release(): Promise<void>;
  /** Resolves once no window is open and nothing waits for one: of how units end is told before. */
  ended(): Promise<void>;
}

interface WriterParts {
  readonly destination: Pick<Destination, 'commit'>;
  /** Told what a window ended with where no unit is left that could be: all were told of their own end before. */
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

  /** Never rejects: what the destination throws is thrown to each that was taken and of which nothing was told. */
  const commitTogether = async (): Promise<void> => {
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
        present(taken.get(job), 'only units that were taken have an outcome').resolve(result);
        taken.delete(job);
      },
    };
    let incident: unknown = null;
    try {
      await destination.commit(jobs);
    } catch (error) {
      incident = error;
    }
    // One that is never asked for would let the writer go round for ever.
    if (!wasAsked) take();
    if (taken.size === 0 && incident !== null) onError(incident);
    const unreported =
      incident ?? new AssertionError('A unit was taken, and nobody was told what became of it.');
    for (const settle of taken.values()) settle.reject(unreported);
  };

  const work = async (): Promise<void> => {
    while (queue.length > 0) {
      committing = commitTogether();
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
