/** Commits write jobs through the port, and returns their outcomes in the order of the jobs. */

import type { Destination, JobQueue, JobResult, ValidatedJob } from '../../src/destination/destination.ts';

/** A queue in which these jobs wait, and no others arrive. */
export function queueOf(jobs: readonly ValidatedJob[]): Pick<JobQueue, 'take' | 'arrival'> {
  let waiting = jobs;
  return {
    take() {
      const taken = waiting;
      waiting = [];
      return taken;
    },
    arrival: () => new Promise(() => {}),
  };
}

export async function commitAll(
  destination: Pick<Destination, 'commit'>,
  jobs: readonly ValidatedJob[],
): Promise<readonly JobResult[]> {
  const outcomes = new Map<ValidatedJob, JobResult>();
  await destination.commit({
    ...queueOf(jobs),
    report(job, outcome) {
      if (outcomes.has(job)) throw new Error(`${job.job.datasetId} got two outcomes`);
      outcomes.set(job, outcome);
    },
  });
  return jobs.map((job) => {
    const outcome = outcomes.get(job);
    if (outcome === undefined) throw new Error(`${job.job.datasetId} got no outcome`);
    return outcome;
  });
}
