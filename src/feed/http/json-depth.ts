/**
 * Counts the nesting and the parts of JSON while it streams by, so that no parser meets a document that would overflow its
 * stack, or become many times as large in memory as it is.
 */

const QUOTE = 0x22;
const BACKSLASH = 0x5c;

/** What each byte outside of texts does to the depth. Bytes of characters beyond ASCII never look like syntax. */
const STEPS = new Int8Array(256);
for (const open of '[{') STEPS[open.charCodeAt(0)] = 1;
for (const close of ']}') STEPS[close.charCodeAt(0)] = -1;

/** Each list, object and member of one takes memory of its own. */
const PARTS = new Int8Array(256);
for (const begin of '[{:') PARTS[begin.charCodeAt(0)] = 1;

export class JsonDepth {
  readonly #maxDepth: number;
  #depth = 0;
  #parts = 0;
  #inText = false;
  #escaped = false;

  constructor(maxDepth: number) {
    this.#maxDepth = maxDepth;
  }

  /** Lists, objects and members so far. */
  get parts(): number {
    return this.#parts;
  }

  /** Answers false once the nesting is deeper than allowed. */
  accepts(chunk: Uint8Array): boolean {
    // Fields cost several times as much as variables, and this runs for every byte.
    let depth = this.#depth;
    let parts = this.#parts;
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
        parts += PARTS[byte] ?? 0;
        if (depth > maxDepth) return false;
      }
    }
    this.#depth = depth;
    this.#parts = parts;
    this.#inText = inText;
    this.#escaped = escaped;
    return true;
  }
}
