/** Counts the nesting of JSON while it streams by, so that no parser meets a document that would overflow its stack. */

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const OPEN_BRACKET = 0x5b;
const CLOSE_BRACKET = 0x5d;
const OPEN_BRACE = 0x7b;
const CLOSE_BRACE = 0x7d;

export class JsonDepth {
  readonly #maxDepth: number;
  #depth = 0;
  #inText = false;
  #escaped = false;

  constructor(maxDepth: number) {
    this.#maxDepth = maxDepth;
  }

  /** Answers false once the nesting is deeper than allowed. Bytes of characters beyond ASCII never look like syntax. */
  accepts(chunk: Uint8Array): boolean {
    for (const byte of chunk) {
      if (this.#inText) this.#readText(byte);
      else if (byte === QUOTE) this.#inText = true;
      else if (byte === OPEN_BRACE || byte === OPEN_BRACKET) {
        this.#depth += 1;
        if (this.#depth > this.#maxDepth) return false;
      } else if (byte === CLOSE_BRACE || byte === CLOSE_BRACKET) this.#depth -= 1;
    }
    return true;
  }

  #readText(byte: number): void {
    if (this.#escaped) this.#escaped = false;
    else if (byte === BACKSLASH) this.#escaped = true;
    else if (byte === QUOTE) this.#inText = false;
  }
}
