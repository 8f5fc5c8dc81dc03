/**
 * Stores the progress in the mirror where no commit has stored it: once an hour, when no dataset is worked on, the progress has
 * changed, and the mirror is free.
 */

import type { Session } from './session.ts';

const EVERY_MS = 3_600_000;
/** The mirror was not free. */
const AGAIN_MS = 60_000;

export class ProgressKeeper {
  readonly #session: Session;
  #dueMs: number;
  #storing: Promise<void> | null = null;

  constructor(session: Session) {
    this.#session = session;
    this.#dueMs = session.nowMs() + EVERY_MS;
  }

  /** `isSettled`: every log was read, and no dataset is worked on. */
  storeIfDue(isSettled: boolean): void {
    const nowMs = this.#session.nowMs();
    if (!isSettled || this.#storing !== null || nowMs < this.#dueMs) return;
    const { engine, parts } = this.#session;
    this.#dueMs = nowMs + EVERY_MS;
    const progress = engine.progressToStore();
    if (progress === null) return;
    this.#storing = parts.destination
      .storeProgress(progress, 'if-free')
      .then((isStored) => {
        if (!isStored) this.#dueMs = nowMs + AGAIN_MS;
        this.#session.resolve('progress');
      })
      .catch((error: unknown) => this.#session.raise('progress', error))
      .finally(() => {
        this.#storing = null;
      });
  }

  async ended(): Promise<void> {
    await this.#storing;
  }
}
