/**
 * A thread that computes the digests of files while another thread still writes them. The files take turns, a piece of each.
 *
 * The writer appends only. So every byte that can be read is final, and the end of a file is its end only once the writer
 * has said how long the file is.
 */

import { createHash } from 'node:crypto';
import { closeSync, openSync, readSync } from 'node:fs';
import { setImmediate, setTimeout } from 'node:timers/promises';
import { parentPort, workerData } from 'node:worker_threads';

export interface DigestThreadData {
  /** Counts the bytes that all threads have read. */
  readonly readBytes: BigInt64Array;
}

/** `id` is that of the digest. */
export type DigestRequest =
  | { readonly kind: 'begin'; readonly id: number; readonly path: string }
  /** The file is complete. */
  | { readonly kind: 'end'; readonly id: number; readonly totalBytes: number }
  /** Nobody waits for the digest any more, and the file is to be closed. */
  | { readonly kind: 'drop'; readonly id: number };

/** A system error loses its code on the way to another thread, so the answer names the code. */
export type DigestAnswer =
  | { readonly kind: 'digest'; readonly id: number; readonly sha256: string }
  | {
      readonly kind: 'fault';
      readonly id: number;
      readonly code: string;
      readonly errno: number | undefined;
      readonly syscall: string;
    };

const PIECE_BYTES = 1_000_000;
/** How long a file that is still written is left alone once its end was reached. */
const WAIT_FOR_MORE_MS = 20;

interface Task {
  /** Resolves to the length of the file once the file is complete. */
  readonly length: PromiseWithResolvers<number>;
  isDropped: boolean;
}

const { readBytes }: DigestThreadData = workerData;
const tasks = new Map<number, Task>();
/** A piece is read and hashed at once, so all files share the buffer. */
const piece = Buffer.allocUnsafe(PIECE_BYTES);

/** Null where the digest was dropped. */
async function digestOf(path: string, task: Task): Promise<string | null> {
  const hash = createHash('sha256');
  const descriptor = openSync(path, 'r');
  try {
    let hashedBytes = 0;
    let totalBytes: number | null = null;
    while (totalBytes === null || hashedBytes < totalBytes) {
      if (task.isDropped) return null;
      const bytes = readSync(descriptor, piece, 0, piece.length, hashedBytes);
      hash.update(piece.subarray(0, bytes));
      hashedBytes += bytes;
      Atomics.add(readBytes, 0, BigInt(bytes));
      if (bytes === piece.length) {
        await setImmediate();
        continue;
      }
      if (bytes === 0 && totalBytes !== null) {
        throw Object.assign(new Error('the file was cut'), { code: 'EOF', syscall: 'read' });
      }
      totalBytes ??= await Promise.race([task.length.promise, setTimeout(WAIT_FOR_MORE_MS, null)]);
    }
    return hash.digest('hex');
  } finally {
    closeSync(descriptor);
  }
}

async function answerTo(id: number, path: string, task: Task): Promise<DigestAnswer | null> {
  try {
    const sha256 = await digestOf(path, task);
    return sha256 === null ? null : { kind: 'digest', id, sha256 };
  } catch (error) {
    const { code, errno, syscall } = error as NodeJS.ErrnoException;
    if (code === undefined || syscall === undefined) throw error;
    return { kind: 'fault', id, code, errno, syscall };
  }
}

async function begin(id: number, path: string): Promise<void> {
  const task: Task = { length: Promise.withResolvers(), isDropped: false };
  tasks.set(id, task);
  const answer = await answerTo(id, path, task);
  tasks.delete(id);
  if (answer !== null) parentPort?.postMessage(answer);
}

parentPort?.on('message', (request: DigestRequest) => {
  const task = tasks.get(request.id);
  switch (request.kind) {
    case 'begin':
      void begin(request.id, request.path);
      break;
    case 'end':
      task?.length.resolve(request.totalBytes);
      break;
    case 'drop':
      if (task !== undefined) task.isDropped = true;
      break;
  }
});
