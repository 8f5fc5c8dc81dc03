/**
 * One call of the feed's API: asked, repeated where that helps, and either decoded or recognised as a refusal.
 *
 * Invariants: no body, and nothing of a body but a refusal's message and links, gets into an error or the log. Where a
 * refusal repeats the key or another secret, it is struck out; of any other answer that repeats the key nothing is taken.
 * What must not be done twice is repeated only while it surely was not done.
 */

import { type Secret, struckOut } from '../../lib/secret.ts';
import { FeedSyncError, InterruptedError, ServiceUnavailableError } from '../../model/errors.ts';
import { decodeErrorBody, type ErrorBody } from '../wire/records.ts';
import type { Http, HttpAnswer, HttpRequest } from './http.ts';
import { type JsonBody, type JsonLimits, readJsonBody } from './json-body.ts';
import { refuseKeyIn } from './key-leak-guard.ts';
import type { Operation } from './operations.ts';
import { isRefusal, isTransientStatus, type RefusedAnswer, refusalError } from './refusal.ts';
import { type RetryPolicy, type RetryTools, withRetries } from './retry.ts';
import { retryAfterMs } from './service-time.ts';
import { TransientError } from './transient-errors.ts';

const NOT_FOUND = 404;

/** A refusal says a code, a sentence and some links. */
const ERROR_LIMITS: JsonLimits = { maxBytes: 64_000, maxDepth: 16 };

export type Query = Readonly<Record<string, string | number | null>>;

interface AnyCall {
  readonly operation: Operation;
  /** Parameters that are null are left out. */
  readonly query?: Query;
  /** Sent as JSON; without it there is no body. */
  readonly body?: unknown;
  /** Beside the key, struck out of refusals. */
  readonly secrets?: readonly Secret[];
  /**
   * Given where it must not be done twice: what a person is told to do where it is not known whether it was done.
   * Then it is tried again only while the request surely never arrived.
   */
  readonly ifInDoubt?: string;
  /** What to do about a 404 that has not the Error shape, and so may come from something else than the service. */
  readonly ifMissing?: string;
  /** Statuses that are refusals here though their body has not the Error shape. */
  readonly finalStatuses?: readonly number[];
  readonly maxAttempts?: number;
  /** The error of a refusal; `refusalError` by default. */
  refuse?(operation: Operation, answer: RefusedAnswer): Error;
}

interface ApiCall<T> extends AnyCall {
  readonly maxDepth: number;
  /** Called for an answer of status 200, or 201 where something was made. @throws ContractViolationError */
  decode(body: JsonBody): T;
}

/** A call whose answer says no more than that it was done. */
interface ApiCommand extends AnyCall {
  /** Whether a refusal of a repetition says that an earlier attempt, whose answer never came, had done it. */
  isDoneBy?(answer: RefusedAnswer): boolean;
}

export interface Api {
  /**
   * @throws ServiceUnavailableError, ContractViolationError, RefusalError (or what `refuse` makes of a refusal) and
   * InterruptedError.
   */
  call<T>(call: ApiCall<T>, signal: AbortSignal): Promise<T>;
  /** @throws ServiceUnavailableError, RefusalError (or what `refuse` makes of a refusal) and InterruptedError. */
  command(command: ApiCommand, signal: AbortSignal): Promise<void>;
}

interface ApiParts {
  readonly http: Http;
  readonly origin: string;
  /** The path of the base URL, put before every path; empty for most. */
  readonly basePath: string;
  readonly apiKey: Secret;
  readonly maxJsonBytes: number;
  readonly deadlineMs: number;
  readonly retryPolicy: RetryPolicy;
  readonly tools: RetryTools;
}

export function createApi(parts: ApiParts): Api {
  return {
    async call(call, signal) {
      const limits = { maxBytes: parts.maxJsonBytes, maxDepth: call.maxDepth };
      const outcome = await repeated(call, parts, signal, {
        statuses: call.operation.method === undefined ? [200] : [200, 201],
        read: async (answer) => {
          const { title } = call.operation;
          const body = await readJsonBody(answer, limits, title);
          refuseKeyIn(body.text, parts.apiKey, title);
          return call.decode(body);
        },
      });
      if (outcome.kind === 'refused') throw refusalOf(call, outcome.answer);
      return outcome.value;
    },
    async command(command, signal) {
      const outcome = await repeated(command, parts, signal, {
        statuses: COMMAND_DONE,
        read: async (answer) => answer.discard(),
      });
      if (outcome.kind === 'done') return;
      const isRepetition = outcome.attempt > 1;
      if (isRepetition && command.isDoneBy?.(outcome.answer) === true) return;
      throw refusalOf(command, outcome.answer);
    },
  };
}

type Outcome<T> =
  | { readonly kind: 'done'; readonly value: T }
  | { readonly kind: 'refused'; readonly answer: RefusedAnswer; readonly attempt: number };

interface Success<T> {
  readonly statuses: readonly number[];
  read(answer: HttpAnswer): Promise<T>;
}

/** What a command may be answered with; the body is not looked at. */
const COMMAND_DONE: readonly number[] = [200, 201, 202, 204];

function refusalOf({ operation, refuse = refusalError }: AnyCall, answer: RefusedAnswer): Error {
  return refuse(operation, answer);
}

function repeated<T>(
  call: AnyCall,
  parts: ApiParts,
  signal: AbortSignal,
  success: Success<T>,
): Promise<Outcome<T>> {
  const { title } = call.operation;
  let attempts = 0;
  let waitedMs = 0;
  const onStart = (ms: number): void => {
    waitedMs += ms;
  };
  const ask = (): Promise<Outcome<T>> => {
    attempts += 1;
    return attempt(call, { number: attempts, onStart }, parts, signal, success);
  };
  const policy = { ...parts.retryPolicy, maxAttempts: call.maxAttempts ?? parts.retryPolicy.maxAttempts };
  const repeat = (once: () => Promise<Outcome<T>>): Promise<Outcome<T>> =>
    withRetries({ title, attempt: once, waitedMs: () => waitedMs }, policy, parts.tools, signal);
  return call.ifInDoubt === undefined ? repeat(ask) : unlessDone(title, call.ifInDoubt, ask, repeat);
}

async function attempt<T>(
  call: AnyCall,
  { number, onStart }: { readonly number: number; readonly onStart: (waitedMs: number) => void },
  parts: ApiParts,
  signal: AbortSignal,
  success: Success<T>,
): Promise<Outcome<T>> {
  const { finalStatuses = [], secrets = [] } = call;
  const answer = await parts.http.send({ ...requestOf(call, parts), onStart }, signal);
  try {
    if (success.statuses.includes(answer.status)) return { kind: 'done', value: await success.read(answer) };
    const isRefusing = answer.status >= 400 && !isTransientStatus(answer.status);
    const error = isRefusing ? await readError(answer, [parts.apiKey, ...secrets]) : null;
    const refused = { status: answer.status, error, readAt: answer.readAt };
    if (isRefusal(refused, finalStatuses)) return { kind: 'refused', answer: refused, attempt: number };
    throw statusError(answer, call, parts);
  } finally {
    answer.discard();
  }
}

function requestOf({ operation, query = {}, body }: AnyCall, parts: ApiParts): HttpRequest {
  const common = {
    operation: operation.name,
    ...(operation.line === undefined ? {} : { line: operation.line }),
    ...(operation.method === undefined ? {} : { method: operation.method }),
    origin: parts.origin,
    path: `${parts.basePath}${operation.path}${queryText(query)}`,
    deadlineMs: parts.deadlineMs,
  };
  const accept = 'application/json';
  if (body === undefined) return { ...common, headers: { accept } };
  return { ...common, headers: { accept, 'content-type': 'application/json' }, body: JSON.stringify(body) };
}

/** Null where the body has not the Error shape, or cannot be read at all. */
async function readError(answer: HttpAnswer, secrets: readonly Secret[]): Promise<ErrorBody | null> {
  const revealed = secrets.map((secret) => secret.reveal());
  const strike = (text: string): string => struckOut(text, revealed);
  try {
    const { json } = await readJsonBody(answer, ERROR_LIMITS, 'read the refusal');
    return decodeErrorBody(json, strike);
  } catch (error) {
    if (error instanceof TransientError) return null;
    throw error;
  }
}

function statusError(answer: HttpAnswer, { ifMissing }: AnyCall, { tools }: ApiParts): TransientError {
  const { status } = answer;
  if (status >= 300 && status < 400) {
    return new TransientError(`the service answered ${status}, a redirect, which is not followed here`, {
      hint: 'Set service.baseUrl to the address that it redirects to.',
      mayBeDone: false,
    });
  }
  return new TransientError(`the service answered ${status}`, {
    hint: status === NOT_FOUND ? (ifMissing ?? null) : null,
    retryAfterMs: retryAfterMs(answer.header('retry-after'), tools.clock.now()),
    mayBeDone: status < 400 || status >= 500,
  });
}

function queryText(query: Query): string {
  const given = Object.entries(query).flatMap(([name, value]) =>
    value === null ? [] : [`${encodeURIComponent(name)}=${encodeURIComponent(value)}`],
  );
  return given.length === 0 ? '' : `?${given.join('&')}`;
}

/**
 * Runs `repeat` with attempts that end for good once one may have been carried out. `hint` says what to do then.
 * @throws ServiceUnavailableError, or an InterruptedError, with that hint; else what `repeat` throws.
 */
async function unlessDone<T>(
  title: string,
  hint: string,
  ask: () => Promise<T>,
  repeat: (attempt: () => Promise<T>) => Promise<T>,
): Promise<T> {
  let doubt: Error | null = null;
  const attempt = async (): Promise<T> => {
    try {
      return await ask();
    } catch (error) {
      doubt = doubtOf(error, title, hint);
      throw doubt ?? error;
    }
  };
  try {
    return await repeat(attempt);
  } catch (error) {
    // Where the work was stopped meanwhile, `repeat` throws the reason for that, which knows of no doubt.
    throw doubt ?? error;
  }
}

/** Null where the request surely never arrived. */
function doubtOf(error: unknown, title: string, hint: string): Error | null {
  if (error instanceof TransientError) {
    if (!error.mayBeDone) return null;
    return new ServiceUnavailableError(`Could not ${title}: ${error.message}.`, { hint, cause: error });
  }
  if (error instanceof InterruptedError) return new InterruptedError(error.message, { hint, cause: error });
  if (error instanceof FeedSyncError)
    return new ServiceUnavailableError(error.message, { hint, cause: error });
  return null;
}
