/**
 * The sha256 of a file while the file is written. The digest of a small file is computed on this thread from the bytes
 * that arrive. A large file has a thread of its own, which reads the file behind its writer, so that hashing and receiving
 * go on side by side.
 *
 * Invariant: the digest covers the file from its first byte, including the bytes of an earlier attempt.
 */

import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { extname } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { Worker } from 'node:worker_threads';
import { onDisk } from '../../model/disk-errors.ts';
import { StorageError } from '../../model/errors.ts';
import type { DigestAnswer, DigestTask } from './digest-worker.ts';

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
}

/** Creates the digests; a file of `threadFromBytes` or more, of unknown length, or continued has a thread. */
export function createDigests(threadFromBytes: number): Digests {
  const readBytes = new BigInt64Array(new SharedArrayBuffer(BigInt64Array.BYTES_PER_ELEMENT));
  return {
    begin: (path, fromByte, expectedBytes) =>
      fromByte === 0 && expectedBytes !== null && expectedBytes < threadFromBytes
        ? digestHere()
        : digestInThread({ path, readBytes }),
    // A daemon that starts again may have thousands of small files, and a thread costs more than reading one.
    beginFinished: (path, bytes) =>
      bytes < threadFromBytes ? digestOfSmallFile(path) : digestInThread({ path, readBytes }),
    get readBytes() {
      return Number(Atomics.load(readBytes, 0));
    },
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

/** The worker has the extension of this file, both in the sources and in the build. */
const SCRIPT = new URL(`./digest-worker${extname(import.meta.url)}`, import.meta.url);

/**
 * The thread gets nothing of this process: the environment may hold the key.
 * @throws StorageError where the system allows no further thread.
 */
function startWorker(task: DigestTask): Worker {
  try {
    return new Worker(SCRIPT, { env: {}, execArgv: [], workerData: task });
  } catch (error) {
    throw threadEnded(task.path, error);
  }
}

function digestInThread(task: DigestTask): Digest {
  const worker = startWorker(task);
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  // Until `end` is called nobody waits for the promise.
  promise.catch(() => {});
  worker.on('message', (answer: DigestAnswer) => {
    if (answer.kind === 'digest') resolve(answer.sha256);
    else {
      const { code, errno, syscall } = answer;
      reject(Object.assign(new Error(`${syscall}: ${code}`), { code, errno, syscall }));
    }
  });
  worker.on('error', (error) => reject(threadEnded(task.path, error)));
  worker.on('exit', () => reject(threadEnded(task.path, null)));
  return {
    add: () => {},
    end: (totalBytes) => {
      worker.postMessage(totalBytes);
      return onDisk(task.path, () => promise);
    },
    drop: () => void worker.terminate(),
  };
}

function threadEnded(path: string, cause: unknown): StorageError {
  const why = cause instanceof Error ? `: ${cause.message}` : '';
  return new StorageError(`The thread that computes the digest of ${path} ended${why}.`, {
    code: 'dataset_storage_failed',
    hint: 'The bytes that have arrived are kept. Check whether memory or threads of this process are limited too tightly.',
    cause,
  });
}
