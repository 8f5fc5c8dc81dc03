/** The datasets of a catch-up, with what both stores know of each. */

import type {
  Destination,
  Held,
  Outcome,
  Prepared,
  RetiredTable,
  StoredProgress,
} from '../destination/destination.ts';
import type { HeldDataset } from '../model/write-jobs.ts';
import { isChosenDataset } from './follow/subscriptions.ts';
import type { Parts } from './parts.ts';
import { needOf } from './plan/need.ts';
import type { Known } from './plan/plan.ts';
import { holdOfEveryMember, standingHolds } from './suspensions.ts';

/**
 * Whether something is to be done about it, as far as it is known without asking the service. What is held waits for a
 * person; what failed is tried again, if only to find that its failure is over.
 */
export function isBehind({ want, held, hold, failure }: Known): boolean {
  if (want.members.size === 0) return held !== null;
  return hold === null && (failure !== null || needOf(held, want) !== 'nothing');
}

/** The same dataset, as both stores know it by now. */
export function knownAgain({ want: before }: Known, held: Held, parts: Parts): Known {
  const { checkpoint } = parts;
  const { datasetId } = before;
  const want = checkpoint.want(datasetId) ?? before;
  const holds = standingHolds(parts);
  return {
    want,
    held: held.datasets.get(datasetId) ?? null,
    hold: holds.ofDataset(datasetId) ?? holdOfEveryMember(want.members.keys(), holds.ofSubscription),
    failure: checkpoint.failure(datasetId),
  };
}

/** One dataset; null where nothing is to be done about it: nobody wants it and it has no table, or it was not chosen. */
export function knownDataset(datasetId: string, held: Held, parts: Parts): Known | null {
  const { checkpoint, choices } = parts;
  const want = checkpoint.want(datasetId);
  const table = held.datasets.get(datasetId) ?? null;
  if (want === null || (want.members.size === 0 && table === null)) return null;
  if (!isChosenDataset(datasetId, choices.include, choices.exclude)) return null;
  return knownAgain({ want, held: table, hold: null, failure: null }, held, parts);
}

/**
 * Every chosen dataset that a subscription holds, and every chosen one that none holds and that still has a table, in
 * order of id: the order in which tables get their names.
 */
export function knownDatasets(parts: Parts, held: Held): readonly Known[] {
  const { checkpoint, choices, log } = parts;
  const holds = standingHolds(parts);
  const failures = checkpoint.failures();
  const wanted = [...checkpoint.wants().values()].filter(
    ({ datasetId, members }) => members.size > 0 || held.datasets.has(datasetId),
  );
  const chosen = wanted.filter(({ datasetId }) =>
    isChosenDataset(datasetId, choices.include, choices.exclude),
  );
  if (chosen.length === 0 && wanted.length > 0) {
    log.warn({ datasets: wanted.length }, 'datasets.include and datasets.exclude leave no dataset.');
  }
  return chosen
    .sort((left, right) => (left.datasetId < right.datasetId ? -1 : 1))
    .map((want) => ({
      want,
      held: held.datasets.get(want.datasetId) ?? null,
      hold: holds.ofDataset(want.datasetId) ?? holdOfEveryMember(want.members.keys(), holds.ofSubscription),
      failure: failures.get(want.datasetId) ?? null,
    }));
}

export class MirrorView {
  readonly #destination: Destination;
  readonly #datasets = new Map<string, HeldDataset>();
  #service: Held['service'] = null;
  #progress: StoredProgress | null = null;
  #retired: readonly RetiredTable[] = [];
  #isRead = false;
  /** The mirror, watched: whoever works on it keeps the view up. */
  readonly destination: Destination;

  /** `progressNow` gives what is to be stored with the mirror in the window of the last commit; null: not yet. */
  constructor(destination: Destination, progressNow: (held: Held) => StoredProgress | null) {
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
      prepare: (unit) => destination.prepare(unit),
      readAhead: (unit) => destination.readAhead(unit),
      commit: (queue) =>
        destination.commit({
          take: () => queue.take(),
          arrival: () => queue.arrival(),
          tell: (unit, outcome) => {
            this.#note(unit, outcome);
            queue.tell(unit, outcome);
          },
          progressToStore: async () => {
            const progress = progressNow(this.held);
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
  get held(): Held {
    return {
      service: this.#service,
      datasets: this.#datasets,
      progress: this.#progress,
      retired: this.#retired,
    };
  }

  /** One table as it is now; null where there is none. */
  table(datasetId: string): HeldDataset | null {
    return this.#datasets.get(datasetId) ?? null;
  }

  /** `isIdle`: nobody works on the mirror, so that it answers at once. */
  async look(isIdle: boolean): Promise<Held> {
    if (isIdle || !this.#isRead) await this.#read();
    return this.held;
  }

  async #read(): Promise<Held> {
    const read = await this.#destination.has();
    this.#service = read.service;
    this.#progress = read.progress;
    this.#retired = read.retired;
    this.#datasets.clear();
    for (const [datasetId, table] of read.datasets) this.#datasets.set(datasetId, table);
    this.#isRead = true;
    return this.held;
  }

  #note({ unit }: Prepared, outcome: Outcome): void {
    if (outcome.kind === 'committed') this.#datasets.set(outcome.datasetId, outcome.committed.held);
    else if (outcome.kind === 'retired') {
      this.#datasets.delete(outcome.datasetId);
      if (unit.kind === 'retirement') this.#retired = [unit, ...this.#retired];
    }
  }
}
