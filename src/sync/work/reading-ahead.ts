/**
 * Lets the destination read what has come while the rest is still being fetched, in parts. It is for speed only: what is not read
 * ahead is read once all is there.
 */

import type { ReadAhead } from '../../destination/destination.ts';

/** Less is not worth a statement of its own. */
export const LEAST_BYTES_AHEAD = 12_000_000;
/** From so much on a part ends: the last ones are to end at about the same time. */
export const BYTES_OF_A_PART = 24_000_000;
/** A destination may have more than one hand free. */
const PARTS_AT_ONCE = 2;

export class ReadingAhead<T extends { readonly bytes: number }> {
  readonly #read: (some: readonly T[]) => Promise<ReadAhead | null>;
  /** By position: those that others are to come before. */
  readonly #early = new Map<number, T>();
  /** Those that are next to be read, and how many came before them. */
  #next: T[] = [];
  #before = 0;
  /** In their order. */
  readonly #parts: Promise<ReadAhead | null>[] = [];
  #underWay = 0;
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
    }
    this.#readOn();
  }

  /** Nothing more is begun. */
  stop(): void {
    this.#isOver = true;
  }

  /** What was read, from the first on and without a gap, once nothing is being read any more, or worth being read. */
  async end(): Promise<readonly ReadAhead[]> {
    const read: ReadAhead[] = [];
    let hasGap = false;
    // When one ends the next has been begun.
    for (const reading of this.#parts) {
      const part = await reading;
      if (part === null) hasGap = true;
      else if (!hasGap) read.push(part);
    }
    return read;
  }

  #readOn(): void {
    while (!this.#isOver && this.#underWay < PARTS_AT_ONCE) {
      const part = cut(this.#next);
      if (part.length === 0) return;
      this.#next = this.#next.slice(part.length);
      this.#before += part.length;
      this.#underWay += 1;
      this.#parts.push(this.#readPart(part));
    }
  }

  async #readPart(part: readonly T[]): Promise<ReadAhead | null> {
    // Whatever is wrong comes out when the whole is read.
    const read = await this.#read(part).catch(() => null);
    this.#underWay -= 1;
    // What comes after it would leave a gap.
    if (read === null) this.#isOver = true;
    this.#readOn();
    return read;
  }
}

/** What is to be read first; nothing where that is too little. */
function cut<T extends { readonly bytes: number }>(some: readonly T[]): readonly T[] {
  let bytes = 0;
  let count = 0;
  for (; count < some.length && bytes < BYTES_OF_A_PART; count += 1) bytes += some[count]?.bytes ?? 0;
  return bytes < LEAST_BYTES_AHEAD ? [] : some.slice(0, count);
}
