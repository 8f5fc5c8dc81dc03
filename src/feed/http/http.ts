/**
 * Sends one request and receives its answer. Redirects, compression, retries and decisions belong to the callers.
 *
 * Invariants: the key goes only to the origin of the base URL, and only this file attaches it. Every exchange has a deadline,
 * an idle time-out, and a log line without query, headers and body. No more exchanges with the service run than it has
 * connections, and none while an origin refuses requests for their number. A waiting request does not use up its deadline.
 */

import type { Readable } from 'node:stream';
import { finished } from 'node:stream/promises';
import { deadlineIn } from '../../lib/clock.ts';
import { struckOut } from '../../lib/secret.ts';
import { shown } from '../../lib/text.ts';
import { formatDuration } from '../../lib/units.ts';
import { FeedSyncError } from '../../model/errors.ts';
import { arrivedChunks, type LeastThroughput, watchThroughput, withoutKey } from './body.ts';
import { ConnectionSlots, type Dispatchers, type Exchange, type Lane } from './connections.ts';
import { hostOf, networkError, TransientError, throwIfStopped } from './failures.ts';
import type { ConnectionOptions } from './options.ts';
import { Throttles } from './throttle.ts';

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
  readonly lane?: Lane;
  /** Called with the time that the request has waited for others. */
  readonly onStart?: (waitedMs: number) => void;
}

export interface HttpAnswer {
  readonly status: number;
  /** Service time: the header `Date`, or the local clock at the receipt when the header is missing or invalid. */
  readonly readAt: Date;
  /** How long the service asks to wait; null when it does not ask. */
  readonly retryAfterMs: number | null;
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

type HttpOptions = Pick<
  ConnectionOptions,
  'baseUrl' | 'apiKey' | 'http' | 'retry' | 'clock' | 'log' | 'onExchange'
>;

interface HttpParts extends HttpOptions {
  /** The origin of the base URL. */
  readonly origin: string;
  readonly trustedOrigins: ReadonlySet<string>;
  readonly dispatchers: Dispatchers;
}

/** Creates the HTTP client. `trustedOrigins` may have any address. */
export function createHttp(
  options: HttpOptions,
  trustedOrigins: ReadonlySet<string>,
  dispatchers: Dispatchers,
): Http {
  const { origin } = new URL(options.baseUrl);
  const parts = { ...options, origin, trustedOrigins, dispatchers };
  const slots = new ConnectionSlots(options.http.connections);
  const { clock, log, retry } = options;
  const { maxRetryAfterMs } = options.http;
  const throttles = new Throttles(origin, { clock, log, retry, maxRetryAfterMs });
  return {
    async send(request, signal) {
      const queuedMs = options.clock.monotonicMs();
      // A request waits for its throttle in its slot, so that no request in the queue overtakes the probe.
      const sendNow = async (): Promise<Exchange<HttpAnswer>> => {
        const throttle = throttles.of(request.origin);
        const pass = await throttle.pass(signal);
        request.onStart?.(clock.monotonicMs() - queuedMs);
        try {
          const exchange = await send(request, signal, parts);
          throttle.settle(pass, exchange.answer.status, exchange.answer.retryAfterMs);
          return exchange;
        } catch (error) {
          throttle.settle(pass, null, null);
          throw error;
        }
      };
      // Other origins only serve files, whose number is limited elsewhere.
      if (request.origin !== parts.origin) return (await sendNow()).answer;
      return slots.run(request.lane ?? 'following', sendNow, signal);
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
  const deadline = deadlineIn(request.deadlineMs, signal);
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
    if (deadline.over.aborted) {
      return new TransientError(
        `the exchange with ${hostOf(new URL(origin))} took longer than ${formatDuration(request.deadlineMs)}`,
      );
    }
    return networkError(error, hostOf(new URL(origin)), parts.http.timeoutMs);
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
      signal: deadline.signal,
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
  const receivedAt = clock.now();
  const header = (name: string): string | null => {
    const value = headers[name];
    const text = Array.isArray(value) ? value[0] : value;
    return text === undefined ? null : struckOut(text, [apiKey.reveal()]);
  };
  const readAt = httpDate(header('date')) ?? receivedAt;
  return {
    status,
    readAt,
    retryAfterMs: retryAfterMs(header('retry-after'), readAt),
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

/** The function that is called for every exchange when its answer has begun or failed. */
export type OnExchange = (exchange: {
  /** For the log: `list subscriptions`. */
  readonly operation: string;
  /** Null when no answer came. */
  readonly status: number | null;
  readonly durationMs: number;
}) => void;

/** Every form begins with the name of a day; `Date.parse` alone would also accept "5 apples". */
const BEGINS_WITH_DAY = /^(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)/;
/** The oldest form names no zone and means UTC. */
const NAMES_ZONE = /(?:GMT|UTC|Z|[+-]\d{2}:?\d{2})$/i;

/** Returns null for a missing or invalid text. */
export function httpDate(text: string | null): Date | null {
  const trimmed = text?.trim() ?? '';
  if (!BEGINS_WITH_DAY.test(trimmed)) return null;
  const ms = Date.parse(NAMES_ZONE.test(trimmed) ? trimmed : `${trimmed} GMT`);
  return Number.isNaN(ms) ? null : new Date(ms);
}

/** Returns milliseconds from `now`, never negative; null when the header is missing or invalid. */
export function retryAfterMs(header: string | null, now: Date): number | null {
  if (header === null) return null;
  const text = header.trim();
  if (/^\d{1,9}$/.test(text)) return Number(text) * 1_000;
  const timestamp = httpDate(text);
  return timestamp === null ? null : Math.max(0, timestamp.getTime() - now.getTime());
}
