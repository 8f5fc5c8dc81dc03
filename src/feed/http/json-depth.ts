/** Counts the nesting of JSON while it streams by, so that no parser meets a document that would overflow its stack. */

const QUOTE = 0x22;
const BACKSLASH = 0x5c;

/** What each byte outside of texts does to the depth. Bytes of characters beyond ASCII never look like syntax. */
const STEPS = new Int8Array(256);
for (const open of '[{') STEPS[open.charCodeAt(0)] = 1;
for (const close of ']}') STEPS[close.charCodeAt(0)] = -1;

export class JsonDepth {
  readonly #maxDepth: number;
  #depth = 0;
  #inText = false;
  #escaped = false;

  constructor(maxDepth: number) {
    this.#maxDepth = maxDepth;
  }

  /** Answers false once the nesting is deeper than allowed. */
  accepts(chunk: Uint8Array): boolean {
    // Fields cost several times as much as variables, and this runs for every byte.
    let depth = this.#depth;
    let inText = this.#inText;
    let escaped = this.#escaped;
    const maxDepth = this.#maxDepth;
    for (let index = 0; index < chunk.length; index += 1) {
      const byte = chunk[index] ?? 0;
      if (inText) {
        inText = escaped || byte !== QUOTE;
        escaped = !escaped && byte === BACKSLASH;
      } else if (byte === QUOTE) inText = true;
      else {
        depth += STEPS[byte] ?? 0;
        if (depth > maxDepth) return false;
      }
    }
    this.#depth = depth;
    this.#inText = inText;
    this.#escaped = escaped;
    return true;
  }
}
