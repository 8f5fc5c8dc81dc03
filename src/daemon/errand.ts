/**
 * Something that is to be done again and again, whenever somebody asks for it: one at a time, not more often than it may,
 * and with growing waits where it fails. Pure but for its own numbers: time is passed in.
 */

import type { Random } from '../lib/random.ts';
import { RetryClock, type RetryLimits } from './retry-clocks.ts';

export class Errand {
  readonly #clock: RetryClock;
  #isOwed = false;
  #isUnderWay = false;
  #notBeforeMs = Number.NEGATIVE_INFINITY;

  constructor(limits: RetryLimits, random: Random) {
    this.#clock = new RetryClock(limits, random);
  }

  /** What is asked for while it is done is done once more. */
  ask(): void {
    this.#isOwed = true;
  }

  isDue(nowMs: number): boolean {
    return this.#isOwed && !this.#isUnderWay && nowMs >= Math.max(this.#notBeforeMs, this.#clock.dueMs);
  }

  begin(): void {
    this.#isOwed = false;
    this.#isUnderWay = true;
  }

  done(notBeforeMs: number): void {
    this.#isUnderWay = false;
    this.#notBeforeMs = notBeforeMs;
    this.#clock.succeeded();
  }

  failed(nowMs: number): void {
    this.#isUnderWay = false;
    this.#isOwed = true;
    this.#clock.failed(nowMs);
  }
}
