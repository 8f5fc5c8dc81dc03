/**
 * The body of an answer as it arrives: buffered for a slow reader, interrupted when it is too slow, and discarded when it
 * contains the API key, which a proxy in front of the service may echo. The key would otherwise end up in files, databases and
 * messages.
 */

import type { Readable } from 'node:stream';
import type { Clock } from '../../lib/clock.ts';
import { LEAST_SECRET_CHARACTERS, type Secret } from '../../lib/secret.ts';
import { formatDuration } from '../../lib/units.ts';
import { ContractViolationError } from '../../model/errors.ts';
import { WHOLE_BODY } from '../wire/fields.ts';
import { TransientError } from './failures.ts';

/** The most bytes that are buffered for a reader slower than the service; then the service has to wait. */
const MAX_BUFFERED_BYTES = 1_000_000;

/** Starts listening at once. The caller must read the result once, or destroy the body. */
export function arrivedChunks(body: Readable): AsyncGenerator<Buffer> {
  return new Arrivals(body).read();
}

class Arrivals {
  readonly #body: Readable;
  #buffered: Buffer[] = [];
  #bufferedBytes = 0;
  /** How the body ended; null while it is arriving. */
  #end: { readonly error: unknown } | null = null;
  #wake = (): void => {};

  constructor(body: Readable) {
    this.#body = body;
    body.on('data', (chunk: Buffer) => this.#buffer(chunk));
    body.on('end', () => this.#endWith(null));
    body.on('error', (error) => this.#endWith(error));
    body.on('close', () => this.#endWith(new Error('The body was closed before its end.')));
  }

  async *read(): AsyncGenerator<Buffer> {
    try {
      for (;;) {
        const chunk = this.#release();
        if (chunk !== null) yield chunk;
        else if (this.#end === null) await this.#news();
        else if (this.#end.error === null) return;
        else throw this.#end.error;
      }
    } finally {
      this.#body.destroy();
    }
  }

  #buffer(chunk: Buffer): void {
    this.#buffered.push(chunk);
    this.#bufferedBytes += chunk.length;
    if (this.#bufferedBytes >= MAX_BUFFERED_BYTES) this.#body.pause();
    this.#wake();
  }

  /** Returns all buffered bytes: a slower reader gets fewer and larger chunks. */
  #release(): Buffer | null {
    if (this.#bufferedBytes === 0) return null;
    const [first = Buffer.alloc(0)] = this.#buffered;
    const chunk = this.#buffered.length === 1 ? first : Buffer.concat(this.#buffered, this.#bufferedBytes);
    this.#buffered = [];
    this.#bufferedBytes = 0;
    if (this.#body.isPaused()) this.#body.resume();
    return chunk;
  }

  /** The first end counts, because a body is also closed after it has ended or failed. */
  #endWith(error: unknown): void {
    this.#end ??= { error };
    this.#wake();
  }

  #news(): Promise<void> {
    return new Promise((resolve) => {
      this.#wake = resolve;
    });
  }
}

export interface LeastThroughput {
  readonly bytesPerSecond: number;
  /** The time over which the throughput is averaged. */
  readonly overMs: number;
}

/**
 * Passes `body` on. Counts only the time spent waiting for bytes, so a slow disk does not look like a slow service.
 * @throws TransientError when fewer bytes arrive than the minimum.
 */
export async function* watchThroughput(
  body: AsyncIterable<Buffer>,
  least: LeastThroughput,
  clock: Clock,
): AsyncGenerator<Buffer> {
  let waitedMs = 0;
  let bytes = 0;
  let askedAtMs = clock.monotonicMs();
  for await (const chunk of body) {
    waitedMs += clock.monotonicMs() - askedAtMs;
    bytes += chunk.length;
    if (waitedMs >= least.overMs) {
      if (bytes * 1_000 < waitedMs * least.bytesPerSecond) {
        throw new TransientError(`only ${bytes} bytes arrived in ${formatDuration(waitedMs)}`);
      }
      waitedMs = 0;
      bytes = 0;
    }
    yield chunk;
    askedAtMs = clock.monotonicMs();
  }
}

/** Chunks of several answers, each of which came by `withoutKey`: only a key that lies across two of them is still to be found. */
export interface JoinedAnswers {
  /** The last bytes before them, which are stored already: as many as the key has. */
  readonly before: Buffer;
}

/** Yields the chunks as they arrive. @throws ContractViolationError before any byte of the key is yielded. */
export async function* withoutKey(
  chunks: AsyncIterable<Buffer>,
  apiKey: Secret,
  title: string,
  joined: JoinedAnswers | null = null,
): AsyncGenerator<Buffer> {
  const key = Buffer.from(apiKey.reveal());
  if (key.length < LEAST_SECRET_CHARACTERS) {
    yield* chunks;
    return;
  }
  const before = joined?.before ?? Buffer.alloc(0);
  // Bytes that may be the beginning of the key wait for the following bytes.
  let heldBack: Buffer = before.subarray(before.length - beginningAtEnd(before, key));
  let storedBytes = heldBack.length;
  for await (const chunk of chunks) {
    const bytes = heldBack.length === 0 ? chunk : Buffer.concat([heldBack, chunk]);
    const mayHaveKey = joined === null ? bytes : bytes.subarray(0, heldBack.length + key.length);
    if ((joined === null || heldBack.length > 0) && mayHaveKey.includes(key)) throw repeatsKey(title);
    const sure = bytes.length - beginningAtEnd(bytes, key);
    heldBack = bytes.subarray(sure);
    if (sure > storedBytes) yield bytes.subarray(storedBytes, sure);
    storedBytes = Math.max(0, storedBytes - sure);
  }
  if (heldBack.length > storedBytes) yield heldBack.subarray(storedBytes);
}

/** Returns how many bytes at the end are a beginning of the key. */
function beginningAtEnd(bytes: Buffer, key: Buffer): number {
  const first = key.subarray(0, 1);
  const from = Math.max(0, bytes.length - key.length + 1);
  for (let at = bytes.indexOf(first, from); at !== -1; at = bytes.indexOf(first, at + 1)) {
    const end = bytes.subarray(at);
    if (key.subarray(0, end.length).equals(end)) return end.length;
  }
  return 0;
}

export function repeatsKey(title: string): ContractViolationError {
  return new ContractViolationError(
    `Could not ${title}: the answer repeats the API key, so it was discarded.`,
    WHOLE_BODY,
    { hint: 'Report it to the service, and get a new key: others may have seen this one.' },
  );
}
