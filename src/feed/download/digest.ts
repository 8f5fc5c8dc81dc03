/**
 * The sha256 of a file while it is written: of a small one on this thread, from the bytes as they are given; of a large
 * one on another thread, which reads the file behind its writer, so that more is received meanwhile. A few of these share the
 * files: where a processor has no instructions for it, a digest takes longer than a fast line brings a file.
 *
 * Invariants: it covers the file from its first byte, what was there before included. However slow it is, more of it is
 * read all the time, and that can be seen; and no more than a limit is written meanwhile.
 */

import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { present } from '../../lib/assert.ts';
import type { FeedLimits } from '../limits.ts';
import { onDisk } from '../storage.ts';
import { DigestThread } from './digest-thread.ts';

export interface Digest {
  /** These bytes follow in the file, and can be read there by now. */
  written(bytes: Buffer): void;
  /** Resolves once more may be written; null where that is so by now. Trouble is told by `end`. */
  room(): Promise<void> | null;
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
  /** Bytes that the threads have read, ever. */
  readonly readBytes: number;
  /** Ends the threads, where there are any. */
  close(): Promise<void>;
}

export type DigestLimits = Pick<FeedLimits, 'digestApartFromBytes' | 'digestThreads' | 'digestLagBytes'>;

export function createDigests(limits: DigestLimits): Digests {
  const { digestApartFromBytes, digestThreads, digestLagBytes } = limits;
  const threads = Array.from({ length: digestThreads }, () => new DigestThread(digestLagBytes));
  return {
    begin: async (path, fromByte, expectedBytes) =>
      expectedBytes !== null && expectedBytes < digestApartFromBytes
        ? digestHere(path, fromByte)
        : leastBusy(threads).begin(path, fromByte),
    get readBytes() {
      return threads.reduce((bytes, { readBytes }) => bytes + readBytes, 0);
    },
    close: async () => {
      await Promise.all(threads.map((thread) => thread.close()));
    },
  };
}

function leastBusy(threads: readonly DigestThread[]): DigestThread {
  const [first] = threads.toSorted((left, right) => left.files - right.files);
  return present(first, 'there is a thread');
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
    room: () => null,
    end: async () => hash.digest('hex'),
    drop: () => {},
  };
}
