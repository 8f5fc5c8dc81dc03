/** A process that reads a mirror again and again, and what it saw. */

import { startChild } from './child.ts';
import type { Seen } from './table-digest.ts';

/** What one opening of the mirror showed, by dataset id. */
export type Sight = Readonly<Record<string, Seen>>;

/** By the clock of the machine. */
export interface Span {
  readonly fromMs: number;
  readonly toMs: number;
}

/** One opening of the mirror. */
export interface Opening {
  readonly sight: Sight;
  /** The attempts before it that did not get in. */
  readonly refused: readonly Span[];
}

interface Expected {
  readonly isSeen: (sight: Sight) => boolean;
  readonly resolve: () => void;
}

export class MirrorReader {
  readonly #child: ReturnType<typeof startChild>;
  readonly #distinct = new Set<string>();
  #expected: Expected[] = [];
  #isStopped = false;
  /** Rejects where the reader ended by itself: something was not as a reader may rely on. */
  readonly ended: Promise<void>;

  constructor(mirrorPath: string, note: (opening: Opening) => void) {
    this.#child = startChild('mirror-reader-child.ts', mirrorPath);
    this.ended = this.#read(note);
  }

  /** Different sights so far. */
  get distinct(): number {
    return this.#distinct.size;
  }

  /** Resolves at the next sight of that kind; rejects where the reader ended before. */
  sees(isSeen: (sight: Sight) => boolean): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#expected.push({ isSeen, resolve });
    return Promise.race([promise, this.ended]);
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    await this.#child.kill();
  }

  async #read(note: (opening: Opening) => void): Promise<void> {
    try {
      for (;;) {
        const line = await this.#child.nextLine();
        const opening: Opening = JSON.parse(line);
        const { sight } = opening;
        this.#distinct.add(JSON.stringify(sight));
        note(opening);
        const seen = this.#expected.filter(({ isSeen }) => isSeen(sight));
        this.#expected = this.#expected.filter((expected) => !seen.includes(expected));
        for (const { resolve } of seen) resolve();
      }
    } catch (error) {
      if (!this.#isStopped) throw error;
    }
  }
}
