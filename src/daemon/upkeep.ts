/**
 * The daemon's own writes to the mirror, beside the commits and while the mirror is free: it stores the progress, at most once an hour
 * and only where it has changed, and forgets the past that is older than `history.keep`.
 */

import { InterruptedError } from '../model/errors.ts';
import type { Session } from './session.ts';

const STORE_EVERY_MS = 3_600_000;
/** The mirror was not free, or more is left to forget. A destination that has nothing to forget says so without being opened. */
const AGAIN_MS = 60_000;

export class Upkeep {
  readonly #session: Session;
  readonly #underWay = new Map<string, Promise<void>>();
  #storeDueMs: number;
  /** A daemon that is often started again prunes, too. */
  #forgetDueMs = Number.NEGATIVE_INFINITY;

  constructor(session: Session) {
    this.#session = session;
    this.#storeDueMs = session.nowMs() + STORE_EVERY_MS;
  }

  /**
   * `isSettled`: every log was read, and no dataset is worked on. The past has its limit also while the service cannot be asked, so
   * that only has to wait until the mirror was read.
   */
  begin(isSettled: boolean): void {
    const { mirror } = this.#session;
    const nowMs = this.#session.nowMs();
    if (isSettled && nowMs >= this.#storeDueMs) this.#storeProgress(nowMs);
    if (mirror.isRead && nowMs >= this.#forgetDueMs) this.#forgetPast(nowMs);
  }

  async ended(): Promise<void> {
    await Promise.all(this.#underWay.values());
  }

  #storeProgress(nowMs: number): void {
    const { engine, parts } = this.#session;
    this.#run('progress', async () => {
      this.#storeDueMs = nowMs + STORE_EVERY_MS;
      const progress = engine.progressToStore();
      if (progress === null) return;
      const isStored = await parts.destination.storeProgress(progress, 'if-free');
      if (!isStored) this.#storeDueMs = nowMs + AGAIN_MS;
    });
  }

  #forgetPast(nowMs: number): void {
    const { destination } = this.#session.parts;
    this.#run('past', async () => {
      this.#forgetDueMs = nowMs + AGAIN_MS;
      const forgotten = await destination.forgetPast();
      if (forgotten !== 'nothing') this.#session.afterCommit?.noteForgotten();
    });
  }

  #run(of: string, work: () => Promise<void>): void {
    if (this.#underWay.has(of)) return;
    const running = work()
      .then(() => this.#session.resolve(of))
      .catch((error: unknown) => {
        if (!(error instanceof InterruptedError)) this.#session.raise(of, error);
      })
      .finally(() => this.#underWay.delete(of));
    this.#underWay.set(of, running);
  }
}
