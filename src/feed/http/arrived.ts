/**
 * The bytes of a body as they arrive.
 *
 * Invariant: what arrived before the body broke off is handed out before the trouble is. A plain stream drops what it
 * has buffered when it fails, and a download would fetch those bytes a second time.
 */

import type { Readable } from 'node:stream';

/** Bytes held for a reader that is slower than the service; then the service waits. */
const MAX_HELD_BYTES = 1_000_000;

/** Begins to listen at once; read the answer once, or destroy the body. */
export function arrivedChunks(body: Readable): AsyncGenerator<Buffer> {
  return new Arrivals(body).read();
}

class Arrivals {
  readonly #body: Readable;
  #held: Buffer[] = [];
  #heldBytes = 0;
  /** How the body ended; null while it goes on. */
  #end: { readonly error: unknown } | null = null;
  #wake = (): void => {};

  constructor(body: Readable) {
    this.#body = body;
    body.on('data', (chunk: Buffer) => this.#hold(chunk));
    body.on('end', () => this.#endWith(null));
    body.on('error', (error) => this.#endWith(error));
    body.on('close', () => this.#endWith(new Error('The body was closed before its end.')));
  }

  async *read(): AsyncGenerator<Buffer> {
    try {
      for (;;) {
        const chunk = this.#release();
        if (chunk !== null) yield chunk;
        else if (this.#end === null) await this.#news();
        else if (this.#end.error === null) return;
        else throw this.#end.error;
      }
    } finally {
      this.#body.destroy();
    }
  }

  #hold(chunk: Buffer): void {
    this.#held.push(chunk);
    this.#heldBytes += chunk.length;
    if (this.#heldBytes >= MAX_HELD_BYTES) this.#body.pause();
    this.#wake();
  }

  /** All that is held at once: the slower the reader, the larger the pieces it gets, and the fewer. */
  #release(): Buffer | null {
    if (this.#heldBytes === 0) return null;
    const [first = Buffer.alloc(0)] = this.#held;
    const chunk = this.#held.length === 1 ? first : Buffer.concat(this.#held, this.#heldBytes);
    this.#held = [];
    this.#heldBytes = 0;
    if (this.#body.isPaused()) this.#body.resume();
    return chunk;
  }

  /** The first end counts: a body that ended or failed is closed afterwards. */
  #endWith(error: unknown): void {
    this.#end ??= { error };
    this.#wake();
  }

  #news(): Promise<void> {
    return new Promise((resolve) => {
      this.#wake = resolve;
    });
  }
}
