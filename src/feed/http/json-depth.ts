/**
 * Counts the nesting and the parts of JSON while it streams by, so that no parser meets a document that would overflow its
 * stack, or become many times as large in memory as it is.
 */

/** What a byte may be. Most are nothing, and those of characters beyond ASCII never look like syntax. */
const NOTHING = 0;
const QUOTE = 1;
const BACKSLASH = 2;
const SYNTAX = 3;
const KINDS = new Uint8Array(256);
KINDS[0x22] = QUOTE;
KINDS[0x5c] = BACKSLASH;
for (const byte of '[{]}:') KINDS[byte.charCodeAt(0)] = SYNTAX;

/** What each byte outside of texts does to the depth. */
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
    const maxDepth = this.#maxDepth;
    const { length } = chunk;
    let index = Number(this.#escaped);
    for (; index < length; index += 1) {
      const byte = chunk[index] ?? 0;
      const kind = KINDS[byte];
      if (kind === NOTHING) continue;
      if (kind === QUOTE) inText = !inText;
      // One outside of a text is no JSON, and a parser stops there.
      else if (kind === BACKSLASH) index += 1;
      else if (!inText) {
        depth += STEPS[byte] ?? 0;
        parts += PARTS[byte] ?? 0;
        if (depth > maxDepth) return false;
      }
    }
    this.#depth = depth;
    this.#parts = parts;
    this.#inText = inText;
    // What is escaped may be the first byte of the next chunk.
    this.#escaped = index > length;
    return true;
  }
}
