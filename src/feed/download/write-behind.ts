/**
 * Writes to a file behind who gives the bytes: the next ones are received and hashed while those before are written.
 *
 * Invariant: the bytes are written in their order, and those that were given before something broke off are not lost.
 */

import type { FileHandle } from 'node:fs/promises';
import { onDisk } from '../storage.ts';

/** So many wait at the most while others are written; then they are written at once. */
const MOST_WAITING_BYTES = 4_000_000;

export class WriteBehind {
  readonly #file: FileHandle;
  readonly #path: string;
  #waiting: Buffer[] = [];
  #waitingBytes = 0;
  #writing: Promise<void> | null = null;

  /** `path` is for messages. */
  constructor(file: FileHandle, path: string) {
    this.#file = file;
    this.#path = path;
  }

  /** Resolves once there is room for more. @throws StorageError, of these bytes or of those before */
  async write(chunk: Buffer): Promise<void> {
    this.#waiting.push(chunk);
    this.#waitingBytes += chunk.length;
    this.#writing ??= this.#begin();
    if (this.#waitingBytes >= MOST_WAITING_BYTES) await this.#writing;
  }

  /** Resolves once all is written. @throws StorageError */
  async flush(): Promise<void> {
    await this.#writing;
  }

  /** One that fails stays: nothing is written after what is missing. */
  #begin(): Promise<void> {
    const writing = this.#writeAll();
    // Who gives more bytes than may wait is told, or who waits for all; until then nobody listens.
    writing.catch(() => {});
    return writing;
  }

  async #writeAll(): Promise<void> {
    while (this.#waiting.length > 0) {
      const [only = Buffer.alloc(0), ...others] = this.#waiting;
      const bytes = others.length === 0 ? only : Buffer.concat(this.#waiting, this.#waitingBytes);
      this.#waiting = [];
      this.#waitingBytes = 0;
      await onDisk(this.#path, () => this.#file.appendFile(bytes));
    }
    this.#writing = null;
  }
}
