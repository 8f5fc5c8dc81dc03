/**
 * Writes to a file behind who gives the bytes: the next ones are received while those before are written, and put on the disk.
 *
 * Invariant: the bytes are written in their order, and those that were given before something broke off are not lost.
 */

import type { FileHandle } from 'node:fs/promises';
import { onDisk } from '../storage.ts';
import { syncPart } from './part-file.ts';

/** So many wait at the most while others are written; then they are written at once. */
const MOST_WAITING_BYTES = 4_000_000;
/** So many are written before the disk is asked to take them: what it has by the end is not waited for then. */
const SYNC_EVERY_BYTES = 16_000_000;

export class WriteBehind {
  readonly #file: FileHandle;
  readonly #path: string;
  readonly #onWritten: (bytes: Buffer) => void;
  #waiting: Buffer[] = [];
  #waitingBytes = 0;
  #writing: Promise<void> | null = null;
  #unsyncedBytes = 0;
  #syncing: Promise<void> | null = null;

  /** `path` is for messages. `onWritten` is told of all bytes in their order, once they can be read in the file. */
  constructor(file: FileHandle, path: string, onWritten: (bytes: Buffer) => void) {
    this.#file = file;
    this.#path = path;
    this.#onWritten = onWritten;
  }

  /** Resolves once there is room for more. @throws StorageError, of these bytes or of those before */
  async write(chunk: Buffer): Promise<void> {
    this.#waiting.push(chunk);
    this.#waitingBytes += chunk.length;
    this.#writing ??= this.#begin();
    if (this.#waitingBytes >= MOST_WAITING_BYTES) await this.#writing;
  }

  /** Resolves once all is written, and nothing more is done with the file. @throws StorageError */
  async flush(): Promise<void> {
    try {
      await this.#writing;
    } finally {
      await this.#syncing;
    }
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
      const pieces = this.#waiting;
      const bytes = this.#waitingBytes;
      this.#waiting = [];
      this.#waitingBytes = 0;
      await onDisk(this.#path, () => writeWhole(this.#file, pieces, bytes));
      for (const piece of pieces) this.#onWritten(piece);
      this.#syncBehind(bytes);
    }
    this.#writing = null;
  }

  /** The system tells only once that the disk did not take something: one that fails stays, too. */
  #syncBehind(bytes: number): void {
    this.#unsyncedBytes += bytes;
    if (this.#unsyncedBytes < SYNC_EVERY_BYTES || this.#syncing !== null) return;
    this.#unsyncedBytes = 0;
    this.#syncing = this.#sync();
    this.#syncing.catch(() => {});
  }

  async #sync(): Promise<void> {
    await syncPart(this.#path, this.#file, 'data');
    this.#syncing = null;
  }
}

/** The system may write fewer bytes than it was given; why, it tells whoever writes the rest. */
async function writeWhole(file: FileHandle, pieces: Buffer[], bytes: number): Promise<void> {
  const { bytesWritten } = await file.writev(pieces);
  if (bytesWritten < bytes) await file.appendFile(Buffer.concat(pieces).subarray(bytesWritten));
}
