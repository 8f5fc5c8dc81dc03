/**
 * What runs on the thread for digests: reads files behind their writers, and hashes what it reads.
 *
 * Invariants: it reads no further than it was told that bytes are written. Files take turns, a piece each. Each is
 * closed before its digest or its trouble is told, or once it is dropped.
 */

import { createHash, type Hash } from 'node:crypto';
import { closeSync, openSync, readSync } from 'node:fs';
import { parentPort } from 'node:worker_threads';

/** `upTo`: bytes of the file that may be read by now. `end`: there will be no more. */
export type DigestRequest =
  | { readonly kind: 'begin'; readonly id: number; readonly path: string; readonly upTo: number }
  | { readonly kind: 'read' | 'end'; readonly id: number; readonly upTo: number }
  | { readonly kind: 'drop'; readonly id: number };

/**
 * `read`: so many bytes of the file more. `trouble`: what the system's error says, whose code does not get from one thread to another
 * by itself.
 */
export type DigestAnswer =
  | { readonly kind: 'read'; readonly id: number; readonly bytes: number }
  | { readonly kind: 'digest'; readonly id: number; readonly sha256: string }
  | { readonly kind: 'fault'; readonly id: number; readonly code: string; readonly syscall: string };

interface Reading {
  readonly descriptor: number;
  readonly hash: Hash;
  readBytes: number;
  upTo: number;
  isWritten: boolean;
}

const PIECE_BYTES = 1_000_000;

const piece = Buffer.allocUnsafe(PIECE_BYTES);
const readings = new Map<number, Reading>();
let isTurnComing = false;

parentPort?.on('message', (request: DigestRequest) => {
  orReport(request.id, () => take(request));
  takeTurns();
});

function take(request: DigestRequest): void {
  const { id } = request;
  if (request.kind === 'begin') {
    const descriptor = openSync(request.path, 'r');
    const { upTo } = request;
    readings.set(id, { descriptor, hash: createHash('sha256'), readBytes: 0, upTo, isWritten: false });
    return;
  }
  if (request.kind === 'drop') {
    letGo(id);
    return;
  }
  const reading = readings.get(id);
  // It could not be read, and that was told.
  if (reading === undefined) return;
  reading.upTo = request.upTo;
  reading.isWritten = request.kind === 'end';
}

/** One piece of each file that has more; what was told meanwhile is heard before the next turn. */
function takeTurns(): void {
  if (isTurnComing) return;
  isTurnComing = true;
  setImmediate(() => {
    isTurnComing = false;
    for (const [id, reading] of readings) orReport(id, () => readOn(id, reading));
    if ([...readings.values()].some(({ readBytes, upTo }) => readBytes < upTo)) takeTurns();
  });
}

function readOn(id: number, reading: Reading): void {
  const { descriptor, hash, upTo } = reading;
  const wanted = Math.min(piece.length, upTo - reading.readBytes);
  if (wanted > 0) {
    const bytes = readSync(descriptor, piece, 0, wanted, reading.readBytes);
    if (bytes === 0) throw Object.assign(new Error('the file was cut'), { code: 'EOF', syscall: 'read' });
    hash.update(piece.subarray(0, bytes));
    reading.readBytes += bytes;
    report({ kind: 'read', id, bytes });
  }
  if (!reading.isWritten || reading.readBytes < upTo) return;
  letGo(id);
  report({ kind: 'digest', id, sha256: hash.digest('hex') });
}

function orReport(id: number, work: () => void): void {
  try {
    work();
  } catch (error) {
    const { code, syscall } = error as NodeJS.ErrnoException;
    if (code === undefined || syscall === undefined) throw error;
    letGo(id);
    report({ kind: 'fault', id, code, syscall });
  }
}

function report(answer: DigestAnswer): void {
  parentPort?.postMessage(answer);
}

function letGo(id: number): void {
  const reading = readings.get(id);
  readings.delete(id);
  if (reading !== undefined) closeSync(reading.descriptor);
}
