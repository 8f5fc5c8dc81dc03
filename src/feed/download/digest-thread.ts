/**
 * A thread that reads files for their digests, made when it is first needed.
 *
 * Invariants: who writes is told to wait before the thread has fallen back by more than a limit. It keeps the process alive
 * while a digest is under way, and only then. Whatever becomes of it, each digest that was begun has an end; the next one
 * after the end of a thread makes a new one.
 */

import { extname } from 'node:path';
import { Worker } from 'node:worker_threads';
import { DatasetStorageError } from '../../model/errors.ts';
import { onDisk } from '../storage.ts';
import type { Digest } from './digest.ts';
import type { DigestAnswer, DigestRequest } from './digest-worker.ts';

/** How often, in bytes written, the thread is told that it may read on. */
const TELL_EVERY_BYTES = 1_000_000;

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

export class DigestThread {
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

  /** The digest of the file at `path`, of which `fromByte` bytes are there. @throws DatasetStorageError */
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
    const tell = (request: DigestRequest): void => worker.postMessage(request);
    tell({ kind: 'begin', id, path, upTo: fromByte });
    let bytes = fromByte;
    let toldBytes = fromByte;
    const tellWritten = (): void => {
      toldBytes = bytes;
      tell({ kind: 'read', id, upTo: bytes });
    };
    // What was there is no lag: while it is read, as much may be written, and no connection has to stand still for it.
    const lagsTooFar = (): boolean =>
      this.#waiting.has(id) && bytes - fromByte - waiting.readBytes > this.#maxLagBytes;
    const caughtUp = async (): Promise<void> => {
      tellWritten();
      while (lagsTooFar()) {
        await new Promise<void>((wake) => {
          waiting.wake = wake;
        });
      }
    };
    return {
      written: ({ length }) => {
        bytes += length;
        if (bytes - toldBytes >= TELL_EVERY_BYTES) tellWritten();
      },
      room: () => (lagsTooFar() ? caughtUp() : null),
      end: () => {
        tell({ kind: 'end', id, upTo: bytes });
        return onDisk(path, () => promise);
      },
      drop: () => {
        if (this.#settle(id) !== null) tell({ kind: 'drop', id });
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
    let trouble: unknown;
    worker.on('message', (answer: DigestAnswer) => this.#take(answer));
    worker.on('error', (error) => {
      trouble = error;
    });
    worker.on('exit', () => {
      this.#worker = null;
      for (const [id, { path, reject }] of this.#waiting) {
        reject(threadEnded(path, trouble));
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

function threadEnded(path: string, cause: unknown): DatasetStorageError {
  const why = cause instanceof Error ? `: ${cause.message}` : '';
  return new DatasetStorageError(`The thread that was to read ${path} for its digest ended${why}.`, {
    hint: 'What has arrived is kept. Check whether memory or threads of this process are limited too tightly.',
    cause,
  });
}
