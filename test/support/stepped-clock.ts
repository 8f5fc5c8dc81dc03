/** A clock that stands still until a test lets time pass: sleepers wake in the order of their times. */

import type { Clock } from '../../src/lib/clock.ts';
import { NOON } from './checkpoint-files.ts';

interface Sleeper {
  readonly wakesMs: number;
  readonly wake: () => void;
}

export class SteppedClock implements Clock {
  readonly #began: Date;
  #nowMs = 0;
  /** Milliseconds by which the wall clock was set forward, or back. */
  #jumpedMs = 0;
  /** Milliseconds for which the machine was suspended. */
  #suspendedMs = 0;
  readonly #sleepers = new Set<Sleeper>();

  constructor(began: Date = NOON) {
    this.#began = began;
  }

  now(): Date {
    return new Date(this.#began.getTime() + this.passedMs + this.#jumpedMs);
  }

  /** Milliseconds that have passed for everybody else, however this machine's clocks go. */
  get passedMs(): number {
    return this.#nowMs + this.#suspendedMs;
  }

  monotonicMs(): number {
    return this.#nowMs;
  }

  sleep(durationMs: number, signal?: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      const end = (): void => {
        this.#sleepers.delete(sleeper);
        signal?.removeEventListener('abort', stopped);
      };
      const stopped = (): void => {
        end();
        reject(signal?.reason);
      };
      const sleeper = {
        wakesMs: this.#nowMs + durationMs,
        wake: () => {
          end();
          resolve();
        },
      };
      if (signal?.aborted) return reject(signal.reason);
      signal?.addEventListener('abort', stopped);
      this.#sleepers.add(sleeper);
    });
  }

  pass(durationMs: number): void {
    this.#nowMs += durationMs;
    const due = [...this.#sleepers].filter(({ wakesMs }) => wakesMs <= this.#nowMs);
    for (const { wake } of due.sort((left, right) => left.wakesMs - right.wakesMs)) wake();
  }

  /** The machine is suspended: no timer goes on meanwhile, and the monotonic clock stands still. */
  suspend(durationMs: number): void {
    this.#suspendedMs += durationMs;
  }

  /** Somebody sets the wall clock. */
  jump(byMs: number): void {
    this.#jumpedMs += byMs;
  }
}
