/**
 * Wakes the loop at once, and then once for all that ask within a pause: a service that publishes a thousand datasets
 * sends a thousand webhooks, and is not asked a thousand times for it.
 */

import type { Clock } from '../../lib/clock.ts';
import { WAKE_PAUSE_MS } from './limits.ts';

export class Waker {
  readonly #wake: () => void;
  readonly #clock: Clock;
  readonly #ended = new AbortController();
  #isPausing = false;
  #isAsked = false;

  constructor(wake: () => void, clock: Clock) {
    this.#wake = wake;
    this.#clock = clock;
  }

  /** Returns at once. */
  wake(): void {
    this.#isAsked = true;
    if (!this.#isPausing) void this.#wakeAndPause();
  }

  /** Whoever asked within the pause is not heard any more. */
  end(): void {
    this.#ended.abort();
  }

  async #wakeAndPause(): Promise<void> {
    this.#isPausing = true;
    while (this.#isAsked && !this.#ended.signal.aborted) {
      this.#isAsked = false;
      this.#wake();
      await this.#clock.sleep(WAKE_PAUSE_MS, this.#ended.signal).catch(() => {});
    }
    this.#isPausing = false;
  }
}
