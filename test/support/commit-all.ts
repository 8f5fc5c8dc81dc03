/** Commits write jobs through the port, and returns their outcomes in the order of the jobs. */

import type { Destination, JobResult, ValidatedJob } from '../../src/destination/destination.ts';

export async function commitAll(
  destination: Pick<Destination, 'commit'>,
  jobs: readonly ValidatedJob[],
): Promise<readonly JobResult[]> {
  const outcomes = new Map<ValidatedJob, JobResult>();
  let waiting = jobs;
  await destination.commit({
    take() {
      const taken = waiting;
      waiting = [];
      return taken;
    },
    arrival: () => new Promise(() => {}),
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
