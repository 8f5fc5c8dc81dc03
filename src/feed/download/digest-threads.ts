/**
 * The threads that compute digests. There are few, and each serves several files: starting a thread takes as long as reading
 * 40 MB.
 */

import { extname } from 'node:path';
import { Worker } from 'node:worker_threads';
import { StorageError } from '../../model/errors.ts';
import type { DigestAnswer, DigestRequest, DigestThreadData } from './digest-worker.ts';

/** One would be behind a fast disk and a fast line. */
const MOST_THREADS = 2;

/** The worker has the extension of this file, both in the sources and in the build. */
const SCRIPT = new URL(`./digest-worker${extname(import.meta.url)}`, import.meta.url);

export interface ThreadDigest {
  /** Resolves to the digest in hex. The file is written, and has `totalBytes`. @throws the system's error; StorageError */
  end(totalBytes: number): Promise<string>;
  /** Closes the file, at any time. */
  drop(): void;
}

export class DigestThreads {
  readonly #readBytes: BigInt64Array;
  #threads: readonly DigestThread[] = [];

  /** `readBytes` counts the bytes that all threads have read. No thread is started yet. */
  constructor(readBytes: BigInt64Array) {
    this.#readBytes = readBytes;
  }

  /** Begins the digest of the file at `path`. @throws StorageError where the system allows no thread. */
  begin(path: string): ThreadDigest {
    return this.#leastBusy(path).begin(path);
  }

  /** Ends the threads that have nothing to do. */
  endIdle(): void {
    for (const thread of this.#threads) {
      if (thread.files === 0) thread.end();
    }
  }

  #leastBusy(path: string): DigestThread {
    this.#threads = this.#threads.filter(({ isEnded }) => !isEnded);
    const [first] = this.#threads.toSorted((left, right) => left.files - right.files);
    if (first !== undefined && (first.files === 0 || this.#threads.length === MOST_THREADS)) return first;
    const started = new DigestThread(path, { readBytes: this.#readBytes });
    this.#threads = [...this.#threads, started];
    return started;
  }
}

interface Awaited {
  readonly path: string;
  readonly digest: PromiseWithResolvers<string>;
}

class DigestThread {
  readonly #worker: Worker;
  readonly #awaited = new Map<number, Awaited>();
  #begun = 0;
  #isEnded = false;

  /** The thread gets nothing of this process: the environment may hold the key. `path`: the file that needs the thread. */
  constructor(path: string, data: DigestThreadData) {
    try {
      this.#worker = new Worker(SCRIPT, { env: {}, execArgv: [], workerData: data });
    } catch (error) {
      throw threadEnded(path, error);
    }
    this.#worker.on('message', (answer: DigestAnswer) => this.#take(answer));
    this.#worker.on('error', (error) => this.#fail(error));
    this.#worker.on('exit', () => this.#fail(null));
  }

  /** The number of files whose digests are awaited. */
  get files(): number {
    return this.#awaited.size;
  }

  get isEnded(): boolean {
    return this.#isEnded;
  }

  begin(path: string): ThreadDigest {
    this.#begun += 1;
    const id = this.#begun;
    const digest = Promise.withResolvers<string>();
    // Until `end` is called nobody waits for the promise.
    digest.promise.catch(() => {});
    this.#awaited.set(id, { path, digest });
    this.#worker.ref();
    this.#post({ kind: 'begin', id, path });
    return {
      end: (totalBytes) => {
        this.#post({ kind: 'end', id, totalBytes });
        return digest.promise;
      },
      drop: () => {
        if (this.#awaited.has(id)) this.#post({ kind: 'drop', id });
        this.#forget(id);
      },
    };
  }

  end(): void {
    this.#isEnded = true;
    void this.#worker.terminate();
  }

  #post(request: DigestRequest): void {
    this.#worker.postMessage(request);
  }

  #take(answer: DigestAnswer): void {
    const digest = this.#awaited.get(answer.id)?.digest;
    this.#forget(answer.id);
    if (answer.kind === 'digest') digest?.resolve(answer.sha256);
    else {
      const { code, errno, syscall } = answer;
      digest?.reject(Object.assign(new Error(`${syscall}: ${code}`), { code, errno, syscall }));
    }
  }

  /** A thread that waits for files keeps no process alive. */
  #forget(id: number): void {
    this.#awaited.delete(id);
    if (this.#awaited.size === 0) this.#worker.unref();
  }

  #fail(error: unknown): void {
    this.#isEnded = true;
    for (const { path, digest } of this.#awaited.values()) digest.reject(threadEnded(path, error));
    this.#awaited.clear();
  }
}

function threadEnded(path: string, cause: unknown): StorageError {
  const why = cause instanceof Error ? `: ${cause.message}` : '';
  return new StorageError(`The thread that computes the digest of ${path} ended${why}.`, {
    code: 'dataset_storage_failed',
    hint: 'The bytes that have arrived are kept. Check whether memory or threads of this process are limited too tightly.',
    cause,
  });
}
