/**
 * Counts what the versions of one path stage, and says which of them leave where that is too much: the latest, so that the
 * earlier ones are committed and the next plan goes on from there.
 *
 * Invariant: the versions that stay never stage more than the limit together, unless the first alone does.
 */

export class StagedBytes {
  readonly #maxBytes: number;
  /** Of the versions that stay. */
  readonly #byPosition = new Map<number, number>();
  #total = 0;
  /** The versions from this position on have left. */
  #end = Number.POSITIVE_INFINITY;

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  /** `position` is counted from 0, along the path. */
  hasLeft(position: number): boolean {
    return position >= this.#end;
  }

  /**
   * The version at `position` is about to have `bytes` staged in all. False: the first version alone has more than the
   * limit, and all others have left.
   */
  grow(position: number, bytes: number): boolean {
    if (this.hasLeft(position)) return true;
    this.#total += bytes - (this.#byPosition.get(position) ?? 0);
    this.#byPosition.set(position, bytes);
    while (this.#total > this.#maxBytes) {
      const latest = Math.max(...this.#byPosition.keys());
      if (latest === 0) {
        this.#end = 1;
        return false;
      }
      this.#total -= this.#byPosition.get(latest) ?? 0;
      this.#byPosition.delete(latest);
      this.#end = latest;
    }
    return true;
  }
}
