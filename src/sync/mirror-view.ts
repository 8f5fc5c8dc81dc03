/**
 * What the mirror has, without asking it each time: read once, and kept up with what is committed. The mirror is asked
 * again only where nobody works on it, because a large load keeps everybody else waiting for hours.
 *
 * Invariant: the view may be behind the mirror where somebody else has changed that, and never ahead of it. What is
 * planned from it is checked by the mirror itself when it is committed.
 */

import type {
  Destination,
  Held,
  HeldDataset,
  Outcome,
  Prepared,
  RetiredTable,
} from '../destination/destination.ts';
import type { StoredProgress } from '../destination/stored-progress.ts';

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
