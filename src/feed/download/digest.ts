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
import { extname } from 'node:path';
import { Worker } from 'node:worker_threads';
import { present } from '../../lib/assert.ts';
import { StorageError } from '../../model/errors.ts';
import type { FeedLimits } from '../http/options.ts';
import { onDisk } from '../storage.ts';
import type { DigestAnswer, DigestRequest } from './digest-worker.ts';

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

type DigestLimits = Pick<FeedLimits, 'digestApartFromBytes' | 'digestThreads' | 'digestLagBytes'>;

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

/** How often, in bytes written, the thread is told that it may read on. */
const REPORT_EVERY_BYTES = 1_000_000;

/** The same beside the sources and beside what they are built to. */
const SCRIPT = new URL(`./digest-worker${extname(import.meta.url)}`, import.meta.url);

interface Waiting {
  readonly path: string;
  readonly resolve: (sha256: string) => void;
  readonly reject: (error: unknown) => void;
  readBytes: number;
  /** Told whenever more is read, and when nothing more will be. */
  wake: () => void;
}

class DigestThread {
  readonly #waiting = new Map<number, Waiting>();
  readonly #maxLagBytes: number;
  #worker: Worker | null = null;
  #lastId = 0;
  #readBytes = 0;

  /** `maxLagBytes`: what may be written of a file beside what the thread has read meanwhile. */
  constructor(maxLagBytes: number) {
    this.#maxLagBytes = maxLagBytes;
  }

  /** Whose digests are under way. */
  get files(): number {
    return this.#waiting.size;
  }

  /** Of all files together, since it was made. */
  get readBytes(): number {
    return this.#readBytes;
  }

  /** The digest of the file at `path`, of which `fromByte` bytes are there. @throws StorageError */
  begin(path: string, fromByte: number): Digest {
    const worker = this.#running(path);
    this.#lastId += 1;
    const id = this.#lastId;
    const { promise, resolve, reject } = Promise.withResolvers<string>();
    // Who waits for the end is told; until then nobody listens.
    promise.catch(() => {});
    const waiting: Waiting = { path, resolve, reject, readBytes: 0, wake() {} };
    this.#waiting.set(id, waiting);
    worker.ref();
    const report = (request: DigestRequest): void => worker.postMessage(request);
    report({ kind: 'begin', id, path, upTo: fromByte });
    let bytes = fromByte;
    let reportedBytes = fromByte;
    const reportWritten = (): void => {
      reportedBytes = bytes;
      report({ kind: 'read', id, upTo: bytes });
    };
    // What was there is no lag: while it is read, as much may be written, and no connection has to stand still for it.
    const lagsTooFar = (): boolean =>
      this.#waiting.has(id) && bytes - fromByte - waiting.readBytes > this.#maxLagBytes;
    const caughtUp = async (): Promise<void> => {
      reportWritten();
      while (lagsTooFar()) {
        await new Promise<void>((wake) => {
          waiting.wake = wake;
        });
      }
    };
    return {
      written: ({ length }) => {
        bytes += length;
        if (bytes - reportedBytes >= REPORT_EVERY_BYTES) reportWritten();
      },
      room: () => (lagsTooFar() ? caughtUp() : null),
      end: () => {
        report({ kind: 'end', id, upTo: bytes });
        return onDisk(path, () => promise);
      },
      drop: () => {
        if (this.#settle(id) !== null) report({ kind: 'drop', id });
      },
    };
  }

  async close(): Promise<void> {
    await this.#worker?.terminate();
  }

  #running(path: string): Worker {
    try {
      this.#worker ??= this.#start();
      return this.#worker;
    } catch (error) {
      throw threadEnded(path, error);
    }
  }

  /** It gets nothing of this process: no environment, which may hold the key, and nothing that was to be loaded before. */
  #start(): Worker {
    const worker = new Worker(SCRIPT, { env: {}, execArgv: [] });
    let fault: unknown;
    worker.on('message', (answer: DigestAnswer) => this.#take(answer));
    worker.on('error', (error) => {
      fault = error;
    });
    worker.on('exit', () => {
      this.#worker = null;
      for (const [id, { path, reject }] of this.#waiting) {
        reject(threadEnded(path, fault));
        this.#settle(id);
      }
    });
    return worker;
  }

  #take(answer: DigestAnswer): void {
    if (answer.kind === 'read') {
      this.#noteRead(answer.id, answer.bytes);
      return;
    }
    const waiting = this.#settle(answer.id);
    if (answer.kind === 'digest') {
      waiting?.resolve(answer.sha256);
    } else {
      const { code, syscall } = answer;
      waiting?.reject(Object.assign(new Error(`${syscall}: ${code}`), { code, syscall }));
    }
  }

  #noteRead(id: number, bytes: number): void {
    this.#readBytes += bytes;
    const waiting = this.#waiting.get(id);
    // It was dropped meanwhile.
    if (waiting === undefined) return;
    waiting.readBytes += bytes;
    waiting.wake();
  }

  /** Null where it was settled before. */
  #settle(id: number): Waiting | null {
    const waiting = this.#waiting.get(id) ?? null;
    this.#waiting.delete(id);
    waiting?.wake();
    if (this.#waiting.size === 0) this.#worker?.unref();
    return waiting;
  }
}

function threadEnded(path: string, cause: unknown): StorageError {
  const why = cause instanceof Error ? `: ${cause.message}` : '';
  return new StorageError(`The thread that was to read ${path} for its digest ended${why}.`, {
    code: 'dataset_storage_failed',
    hint: 'What has arrived is kept. Check whether memory or threads of this process are limited too tightly.',
    cause,
  });
}
