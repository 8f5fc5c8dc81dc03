/** Commits units through the port, and gives their outcomes in the order of the units. */

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
      if (outcomes.has(job)) throw new Error(`${job.job.datasetId} was told twice what became of it`);
      outcomes.set(job, outcome);
    },
  });
  return jobs.map((job) => {
    const outcome = outcomes.get(job);
    if (outcome === undefined) throw new Error(`${job.job.datasetId} was not told what became of it`);
    return outcome;
  });
}
