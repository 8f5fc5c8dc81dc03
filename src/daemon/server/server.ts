/**
 * The status server: reports the daemon's state to supervisors, Prometheus and operators, and receives webhooks.
 *
 * Invariant: the server only observes. Nothing here delays the loop, changes the mirror or ends the process; an error in a response
 * becomes a 500 and is logged once.
 */

import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { ListenAddress } from '../../configuration/configuration.ts';
import { isLoopback } from '../../configuration/value-types.ts';
import { assert, unreachable } from '../../lib/assert.ts';
import type { Clock } from '../../lib/clock.ts';
import { systemCode, systemReason } from '../../lib/files.ts';
import type { Log } from '../../lib/log.ts';
import { ConfigurationError, errorCodeOf } from '../../model/errors.ts';
import type { Observed } from '../state.ts';
import {
  type Answer,
  FAILED,
  jsonAnswer,
  MISDIRECTED,
  metricsAnswer,
  NOT_FOUND,
  notAllowed,
  OK,
  UNAVAILABLE,
} from './answers.ts';
import {
  healthView,
  type Reason,
  reasonsNotLive,
  reasonsNotReady,
  reasonsNotWell,
  verdictView,
} from './health.ts';
import {
  CLOSE_TIMEOUT_MS,
  HEADERS_TIMEOUT_MS,
  IDLE_TIMEOUT_MS,
  KEEP_ALIVE_TIMEOUT_MS,
  MAX_CONNECTIONS,
  MAX_HEADER_BYTES,
  MAX_HEADER_COUNT,
  REQUEST_TIMEOUT_MS,
  TIMEOUT_CHECK_MS,
} from './limits.ts';
import { createMetrics, type Folders, type Metrics, measure } from './metrics.ts';
import { receive, Waker, type WebhookParts } from './webhook.ts';

export interface StatusServerParts {
  readonly listen: ListenAddress;
  /** The version of the program: `0.1.0`. */
  readonly version: string;
  readonly observed: Observed;
  /** Returns the report of `feed-sync status --json`. */
  readonly status: () => Promise<unknown>;
  readonly places: Folders;
  /** Null: webhooks are off. */
  readonly webhook: WebhookParts | null;
  readonly clock: Clock;
  readonly log: Log;
}

export interface StatusServer {
  /** The address of the server: `http://127.0.0.1:9464`. */
  readonly url: string;
  /** Accepts no further connection and finishes started responses, within `CLOSE_TIMEOUT_MS`. Never rejects. */
  close(): Promise<void>;
}

/** Resolves when the server listens. @throws ConfigurationError when the address cannot be listened on, with the address and the reason. */
export async function startStatusServer(parts: StatusServerParts): Promise<StatusServer> {
  const { listen, observed, version, log, clock } = parts;
  const server = limitedServer();
  const bound = await listenOn(server, listen);
  const metrics = createMetrics(version, observed);
  const waker = new Waker(parts.webhook?.wake ?? (() => {}), clock);
  const webhook = parts.webhook === null ? null : { ...parts.webhook, wake: () => waker.wake() };
  const answer = orFailed(
    (question, request) => answerOf(question, request, { ...parts, webhook }, metrics),
    log,
  );
  const isOwnHostOnly = isLoopback(bound.address);
  server.on('error', (error) => log.error({ why: error.message }, 'The status server failed.'));
  server.on('request', (request, response) => {
    answerTo(request, isOwnHostOnly, answer)
      .then((given) => send(response, given, !server.listening))
      .catch((error: unknown) => {
        log.error({ why: reasonOf(error) }, 'An answer of the status server could not be sent.');
        response.destroy();
      });
  });
  return {
    url: `http://${bound.family === 'IPv6' ? `[${bound.address}]` : bound.address}:${bound.port}`,
    close() {
      metrics.stop();
      waker.end();
      return closeInTime(server, clock);
    },
  };
}

/** Every question has the path of its name. */
const QUESTIONS = ['livez', 'readyz', 'healthz', 'status', 'metrics', 'webhook'] as const;

type Question = (typeof QUESTIONS)[number];

/** @throws the errors of the parts. */
type AnswerQuestion = (question: Question, request: IncomingMessage) => Promise<Answer>;

const LOOKING: readonly string[] = ['GET', 'HEAD'];
const DELIVERING: readonly string[] = ['POST'];

/** Never rejects where `answer` does not. A query in the address is ignored. */
async function answerTo(
  request: IncomingMessage,
  isOwnHostOnly: boolean,
  answer: AnswerQuestion,
): Promise<Answer> {
  const { method = '', url = '', headers } = request;
  const path = url.replace(/\?.*$/s, '');
  const question = QUESTIONS.find((name) => path === `/${name}`);
  if (question === undefined) return NOT_FOUND;
  const methods = question === 'webhook' ? DELIVERING : LOOKING;
  if (!methods.includes(method)) return notAllowed(methods.join(', '));
  // A webhook proves its destination by its signature, and a proxy may have left its public name in the Host header.
  const mayBeForged = isOwnHostOnly && question !== 'webhook';
  if (mayBeForged && !isOwnHost(headers.host ?? '')) return MISDIRECTED;
  return answer(question, request);
}

/** Whether the value of a Host header names this machine itself: `localhost:9464`, `127.0.0.1`, `[::1]:9464`. */
function isOwnHost(host: string): boolean {
  const name = /^(?:\[([^\]]*)\]|([^:]*))(?::\d{1,5})?$/.exec(host);
  const hostname = (name?.[1] ?? name?.[2] ?? '').toLowerCase();
  return isLoopback(hostname);
}

/** @throws the errors of the parts. */
async function answerOf(
  question: Question,
  request: IncomingMessage,
  { version, observed, status, places, webhook, clock }: StatusServerParts,
  metrics: Metrics,
): Promise<Answer> {
  switch (question) {
    case 'livez':
      return verdictAnswer(reasonsNotLive({ loopSilentMs: observed.loopSilentMs() }));
    case 'readyz':
      return verdictAnswer(reasonsNotReady(observed.state()));
    case 'healthz': {
      const state = observed.state();
      return verdictAnswer(reasonsNotWell(state), healthView(state, version));
    }
    case 'status':
      return jsonAnswer(OK, await status());
    case 'metrics': {
      const sizes = await measure(places);
      return metricsAnswer(await metrics.render(observed.state(), sizes), metrics.contentType);
    }
    case 'webhook':
      return webhook === null ? NOT_FOUND : receive(request, webhook, clock, metrics.countDelivery);
    default:
      return unreachable(question);
  }
}

function verdictAnswer(reasons: readonly Reason[], further: Readonly<Record<string, unknown>> = {}): Answer {
  return jsonAnswer(reasons.length === 0 ? OK : UNAVAILABLE, { ...verdictView(reasons), ...further });
}

/** Responds with 500 where the response fails, and logs the error once for each question, until that question succeeds again. */
function orFailed(answer: AnswerQuestion, log: Log): AnswerQuestion {
  const failing = new Set<Question>();
  return async (question, request) => {
    try {
      const given = await answer(question, request);
      failing.delete(question);
      return given;
    } catch (error) {
      // The client is gone, and with it the request, so there is no error to log.
      const isLogged = failing.has(question) || request.socket.destroyed;
      const fields = { question, error: errorCodeOf(error), why: reasonOf(error) };
      if (!isLogged) log.error(fields, 'The status server could not answer.');
      if (!request.socket.destroyed) failing.add(question);
      return FAILED;
    }
  };
}

function reasonOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

function send(
  response: ServerResponse,
  { status, contentType, body, headers }: Answer,
  isLast: boolean,
): void {
  response.writeHead(status, {
    ...headers,
    ...(contentType === null
      ? {}
      : { 'Content-Type': contentType, 'Content-Length': Buffer.byteLength(body) }),
    ...(isLast ? { Connection: 'close' } : {}),
    'Cache-Control': 'no-store',
    'X-Content-Type-Options': 'nosniff',
  });
  response.end(body);
}

function limitedServer(): Server {
  const server = createServer({
    maxHeaderSize: MAX_HEADER_BYTES,
    requestTimeout: REQUEST_TIMEOUT_MS,
    headersTimeout: HEADERS_TIMEOUT_MS,
    keepAliveTimeout: KEEP_ALIVE_TIMEOUT_MS,
    connectionsCheckingInterval: TIMEOUT_CHECK_MS,
  });
  server.maxHeadersCount = MAX_HEADER_COUNT;
  server.maxConnections = MAX_CONNECTIONS;
  server.timeout = IDLE_TIMEOUT_MS;
  return server;
}

function listenOn(server: Server, { host, port }: ListenAddress): Promise<AddressInfo> {
  return new Promise((resolve, reject) => {
    server.once('error', (error) => reject(cannotListen(error, host, port)));
    server.listen({ host, port, exclusive: true }, () => {
      server.removeAllListeners('error');
      const address = server.address();
      assert(
        address !== null && typeof address === 'object',
        'a server that listens on a port has an address',
      );
      resolve(address);
    });
  });
}

const HINTS: ReadonlyMap<string | null, string> = new Map([
  ['EADDRINUSE', 'Something else listens there.'],
  ['EACCES', 'Ports below 1024 are not for every user.'],
  ['EADDRNOTAVAIL', 'This machine has no such address.'],
  ['ENOTFOUND', 'Nobody knows this name.'],
]);

/** Blames the configuration: no other process of feed-sync can have the address, because this one has the lock of the data directory. */
function cannotListen(error: Error, host: string, port: number): ConfigurationError {
  const why = HINTS.get(systemCode(error)) ?? '';
  return new ConfigurationError(
    `The status server cannot listen on ${host} port ${port}: ${systemReason(error)}. ${why}`.trim(),
    { hint: 'Give another address in status.listen, or off.', cause: error },
  );
}

async function closeInTime(server: Server, clock: Clock): Promise<void> {
  const done = new AbortController();
  const closed = new Promise<void>((resolve) => void server.close(() => resolve()));
  const late = clock.sleep(CLOSE_TIMEOUT_MS, done.signal).then(
    () => server.closeAllConnections(),
    () => {},
  );
  await closed;
  done.abort();
  await late;
}
