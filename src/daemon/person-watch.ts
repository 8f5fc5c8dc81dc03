/**
 * Sees what a person has decided in another process: `resume`, `resync`, `forget` write it to the checkpoint. A counter of
 * SQLite tells that something was written, so that nothing is read where nothing was.
 */

import type { Checkpoint, Hold } from '../checkpoint/checkpoint.ts';

export interface Seen {
  /** Another process has stored something. */
  readonly isStored: boolean;
  /** Something that was refused or missing may be asked for again. */
  readonly isLifted: boolean;
}

export class PersonWatch {
  readonly #checkpoint: Checkpoint;
  #othersStored: number;
  /** As JSON: two of the same are told from two of different ones. */
  #heldScopes: ReadonlySet<string> = new Set();

  constructor(checkpoint: Checkpoint) {
    this.#checkpoint = checkpoint;
    this.#othersStored = checkpoint.othersStored();
  }

  /** What has changed since the last look. `holds`: those that stand now. */
  look(holds: readonly Hold[]): Seen {
    const othersStored = this.#checkpoint.othersStored();
    const isStored = othersStored !== this.#othersStored;
    this.#othersStored = othersStored;
    const standing = new Set(holds.map(({ refusal: { scope } }) => JSON.stringify(scope)));
    const isLifted = [...this.#heldScopes].some((scope) => !standing.has(scope));
    this.#heldScopes = standing;
    return { isStored, isLifted: isStored && isLifted };
  }
}
