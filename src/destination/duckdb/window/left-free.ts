/** The time for which the file is left to readers between two windows that write. */

import type { Clock } from '../../../lib/clock.ts';
import { interrupted } from './wait-for-file.ts';

export interface LeftFreeOptions {
  readonly path: string;
  /** No time by default. */
  readonly leftFreeMs?: number;
  readonly clock: Clock;
  readonly signal?: AbortSignal;
}

/** Of all windows of one file. */
export class LeftFree {
  readonly #options: LeftFreeOptions;
  /** On the monotonic clock. */
  #sinceMs = Number.NEGATIVE_INFINITY;

  constructor(options: LeftFreeOptions) {
    this.#options = options;
  }

  /** A window that writes has ended. */
  begin(): void {
    this.#sinceMs = this.#options.clock.monotonicMs();
  }

  /** Windows that follow each other without a pause would keep a reader out who tries again at times. */
  async over(): Promise<void> {
    const { clock, leftFreeMs = 0, path, signal } = this.#options;
    const restMs = this.#sinceMs + leftFreeMs - clock.monotonicMs();
    if (restMs <= 0) return;
    await clock.sleep(restMs, signal).catch((cause: unknown) => {
      throw interrupted(path, cause);
    });
  }
}
