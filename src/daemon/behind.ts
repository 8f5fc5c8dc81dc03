/** Since when each dataset is behind, and when all were for the first time where they can be. */

import type { Session } from './session.ts';

export class Behind {
  readonly #session: Session;
  readonly #since = new Map<string, Date>();
  #caughtUpAt: Date | null = null;

  constructor(session: Session) {
    this.#session = session;
  }

  /** By dataset id. */
  get since(): ReadonlyMap<string, Date> {
    return this.#since;
  }

  /** Null: not yet. */
  get caughtUpAt(): Date | null {
    return this.#caughtUpAt;
  }

  /** It is known from when it came onto the agenda. `isSettled`: all was read, and nothing is worked on. */
  look(isSettled: boolean): void {
    const { agenda, parts } = this.#session;
    const now = parts.clock.now();
    for (const datasetId of agenda.items.keys()) {
      if (!this.#since.has(datasetId)) this.#since.set(datasetId, now);
    }
    if (this.#caughtUpAt === null && isSettled && !agenda.isDue(this.#session.nowMs()))
      this.#caughtUpAt = now;
  }

  over(datasetId: string): void {
    this.#since.delete(datasetId);
  }
}
