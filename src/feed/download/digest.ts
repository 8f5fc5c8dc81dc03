/**
 * The sha256 of a file while the file is written. The digest of a small file is computed on this thread from the bytes
 * that arrive. Another thread reads a large file behind its writer, so that hashing and receiving go on side by side.
 *
 * Invariant: the digest covers the file from its first byte, including the bytes of an earlier attempt.
 */

import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { pipeline } from 'node:stream/promises';
import { onDisk } from '../../model/disk-errors.ts';
import { DigestThreads } from './digest-threads.ts';

export interface Digest {
  /** These bytes follow in the file. */
  add(bytes: Buffer): void;
  /** Resolves to the digest in hex. The file is written, and has `totalBytes`. @throws StorageError */
  end(totalBytes: number): Promise<string>;
  /** Closes the file, at any time. */
  drop(): void;
}

export interface Digests {
  /**
   * Begins the digest of the file at `path`, which has `fromByte` bytes. `expectedBytes` is its final length; null where
   * the length is not known.
   */
  begin(path: string, fromByte: number, expectedBytes: number | null): Digest;
  /** Begins the digest of the finished file at `path`, which has `bytes` bytes. */
  beginFinished(path: string, bytes: number): Pick<Digest, 'end' | 'drop'>;
  /** Bytes that all threads have read. */
  readonly readBytes: number;
  /** Ends the threads that have nothing to do, which keep memory. The next large file starts one again. */
  endIdle(): void;
}

/** Creates the digests; a file of `threadFromBytes` or more, of unknown length, or continued has a thread. */
export function createDigests(threadFromBytes: number): Digests {
  const readBytes = new BigInt64Array(new SharedArrayBuffer(BigInt64Array.BYTES_PER_ELEMENT));
  const threads = new DigestThreads(readBytes);
  return {
    begin: (path, fromByte, expectedBytes) =>
      fromByte === 0 && expectedBytes !== null && expectedBytes < threadFromBytes
        ? digestHere()
        : digestInThread(threads, path),
    // A daemon that starts again may have thousands of small files, and a thread costs more than reading one.
    beginFinished: (path, bytes) =>
      bytes < threadFromBytes ? digestOfSmallFile(path) : digestInThread(threads, path),
    get readBytes() {
      return Number(Atomics.load(readBytes, 0));
    },
    endIdle: () => threads.endIdle(),
  };
}

function digestHere(): Digest {
  const hash = createHash('sha256');
  return {
    add: (bytes) => void hash.update(bytes),
    end: async () => hash.digest('hex'),
    drop: () => {},
  };
}

function digestOfSmallFile(path: string): Pick<Digest, 'end' | 'drop'> {
  const ended = new AbortController();
  return {
    end: async () => {
      const hash = createHash('sha256');
      await onDisk(path, () => pipeline(createReadStream(path), hash, { signal: ended.signal }));
      return hash.digest('hex');
    },
    drop: () => ended.abort(),
  };
}

function digestInThread(threads: DigestThreads, path: string): Digest {
  const digest = threads.begin(path);
  return {
    add: () => {},
    end: (totalBytes) => onDisk(path, () => digest.end(totalBytes)),
    drop: () => digest.drop(),
  };
}
