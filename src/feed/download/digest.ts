/**
 * The sha256 of a file while it is written: of a small one on this thread, from the bytes as they are given; of a large
 * one on a thread of its own, which reads the file behind its writer, so that more is received meanwhile.
 *
 * Invariant: it covers the file from its first byte, what was there before included.
 */

import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { onDisk } from '../storage.ts';
import { DigestThread } from './digest-thread.ts';

export interface Digest {
  /** These bytes follow in the file, and can be read there by now. */
  written(bytes: Buffer): void;
  /** Of all that was there and all that was written, in hex. @throws StorageError */
  end(): Promise<string>;
  /** Lets go of the file, at any time. */
  drop(): void;
}

export interface Digests {
  /**
   * `fromByte` bytes of the file at `path` are there; `expectedBytes` is what it will have in the end, null where nobody knows.
   * @throws StorageError
   */
  begin(path: string, fromByte: number, expectedBytes: number | null): Promise<Digest>;
  /** Ends the thread, where there is one. */
  close(): Promise<void>;
}

/** A file of `apartFromBytes` or more, or of unknown length, is left to the thread. */
export function createDigests(apartFromBytes: number): Digests {
  const thread = new DigestThread();
  return {
    begin: async (path, fromByte, expectedBytes) =>
      expectedBytes !== null && expectedBytes < apartFromBytes
        ? digestHere(path, fromByte)
        : thread.begin(path, fromByte),
    close: () => thread.close(),
  };
}

async function digestHere(path: string, fromByte: number): Promise<Digest> {
  const hash = createHash('sha256');
  if (fromByte > 0) {
    await onDisk(path, async () => {
      for await (const chunk of createReadStream(path, { end: fromByte - 1 })) hash.update(chunk);
    });
  }
  return {
    written: (bytes) => void hash.update(bytes),
    end: async () => hash.digest('hex'),
    drop: () => {},
  };
}
