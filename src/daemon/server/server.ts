/**
 * The status server: reports the daemon's state to supervisors, Prometheus and operators, and receives webhooks.
 *
 * Invariant: the server only observes. Nothing here delays the loop, changes the mirror or ends the process; an error in a response
 * becomes a 500 and is logged once.
 */

import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { ListenAddress } from '../../configuration/configuration.ts';
import { isLoopback } from '../../configuration/value-types.ts';
import { unreachable } from '../../lib/assert.ts';
import type { Clock } from '../../lib/clock.ts';
import type { Log } from '../../lib/log.ts';
import { errorCodeOf } from '../../model/errors.ts';
import type { Observed } from '../state.ts';
import {
  type Answer,
  compactAnswer,
  FAILED,
  jsonAnswer,
  MISDIRECTED,
  metricsAnswer,
  NOT_FOUND,
  notAllowed,
  OK,
  TOKEN_NEEDED,
  UNAVAILABLE,
  unlessKnown,
} from './answers.ts';
import { Connections } from './connections.ts';
import {
  healthView,
  type Reason,
  reasonsNotLive,
  reasonsNotReady,
  reasonsNotWell,
  verdictView,
} from './health.ts';
import {
  HEADERS_TIMEOUT_MS,
  IDLE_TIMEOUT_MS,
  KEEP_ALIVE_TIMEOUT_MS,
  MAX_HEADER_BYTES,
  MAX_HEADER_COUNT,
  REQUEST_TIMEOUT_MS,
  TIMEOUT_CHECK_MS,
} from './limits.ts';
import { closeInTime, listenOn } from './listen.ts';
import { createMetrics, type Folders, type Metrics, measure } from './metrics.ts';
import { datasetsOf, overviewOf, type PageStores } from './page/overview.ts';
import { pageAnswer } from './page/page.ts';
import { SharedAnswer } from './shared-answer.ts';
import { hasToken, readToken, type TokenParts } from './token.ts';
import { receive, Waker, type WebhookParts } from './webhook.ts';

export interface StatusServerParts {
  readonly listen: ListenAddress;
  /** The version of the program: `0.1.0`. */
  readonly version: string;
  readonly observed: Observed;
  /** Returns the report of `feed-sync status --json`. */
  readonly status: () => Promise<unknown>;
  /** Returns what the status page shows of the stores. */
  readonly pageStores: () => PageStores;
  /** The options by which the commands on the page find this instance, as words. */
  readonly placeOptions: readonly string[];
  readonly places: Folders;
  /** Null: webhooks are off. */
  readonly webhook: WebhookParts | null;
  /** Null: nobody is asked for a token. */
  readonly token: TokenParts | null;
  readonly clock: Clock;
  readonly log: Log;
}

export interface StatusServer {
  /** The address of the server: `http://127.0.0.1:9464`, `unix:/run/feed-sync/status.sock`. */
  readonly url: string;
  /** Other machines may connect, and nobody is asked for a token. */
  readonly isOpen: boolean;
  /** Accepts no further connection and finishes started responses, within `CLOSE_TIMEOUT_MS`. Never rejects. */
  close(): Promise<void>;
}

/** Resolves when the server listens. @throws ConfigurationError when the address cannot be listened on, or the token cannot be read. */
export async function startStatusServer(parts: StatusServerParts): Promise<StatusServer> {
  const { listen, observed, version, log, clock } = parts;
  if (parts.token !== null) readToken(parts.token);
  const server = limitedServer();
  const bound = await listenOn(server, listen);
  const metrics = createMetrics(version, observed);
  const waker = new Waker(parts.webhook?.wake ?? (() => {}), clock);
  const webhook = parts.webhook === null ? null : { ...parts.webhook, wake: () => waker.wake() };
  const answer = orFailed(answerer({ ...parts, webhook }, metrics), log);
  answerInTurn(server, parts, (request) => answerTo(request, bound.reach === 'loopback', answer));
  return {
    url: bound.url,
    isOpen: bound.reach === 'machines' && parts.token === null,
    close() {
      metrics.stop();
      waker.end();
      return closeInTime(server, clock);
    },
  };
}

/** Answers every request of a server that listens, those of a connection in their order. `answer` must not reject. */
export function answerInTurn(
  server: Server,
  { clock, log }: Pick<StatusServerParts, 'clock' | 'log'>,
  answer: (request: IncomingMessage) => Promise<Answer>,
): void {
  const connections = new Connections(clock);
  const answerAndSend = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    try {
      const given = await answer(request);
      begin(response, given, !server.listening);
      await connections.send(request.socket, response, given.body);
      // The server has begun to close since then, and would wait for further requests.
      if (!server.listening) request.socket.destroySoon();
    } catch (error) {
      log.error({ why: reasonOf(error) }, 'An answer of the status server could not be sent.');
      response.destroy();
    }
  };
  server.on('error', (error) => log.error({ why: error.message }, 'The status server failed.'));
  server.on('connection', (socket: Socket) => connections.accept(socket));
  server.on('request', (request, response) => {
    connections.inTurn(request.socket, () => answerAndSend(request, response));
  });
}

const READ_METHODS: readonly string[] = ['GET', 'HEAD'];
const DELIVERING: readonly string[] = ['POST'];

/** The paths, with their methods. */
const QUESTIONS = {
  page: { path: '/', methods: READ_METHODS },
  overview: { path: '/page/overview', methods: READ_METHODS },
  datasets: { path: '/page/datasets', methods: READ_METHODS },
  livez: { path: '/livez', methods: READ_METHODS },
  readyz: { path: '/readyz', methods: READ_METHODS },
  healthz: { path: '/healthz', methods: READ_METHODS },
  status: { path: '/status', methods: READ_METHODS },
  metrics: { path: '/metrics', methods: READ_METHODS },
  webhook: { path: '/webhook', methods: DELIVERING },
} as const;

type Question = keyof typeof QUESTIONS;

/** These answers need the token, because they show the words of failures, which may quote a value. */
const OF_THE_TOKEN: ReadonlySet<Question> = new Set(['page', 'overview', 'datasets', 'status']);

function questionOf(path: string): Question | null {
  const names = Object.keys(QUESTIONS) as Question[];
  return names.find((name) => QUESTIONS[name].path === path) ?? null;
}

/** The function that answers a question by its name. @throws the errors of the parts. */
export type AnswerQuestion = (question: Question, request: IncomingMessage) => Promise<Answer>;

/** Answers a request. Never rejects where `answer` does not. A query in the address is ignored. */
export async function answerTo(
  request: IncomingMessage,
  isOwnHostOnly: boolean,
  answer: AnswerQuestion,
): Promise<Answer> {
  const { method = '', url = '', headers } = request;
  const question = questionOf(url.replace(/\?.*$/s, ''));
  if (question === null) return NOT_FOUND;
  const { methods } = QUESTIONS[question];
  if (!methods.includes(method)) return notAllowed(methods.join(', '));
  // A webhook proves its destination by its signature, and a proxy may have left its public name in the Host header.
  const mayBeForged = isOwnHostOnly && question !== 'webhook';
  if (mayBeForged && !isOwnHost(headers.host ?? '')) return MISDIRECTED;
  return unlessKnown(await answer(question, request), headers['if-none-match']);
}

/** Returns whether the value of a Host header names this machine itself: `localhost:9464`, `127.0.0.1`, `[::1]:9464`. */
function isOwnHost(host: string): boolean {
  const name = /^(?:\[([^\]]*)\]|([^:]*))(?::\d{1,5})?$/.exec(host);
  const hostname = (name?.[1] ?? name?.[2] ?? '').toLowerCase();
  return isLoopback(hostname);
}

/** Answers that grow with the number of datasets are shared. Liveness and readiness cost nothing, and are current. */
function answerer(parts: StatusServerParts, metrics: Metrics): AnswerQuestion {
  const { version, observed, status, pageStores, placeOptions, places, webhook, token, clock } = parts;
  const shared = (make: () => Promise<Answer>): SharedAnswer => new SharedAnswer(make, clock);
  const health = shared(async () => {
    const state = observed.state();
    return verdictAnswer(reasonsNotWell(state), healthView(state, version));
  });
  const report = shared(async () => jsonAnswer(OK, await status()));
  const page = pageAnswer();
  const overview = shared(async () => {
    const sizes = await measure(places);
    const stores = pageStores();
    const { dataDirectory } = places;
    return compactAnswer(
      overviewOf({ ...stores, version, state: observed.state(), sizes, dataDirectory, placeOptions }),
    );
  });
  const datasets = shared(async () => {
    return compactAnswer(datasetsOf({ state: observed.state(), report: pageStores().report }));
  });
  const measurements = shared(async () => {
    const sizes = await measure(places);
    return metricsAnswer(await metrics.render(observed.state(), sizes), metrics.contentType);
  });
  const isAllowed = ({ headers }: IncomingMessage): boolean =>
    token === null || hasToken(headers.authorization, readToken(token));
  return async (question, request) => {
    if (OF_THE_TOKEN.has(question) && !isAllowed(request)) return TOKEN_NEEDED;
    switch (question) {
      case 'livez':
        return verdictAnswer(reasonsNotLive({ loopSilentMs: observed.loopSilentMs() }));
      case 'readyz':
        return verdictAnswer(reasonsNotReady(observed.readiness()));
      case 'healthz':
        return health.get();
      case 'status':
        return report.get();
      case 'page':
        return page;
      case 'overview':
        return overview.get();
      case 'datasets':
        return datasets.get();
      case 'metrics':
        return measurements.get();
      case 'webhook':
        return webhook === null ? NOT_FOUND : receive(request, webhook, clock, metrics.countDelivery);
      default:
        return unreachable(question);
    }
  };
}

/** Returns 200 without a reason, else 503 with all of them. */
export function verdictAnswer(
  reasons: readonly Reason[],
  further: Readonly<Record<string, unknown>> = {},
): Answer {
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

/** Writes the head of a response. `isLast`: the connection is closed after it. */
function begin(
  response: ServerResponse,
  { status, contentType, body, headers }: Answer,
  isLast: boolean,
): void {
  response.writeHead(status, {
    ...headers,
    ...(contentType === null ? {} : { 'Content-Type': contentType, 'Content-Length': body.length }),
    ...(isLast ? { Connection: 'close' } : {}),
    'Cache-Control': 'no-store',
    'X-Content-Type-Options': 'nosniff',
  });
}

/** Returns a server with the limits of `limits.ts`. */
export function limitedServer(): Server {
  const server = createServer({
    maxHeaderSize: MAX_HEADER_BYTES,
    requestTimeout: REQUEST_TIMEOUT_MS,
    headersTimeout: HEADERS_TIMEOUT_MS,
    keepAliveTimeout: KEEP_ALIVE_TIMEOUT_MS,
    connectionsCheckingInterval: TIMEOUT_CHECK_MS,
  });
  server.maxHeadersCount = MAX_HEADER_COUNT;
  server.timeout = IDLE_TIMEOUT_MS;
  // Else the answers to a client that has sent all its requests and says so are cut. Node has no type for this.
  return Object.assign(server, { httpAllowHalfOpen: true });
}
