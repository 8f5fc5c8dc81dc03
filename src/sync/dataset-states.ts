/** The datasets of a catch-up, each with its desired and its observed state. */

import type {
  Destination,
  JobResult,
  ObservedState,
  RetiredTable,
  StoredProgress,
  ValidatedJob,
} from '../destination/destination.ts';
import { isPinned, type ObservedTable } from '../model/write-jobs.ts';
import { isChosenDataset } from './follow/subscriptions.ts';
import type { Parts } from './parts.ts';
import type { DatasetState } from './plan/dataset-state.ts';
import { needOf } from './plan/need.ts';
import { withResyncs } from './resyncs.ts';
import { currentSuspensions } from './suspensions.ts';

/**
 * Returns whether there is work on the dataset, as far as the stores know. A suspended dataset waits for an operator, but later content
 * than its candidate may pass the gate; a failed one is tried again, if only to find that the failure has passed. A pinned table
 * takes nothing.
 */
export function isBehind({ desired, observed, suspension, failure }: DatasetState): boolean {
  if (desired.members.size === 0) return observed !== null;
  if (isPinned(observed)) return false;
  const isWorkedOn = suspension === null || suspension.candidate !== undefined;
  return isWorkedOn && (failure !== null || needOf(observed, desired) !== 'nothing');
}

/** Returns the dataset as both stores know it by now. */
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

/** Returns one dataset; null where no subscription contains it and it has no table, or where it was not chosen. */
export function datasetState(datasetId: string, observed: ObservedState, parts: Parts): DatasetState | null {
  const { checkpoint, choices } = parts;
  const desired = checkpoint.desired(datasetId);
  const table = observed.datasets.get(datasetId) ?? null;
  if (desired === null || (desired.members.size === 0 && table === null)) return null;
  if (!isChosenDataset(datasetId, choices.include, choices.exclude)) return null;
  return datasetStateNow({ desired, observed: table, suspension: null, failure: null }, observed, parts);
}

/**
 * Returns every chosen dataset that a subscription contains or that still has a table, in order of id: the order in which
 * tables get their names.
 */
export function datasetStates(parts: Parts, observed: ObservedState): readonly DatasetState[] {
  const { checkpoint, choices, log } = parts;
  const suspensions = currentSuspensions(parts);
  const failures = checkpoint.failures();
  const desired = [...checkpoint.desiredStates().values()].filter(
    ({ datasetId, members }) => members.size > 0 || observed.datasets.has(datasetId),
  );
  const chosen = desired.filter(({ datasetId }) =>
    isChosenDataset(datasetId, choices.include, choices.exclude),
  );
  if (chosen.length === 0 && desired.length > 0) {
    log.warn({ datasets: desired.length }, 'datasets.include and datasets.exclude leave no dataset.');
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

/** The observed state of the mirror, kept up to date by watching every commit. */
export class MirrorView {
  readonly #destination: Destination;
  readonly #datasets = new Map<string, ObservedTable>();
  #service: ObservedState['service'] = null;
  #progress: StoredProgress | null = null;
  #retired: readonly RetiredTable[] = [];
  #keptDamaged: readonly string[] = [];
  #missing: readonly string[] = [];
  #isRead = false;
  /** The watched mirror: work on it keeps the view up to date. */
  readonly destination: Destination;

  /** `progressNow` returns the progress to store in the write session of the last commit; null: not yet. */
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
          report: (job, result) => {
            this.#note(job, result);
            queue.report(job, result);
          },
          progressToStore: async () => {
            const progress = progressNow(this.observed);
            // The destination logs a failure; the next run finds the progress missing and stores it.
            if (progress !== null) this.#progress = progress;
            return progress;
          },
        }),
      ...(destination.requests === undefined ? {} : { requests: destination.requests }),
      ...(destination.candidates === undefined ? {} : { candidates: destination.candidates }),
      ...(destination.scrubbing === undefined ? {} : { scrubbing: destination.scrubbing }),
      findDamage: () => destination.findDamage(),
      unpin: async (datasetId) => {
        await destination.unpin(datasetId);
        const table = this.#datasets.get(datasetId);
        if (table !== undefined) this.#datasets.set(datasetId, { ...table, pinnedSince: null });
      },
      storeProgress: async (progress, mode) => {
        const isStored = await destination.storeProgress(progress, mode);
        if (isStored) this.#progress = progress;
        return isStored;
      },
      ...(destination.keepResyncs === undefined
        ? {}
        : {
            keepResyncs: async (resyncs) => {
              await destination.keepResyncs?.(resyncs);
              this.#progress = withResyncs(this.#progress, resyncs);
            },
          }),
      forgetPast: () => destination.forgetPast(),
      storeChecksum: (checksum) => destination.storeChecksum(checksum),
      renewChecksums: (renewal) => destination.renewChecksums(renewal),
      progress: () => destination.progress(),
      close: () => destination.close(),
    };
  }

  /** Whether the mirror was ever read. */
  get isRead(): boolean {
    return this.#isRead;
  }

  /** The tables are live: later commits are in it, too. The progress is as it was read or stored alone. */
  get observed(): ObservedState {
    return {
      service: this.#service,
      datasets: this.#datasets,
      progress: this.#progress,
      retired: this.#retired,
      keptDamaged: this.#keptDamaged,
      missing: this.#missing,
    };
  }

  /** Returns one table as it is now; null where there is none. */
  table(datasetId: string): ObservedTable | null {
    return this.#datasets.get(datasetId) ?? null;
  }

  /** Reads the mirror where nobody works on it (`isIdle`), so that it answers at once. */
  async refresh(isIdle: boolean): Promise<ObservedState> {
    if (isIdle || !this.#isRead) await this.#read();
    return this.observed;
  }

  async #read(): Promise<ObservedState> {
    const read = await this.#destination.has();
    this.#service = read.service;
    this.#progress = read.progress;
    this.#retired = read.retired;
    this.#keptDamaged = read.keptDamaged ?? [];
    this.#missing = read.missing ?? [];
    this.#datasets.clear();
    for (const [datasetId, table] of read.datasets) this.#datasets.set(datasetId, table);
    this.#isRead = true;
    return this.observed;
  }

  #note({ job }: ValidatedJob, result: JobResult): void {
    const isCommitted = result.kind === 'committed' || result.kind === 'retired';
    if (isCommitted) this.#missing = this.#missing.filter((datasetId) => datasetId !== result.datasetId);
    if (result.kind === 'committed') this.#datasets.set(result.datasetId, result.committed.observed);
    else if (result.kind === 'retired') {
      this.#datasets.delete(result.datasetId);
      if (job.kind === 'retirement') this.#retired = [job, ...this.#retired];
    }
  }
}
