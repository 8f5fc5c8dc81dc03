/**
 * An answer that is made once for all who ask for it within a second, or for longer where making it takes long: the loop does nothing
 * else meanwhile.
 *
 * Invariant: one making runs at a time. A failure reaches those who waited for that making, and is not kept.
 */

import type { Clock } from '../../lib/clock.ts';
import { type Answer, withETag } from './answers.ts';
import { MAX_SHARED_FOR_MS, SHARED_FOR_MS, SHARED_PER_MAKING } from './limits.ts';

export class SharedAnswer {
  readonly #make: () => Promise<Answer>;
  readonly #clock: Clock;
  #latest: Promise<Answer> | null = null;
  /** Infinite while the latest answer is being made. */
  #freshUntilMs = Number.NEGATIVE_INFINITY;

  constructor(make: () => Promise<Answer>, clock: Clock) {
    this.#make = make;
    this.#clock = clock;
  }

  /** @throws the error of making it. */
  get(): Promise<Answer> {
    if (this.#latest === null || this.#clock.monotonicMs() >= this.#freshUntilMs) {
      this.#freshUntilMs = Number.POSITIVE_INFINITY;
      this.#latest = this.#makeNow();
    }
    return this.#latest;
  }

  async #makeNow(): Promise<Answer> {
    const beganMs = this.#clock.monotonicMs();
    let keptForMs = 0;
    try {
      const answer = withETag(await this.#make());
      const tookMs = this.#clock.monotonicMs() - beganMs;
      keptForMs = Math.min(MAX_SHARED_FOR_MS, Math.max(SHARED_FOR_MS, SHARED_PER_MAKING * tookMs));
      return answer;
    } finally {
      this.#freshUntilMs = this.#clock.monotonicMs() + keptForMs;
    }
  }
}
