/**
 * The thread that computes the digest of one file while another thread still writes the file.
 *
 * The writer appends only. So every byte that can be read is final, and the end of the file is its end only once the
 * writer has said how long the file is.
 */

import { createHash } from 'node:crypto';
import { closeSync, openSync, readSync } from 'node:fs';
import { setTimeout } from 'node:timers/promises';
import { parentPort, workerData } from 'node:worker_threads';

export interface DigestTask {
  readonly path: string;
  /** Counts the bytes that all threads have read. */
  readonly readBytes: BigInt64Array;
}

/** A system error loses its code on the way to another thread, so the answer names the code. */
export type DigestAnswer =
  | { readonly kind: 'digest'; readonly sha256: string }
  | {
      readonly kind: 'fault';
      readonly code: string;
      readonly errno: number | undefined;
      readonly syscall: string;
    };

const PIECE_BYTES = 1_000_000;
/** How long the thread sleeps at the end of a file that is still written. */
const WAIT_FOR_MORE_MS = 20;

/** `length` resolves to the length of the file once the file is complete. */
async function digestOf({ path, readBytes }: DigestTask, length: Promise<number>): Promise<string> {
  const hash = createHash('sha256');
  const piece = Buffer.allocUnsafe(PIECE_BYTES);
  const descriptor = openSync(path, 'r');
  let hashedBytes = 0;
  let totalBytes: number | null = null;
  while (totalBytes === null || hashedBytes < totalBytes) {
    const bytes = readSync(descriptor, piece, 0, piece.length, hashedBytes);
    hash.update(piece.subarray(0, bytes));
    hashedBytes += bytes;
    Atomics.add(readBytes, 0, BigInt(bytes));
    if (bytes === piece.length) continue;
    if (bytes === 0 && totalBytes !== null) {
      throw Object.assign(new Error('the file was cut'), { code: 'EOF', syscall: 'read' });
    }
    totalBytes ??= await Promise.race([length, setTimeout(WAIT_FOR_MORE_MS, null)]);
  }
  closeSync(descriptor);
  return hash.digest('hex');
}

async function answerTo(task: DigestTask, length: Promise<number>): Promise<DigestAnswer> {
  try {
    return { kind: 'digest', sha256: await digestOf(task, length) };
  } catch (error) {
    const { code, errno, syscall } = error as NodeJS.ErrnoException;
    if (code === undefined || syscall === undefined) throw error;
    return { kind: 'fault', code, errno, syscall };
  }
}

const length = new Promise<number>((resolve) => parentPort?.once('message', resolve));
parentPort?.postMessage(await answerTo(workerData, length));
