/**
 * Sends one request and receives its answer. Redirects, compression, retries and decisions belong to the callers.
 *
 * Invariants: the key goes only to the origin of the base URL, and only this file attaches it. Every exchange has a deadline,
 * an idle time-out, and a log line without query, headers and body. No more exchanges with the service run than it has
 * connections, so a waiting request does not use up its deadline.
 */

import type { Readable } from 'node:stream';
import { finished } from 'node:stream/promises';
import { struckOut } from '../../lib/secret.ts';
import { formatDuration } from '../../lib/units.ts';
import { FeedSyncError } from '../../model/errors.ts';
import { shown } from '../wire/sanitize.ts';
import { type LeastThroughput, throwIfStopped, watchThroughput } from './cancellation.ts';
import { ConnectionSlots, type Exchange, fairQueue, type Line } from './connection-slots.ts';
import type { Dispatchers } from './dispatchers.ts';
import { withoutKey } from './key-leak-guard.ts';
import type { ConnectionOptions } from './options.ts';
import { serviceTime } from './service-time.ts';
import { networkError, TransientError } from './transient-errors.ts';

const USER_AGENT = 'feed-sync';

export interface HttpRequest {
  /** For the log: `list subscriptions`. */
  readonly operation: string;
  /** GET by default. */
  readonly method?: 'POST' | 'DELETE';
  readonly origin: string;
  /** The encoded path and query, sent unchanged. */
  readonly path: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
  /** From sending the request to the last byte of the body. */
  readonly deadlineMs: number;
  readonly leastThroughput?: LeastThroughput;
  /** The lane of the request; `following` by default. */
  readonly line?: Line;
  /** Called with the time that the request has waited for others. */
  readonly onStart?: (waitedMs: number) => void;
}

export interface HttpAnswer {
  readonly status: number;
  /** Service time. */
  readonly readAt: Date;
  header(name: string): string | null;
  /**
   * The body as it arrives; iterable once.
   * @throws TransientError when the body breaks off, stalls or takes too long.
   * @throws ContractViolationError when a successful response contains the key.
   */
  chunks(): AsyncGenerator<Buffer>;
  /** Releases a body that nobody reads. */
  discard(): void;
}

export interface Http {
  /** @throws TransientError when no answer arrives. */
  send(request: HttpRequest, signal: AbortSignal): Promise<HttpAnswer>;
}

type HttpOptions = Pick<ConnectionOptions, 'baseUrl' | 'apiKey' | 'http' | 'clock' | 'log' | 'onExchange'>;

interface HttpParts extends HttpOptions {
  /** The origin of the base URL. */
  readonly origin: string;
  readonly trustedOrigins: ReadonlySet<string>;
  readonly dispatchers: Dispatchers;
}

/** `trustedOrigins` may have any address. */
export function createHttp(
  options: HttpOptions,
  trustedOrigins: ReadonlySet<string>,
  dispatchers: Dispatchers,
): Http {
  const { origin } = new URL(options.baseUrl);
  const parts = { ...options, origin, trustedOrigins, dispatchers };
  const slots = new ConnectionSlots(options.http.connections);
  return {
    async send(request, signal) {
      const queuedMs = options.clock.monotonicMs();
      const sendNow = (): Promise<Exchange<HttpAnswer>> => {
        request.onStart?.(options.clock.monotonicMs() - queuedMs);
        return send(request, signal, parts);
      };
      // Other origins only serve files, whose number is limited elsewhere.
      if (request.origin !== parts.origin) return (await sendNow()).answer;
      return fairQueue(slots, request.line ?? 'following', sendNow, signal);
    },
  };
}

async function send(
  request: HttpRequest,
  signal: AbortSignal,
  parts: HttpParts,
): Promise<Exchange<HttpAnswer>> {
  const { origin, path, operation } = request;
  const startedMs = parts.clock.monotonicMs();
  const deadline = AbortSignal.timeout(request.deadlineMs);
  const note = (outcome: { readonly status: number } | { readonly why: string }): void => {
    const durationMs = parts.clock.monotonicMs() - startedMs;
    const place = shown(`${origin}${path.split('?', 1)[0]}`);
    parts.onExchange?.({ operation, status: 'status' in outcome ? outcome.status : null, durationMs });
    parts.log.debug(
      { operation, place, ...outcome, durationMs: Math.round(durationMs) },
      'Asked the service.',
    );
  };
  const errorOf = (error: unknown): Error => {
    throwIfStopped(signal);
    if (error instanceof FeedSyncError || error instanceof TransientError) return error;
    if (deadline.aborted) {
      return new TransientError(
        `the exchange with ${hostOf(origin)} took longer than ${formatDuration(request.deadlineMs)}`,
      );
    }
    return networkError(error, hostOf(origin), parts.http.timeoutMs);
  };
  throwIfStopped(signal);
  const dispatcher = parts.trustedOrigins.has(origin) ? parts.dispatchers.trusted : parts.dispatchers.guarded;
  try {
    const { statusCode, headers, body } = await dispatcher.request({
      origin,
      path,
      method: request.method ?? 'GET',
      headers: headersFor(request, parts),
      body: request.body ?? null,
      signal: AbortSignal.any([signal, deadline]),
    });
    const ended = finished(body).catch(() => {});
    note({ status: statusCode });
    return { answer: answerOf(statusCode, headers, body, request, parts, errorOf), ended };
  } catch (error) {
    const fault = errorOf(error);
    note({ why: fault.message });
    throw fault;
  }
}

function headersFor(request: HttpRequest, { origin, apiKey }: HttpParts): Record<string, string> {
  const common = { 'user-agent': USER_AGENT, 'accept-encoding': 'identity', ...request.headers };
  return request.origin === origin ? { ...common, authorization: `Bearer ${apiKey.reveal()}` } : common;
}

type Headers = Readonly<Record<string, string | string[] | undefined>>;

function answerOf(
  status: number,
  headers: Headers,
  body: Readable,
  request: HttpRequest,
  { origin, apiKey, clock }: HttpParts,
  errorOf: (error: unknown) => Error,
): HttpAnswer {
  const arrived = arrivedChunks(body);
  const header = (name: string): string | null => {
    const value = headers[name];
    const text = Array.isArray(value) ? value[0] : value;
    return text === undefined ? null : struckOut(text, [apiKey.reveal()]);
  };
  return {
    status,
    readAt: serviceTime(header('date'), clock.now()),
    header,
    async *chunks() {
      try {
        const { leastThroughput, operation } = request;
        const watched =
          leastThroughput === undefined ? arrived : watchThroughput(arrived, leastThroughput, clock);
        // A refusal's words are relayed with the key masked.
        const isTaken = status < 300 && request.origin === origin;
        yield* isTaken ? withoutKey(watched, apiKey, operation) : watched;
      } catch (error) {
        throw errorOf(error);
      }
    },
    discard() {
      body.destroy();
    },
  };
}

function hostOf(origin: string): string {
  const { hostname, port, protocol } = new URL(origin);
  return `${hostname}:${port === '' ? (protocol === 'https:' ? 443 : 80) : port}`;
}

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

/** Called for every exchange when its answer has begun or failed. */
export type OnExchange = (exchange: {
  /** For the log: `list subscriptions`. */
  readonly operation: string;
  /** Null when no answer came. */
  readonly status: number | null;
  readonly durationMs: number;
}) => void;
