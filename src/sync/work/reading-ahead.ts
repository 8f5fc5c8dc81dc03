/**
 * Lets the destination read what has come while the rest is still being fetched, one part after another. It is for speed only:
 * what is not read ahead is read once all is there.
 */

import type { ReadAhead } from '../../destination/destination.ts';

/** Less is not worth a statement of its own. */
export const LEAST_BYTES_AHEAD = 4_000_000;

export class ReadingAhead<T extends { readonly bytes: number }> {
  readonly #read: (some: readonly T[]) => Promise<ReadAhead | null>;
  /** By position: those that others are to come before. */
  readonly #early = new Map<number, T>();
  /** Those that are next to be read, and how many came before them. */
  #next: T[] = [];
  #nextBytes = 0;
  #before = 0;
  #parts: readonly ReadAhead[] = [];
  #reading: Promise<void> | null = null;
  #isOver = false;

  /** `read` is given some after one another, from where the part before ended. */
  constructor(read: (some: readonly T[]) => Promise<ReadAhead | null>) {
    this.#read = read;
  }

  /** `position` is counted from 0. */
  arrived(position: number, one: T): void {
    this.#early.set(position, one);
    for (;;) {
      const following = this.#before + this.#next.length;
      const next = this.#early.get(following);
      if (next === undefined) break;
      this.#early.delete(following);
      this.#next.push(next);
      this.#nextBytes += next.bytes;
    }
    this.#readNext();
  }

  /** What was read, from the first on and without a gap, once nothing is being read any more. */
  async end(): Promise<readonly ReadAhead[]> {
    this.#isOver = true;
    await this.#reading;
    return this.#parts;
  }

  #readNext(): void {
    if (this.#isOver || this.#reading !== null || this.#nextBytes < LEAST_BYTES_AHEAD) return;
    const next = this.#next;
    this.#before += next.length;
    this.#next = [];
    this.#nextBytes = 0;
    this.#reading = this.#readPart(next);
  }

  async #readPart(next: readonly T[]): Promise<void> {
    // Whatever is wrong comes out when the whole is read.
    const part = await this.#read(next).catch(() => null);
    this.#reading = null;
    if (part === null) this.#isOver = true;
    else this.#parts = [...this.#parts, part];
    this.#readNext();
  }
}
