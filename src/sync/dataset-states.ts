/** The datasets of a catch-up, with what both stores know of each. */

import type {
  Destination,
  ObservedState,
  Outcome,
  RetiredTable,
  StoredProgress,
  ValidatedJob,
} from '../destination/destination.ts';
import type { ObservedTable } from '../model/write-jobs.ts';
import { isChosenDataset } from './follow/subscriptions.ts';
import type { Parts } from './parts.ts';
import { needOf } from './plan/need.ts';
import type { DatasetState } from './plan/plan.ts';
import { currentSuspensions } from './suspensions.ts';

/**
 * Whether something is to be done about it, as far as it is known without asking the service. What is held waits for a
 * person; what failed is tried again, if only to find that its failure is over.
 */
export function isBehind({ desired, observed, suspension, failure }: DatasetState): boolean {
  if (desired.members.size === 0) return observed !== null;
  return suspension === null && (failure !== null || needOf(observed, desired) !== 'nothing');
}

/** The same dataset, as both stores know it by now. */
export function datasetStateNow(
  { desired: before }: DatasetState,
  observed: ObservedState,
  parts: Parts,
): DatasetState {
  const { checkpoint } = parts;
  const { datasetId } = before;
  const desired = checkpoint.desired(datasetId) ?? before;
  return {
    desired,
    observed: observed.datasets.get(datasetId) ?? null,
    suspension: currentSuspensions(parts).concerning(desired),
    failure: checkpoint.failure(datasetId),
  };
}

/** One dataset; null where nothing is to be done about it: nobody wants it and it has no table, or it was not chosen. */
export function datasetState(datasetId: string, observed: ObservedState, parts: Parts): DatasetState | null {
  const { checkpoint, choices } = parts;
  const desired = checkpoint.desired(datasetId);
  const table = observed.datasets.get(datasetId) ?? null;
  if (desired === null || (desired.members.size === 0 && table === null)) return null;
  if (!isChosenDataset(datasetId, choices.include, choices.exclude)) return null;
  return datasetStateNow({ desired, observed: table, suspension: null, failure: null }, observed, parts);
}

/**
 * Every chosen dataset that a subscription contains, and every chosen one that none holds and that still has a table, in
 * order of id: the order in which tables get their names.
 */
export function datasetStates(parts: Parts, observed: ObservedState): readonly DatasetState[] {
  const { checkpoint, choices, log } = parts;
  const suspensions = currentSuspensions(parts);
  const failures = checkpoint.failures();
  const wanted = [...checkpoint.desiredStates().values()].filter(
    ({ datasetId, members }) => members.size > 0 || observed.datasets.has(datasetId),
  );
  const chosen = wanted.filter(({ datasetId }) =>
    isChosenDataset(datasetId, choices.include, choices.exclude),
  );
  if (chosen.length === 0 && wanted.length > 0) {
    log.warn({ datasets: wanted.length }, 'datasets.include and datasets.exclude leave no dataset.');
  }
  return chosen
    .sort((left, right) => (left.datasetId < right.datasetId ? -1 : 1))
    .map((desired) => ({
      desired,
      observed: observed.datasets.get(desired.datasetId) ?? null,
      suspension: suspensions.concerning(desired),
      failure: failures.get(desired.datasetId) ?? null,
    }));
}

export class MirrorView {
  readonly #destination: Destination;
  readonly #datasets = new Map<string, ObservedTable>();
  #service: ObservedState['service'] = null;
  #progress: StoredProgress | null = null;
  #retired: readonly RetiredTable[] = [];
  #isRead = false;
  /** The mirror, watched: whoever works on it keeps the view up. */
  readonly destination: Destination;

  /** `progressNow` gives what is to be stored with the mirror in the window of the last commit; null: not yet. */
  constructor(destination: Destination, progressNow: (observed: ObservedState) => StoredProgress | null) {
    this.#destination = destination;
    this.destination = {
      has: () => this.#read(),
      enroll: async (enrolment) => {
        await destination.enroll(enrolment);
        const before = this.#service?.subscriptionIds ?? [];
        const subscriptionIds = [...new Set([...before, ...enrolment.subscriptionIds])].filter(
          (id) => !enrolment.forgottenSubscriptionIds.includes(id),
        );
        this.#service = { origin: enrolment.origin, subscriptionIds };
      },
      validate: (job) => destination.validate(job),
      readAhead: (job) => destination.readAhead(job),
      commit: (queue) =>
        destination.commit({
          take: () => queue.take(),
          arrival: () => queue.arrival(),
          report: (job, outcome) => {
            this.#note(job, outcome);
            queue.report(job, outcome);
          },
          progressToStore: async () => {
            const progress = progressNow(this.observed);
            // A failure is told by the destination: the next run that finds it missing stores it.
            if (progress !== null) this.#progress = progress;
            return progress;
          },
        }),
      storeProgress: async (progress, mode) => {
        const isStored = await destination.storeProgress(progress, mode);
        if (isStored) this.#progress = progress;
        return isStored;
      },
      progress: () => destination.progress(),
      close: () => destination.close(),
    };
  }

  /** Whether the mirror was looked at, ever. */
  get isRead(): boolean {
    return this.#isRead;
  }

  /** The tables as they are now: what is committed later is in it, too. The progress is as it was read or stored alone. */
  get observed(): ObservedState {
    return {
      service: this.#service,
      datasets: this.#datasets,
      progress: this.#progress,
      retired: this.#retired,
    };
  }

  /** One table as it is now; null where there is none. */
  table(datasetId: string): ObservedTable | null {
    return this.#datasets.get(datasetId) ?? null;
  }

  /** `isIdle`: nobody works on the mirror, so that it answers at once. */
  async look(isIdle: boolean): Promise<ObservedState> {
    if (isIdle || !this.#isRead) await this.#read();
    return this.observed;
  }

  async #read(): Promise<ObservedState> {
    const read = await this.#destination.has();
    this.#service = read.service;
    this.#progress = read.progress;
    this.#retired = read.retired;
    this.#datasets.clear();
    for (const [datasetId, table] of read.datasets) this.#datasets.set(datasetId, table);
    this.#isRead = true;
    return this.observed;
  }

  #note({ job }: ValidatedJob, outcome: Outcome): void {
    if (outcome.kind === 'committed') this.#datasets.set(outcome.datasetId, outcome.committed.observed);
    else if (outcome.kind === 'retired') {
      this.#datasets.delete(outcome.datasetId);
      if (job.kind === 'retirement') this.#retired = [job, ...this.#retired];
    }
  }
}
