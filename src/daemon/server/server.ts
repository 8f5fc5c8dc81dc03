/**
 * The status server: reports the daemon's state to supervisors, Prometheus and operators, and receives webhooks.
 *
 * Invariant: the server only observes. Nothing here delays the loop, changes the mirror or ends the process; an error in a response
 * becomes a 500 and is logged once.
 */

import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import ipaddr from 'ipaddr.js';
import type { ListenAddress } from '../../configuration/configuration.ts';
import { assert } from '../../lib/assert.ts';
import type { Clock } from '../../lib/clock.ts';
import { systemCode, systemReason } from '../../lib/files.ts';
import type { Log } from '../../lib/log.ts';
import { ConfigurationError, errorCodeOf } from '../../model/errors.ts';
import { type Answer, FAILED, MISDIRECTED, NOT_FOUND, notAllowed } from './answers.ts';
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
import { createMetrics } from './metrics.ts';
import { type AnswerQuestion, answererOf, type QuestionParts } from './questions.ts';
import { Waker } from './webhook.ts';

export interface StatusServerParts extends QuestionParts {
  readonly listen: ListenAddress;
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
  const answer = orFailed(answererOf({ ...parts, webhook }, metrics), log);
  const isOwnHostOnly = isLoopback(bound.address);
  server.on('error', (error) => log.error({ why: error.message }, 'The status server is in trouble.'));
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

/** Never rejects where `answer` does not. */
async function answerTo(
  request: IncomingMessage,
  isOwnHostOnly: boolean,
  answer: AnswerQuestion,
): Promise<Answer> {
  const { method = '', url = '', headers } = request;
  const route = routeOf(method, url);
  if (route.kind === 'not-found') return NOT_FOUND;
  if (route.kind === 'not-allowed') return notAllowed(route.allow);
  // A webhook proves its destination by its signature, and a proxy may have left its public name in the Host header.
  const mayBeForged = isOwnHostOnly && route.question !== 'webhook';
  if (mayBeForged && !isOwnHost(headers.host ?? '')) return MISDIRECTED;
  return answer(route.question, request);
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

export type Question = 'livez' | 'readyz' | 'healthz' | 'status' | 'metrics' | 'webhook';

type Route =
  | { readonly kind: 'question'; readonly question: Question }
  | { readonly kind: 'not-found' }
  /** `allow` is the value of the header. */
  | { readonly kind: 'not-allowed'; readonly allow: string };

const QUESTIONS: ReadonlyMap<string, Question> = new Map([
  ['/livez', 'livez'],
  ['/readyz', 'readyz'],
  ['/healthz', 'healthz'],
  ['/status', 'status'],
  ['/metrics', 'metrics'],
  ['/webhook', 'webhook'],
]);

const LOOKING: readonly string[] = ['GET', 'HEAD'];
const DELIVERING: readonly string[] = ['POST'];

/** `target` comes from the request line: a path, maybe with a query, which is ignored. */
function routeOf(method: string, target: string): Route {
  const question = QUESTIONS.get(target.replace(/\?.*$/s, ''));
  if (question === undefined) return { kind: 'not-found' };
  const methods = question === 'webhook' ? DELIVERING : LOOKING;
  return methods.includes(method)
    ? { kind: 'question', question }
    : { kind: 'not-allowed', allow: methods.join(', ') };
}

function isLoopback(address: string): boolean {
  return ipaddr.isValid(address) && ipaddr.process(address).range() === 'loopback';
}

/** Whether the value of a Host header names this machine itself: `localhost:9464`, `127.0.0.1`, `[::1]:9464`. */
function isOwnHost(host: string): boolean {
  const name = /^(?:\[([^\]]*)\]|([^:]*))(?::\d{1,5})?$/.exec(host);
  const hostname = (name?.[1] ?? name?.[2] ?? '').toLowerCase();
  return hostname === 'localhost' || isLoopback(hostname);
}
