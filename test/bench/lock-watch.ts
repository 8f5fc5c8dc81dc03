/**
 * Watches from outside when a process has a file locked, without ever locking it: once a millisecond it reads what the
 * kernel lists in /proc/locks. DuckDB locks the file of a database from attach to detach. Linux only.
 */

import { readFileSync, statSync } from 'node:fs';
import { performance } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';

/** From the first check that found the lock to the first that did not; in milliseconds since 1970. */
export interface ObservedState {
  readonly fromMs: number;
  readonly untilMs: number;
}

const CHECK_EVERY_MS = 1;

export class LockWatch implements Disposable {
  readonly #owner: string;
  readonly #file: string;
  #observed: ObservedState[] = [];
  #since: number | null = null;
  #freeSinceMs: number;
  #lookedMs: number;
  #longestGapMs = 0;
  #isOver = false;

  constructor(pid: number, path: string) {
    this.#owner = ` ${pid} `;
    this.#file = `:${statSync(path).ino} `;
    this.#lookedMs = nowMs();
    this.#freeSinceMs = this.#lookedMs;
    void this.#watch();
  }

  /** As of the last check. */
  get isLocked(): boolean {
    return this.#since !== null;
  }

  /** The locks that were taken and released since the last call, and the longest time between two checks. */
  take(): { readonly observed: readonly ObservedState[]; readonly longestGapMs: number } {
    const taken = { observed: this.#observed, longestGapMs: this.#longestGapMs };
    this.#observed = [];
    this.#longestGapMs = 0;
    return taken;
  }

  /** Resolves once the file has been free for so long. */
  async free(forMs: number): Promise<void> {
    while (this.#since !== null || nowMs() - this.#freeSinceMs < forMs) await sleep(CHECK_EVERY_MS);
  }

  [Symbol.dispose](): void {
    this.#isOver = true;
  }

  async #watch(): Promise<void> {
    while (!this.#isOver) {
      this.#check();
      await sleep(CHECK_EVERY_MS);
    }
  }

  #check(): void {
    const isLocked = readFileSync('/proc/locks', 'utf8')
      .split('\n')
      .some((line) => line.includes(this.#owner) && line.includes(this.#file));
    const atMs = nowMs();
    this.#longestGapMs = Math.max(this.#longestGapMs, atMs - this.#lookedMs);
    this.#lookedMs = atMs;
    if (isLocked) {
      this.#since ??= atMs;
    } else if (this.#since !== null) {
      this.#observed.push({ fromMs: this.#since, untilMs: atMs });
      this.#since = null;
      this.#freeSinceMs = atMs;
    }
  }
}

function nowMs(): number {
  return performance.timeOrigin + performance.now();
}
