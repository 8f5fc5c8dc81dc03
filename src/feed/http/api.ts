/**
 * One call of the feed's API: sent, repeated when that helps, and decoded or recognised as a refusal.
 *
 * Invariants: of a body, only a refusal's message and links reach an error or the log. A key or another secret in a refusal is
 * masked; any other response that contains the key is discarded. A command that must not run twice is repeated only when it
 * surely was not done.
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

/** A refusal has a code, a sentence and some links. */
const ERROR_LIMITS: JsonLimits = { maxBytes: 64_000, maxDepth: 16 };

export type Query = Readonly<Record<string, string | number | null>>;

interface AnyCall {
  readonly operation: Operation;
  /** Null parameters are left out. */
  readonly query?: Query;
  /** Sent as JSON; no body without it. */
  readonly body?: unknown;
  /** Masked in refusals, like the key. */
  readonly secrets?: readonly Secret[];
  /**
   * Tells an operator what to do when it is unknown whether the command was done. Set for commands that must not run twice;
   * these are repeated only while the request surely never arrived.
   */
  readonly ifInDoubt?: string;
  /** The hint for a 404 without the Error shape, which may come from another server than the service. */
  readonly ifMissing?: string;
  /** Statuses that are refusals here even without the Error shape. */
  readonly finalStatuses?: readonly number[];
  readonly maxAttempts?: number;
  /** Makes the error of a refusal; `refusalError` by default. */
  refuse?(operation: Operation, answer: RefusedAnswer): Error;
}

interface ApiCall<T> extends AnyCall {
  readonly maxDepth: number;
  /** Called for status 200, or 201 after a creation. @throws ContractViolationError */
  decode(body: JsonBody): T;
}

/** A call whose answer has no content. */
interface ApiCommand extends AnyCall {
  /** True when the refusal of a repetition shows that an earlier attempt without an answer succeeded. */
  isDoneBy?(answer: RefusedAnswer): boolean;
}

export interface Api {
  /** @throws ServiceUnavailableError, ContractViolationError, RefusalError (or the error of `refuse`) and InterruptedError. */
  call<T>(call: ApiCall<T>, signal: AbortSignal): Promise<T>;
  /** @throws ServiceUnavailableError, RefusalError (or the error of `refuse`) and InterruptedError. */
  command(command: ApiCommand, signal: AbortSignal): Promise<void>;
}

interface ApiParts {
  readonly http: Http;
  readonly origin: string;
  /** The path of the base URL, which precedes every path; usually empty. */
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

/** The successful answers to a command; the body is ignored. */
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

/** Returns null when the body lacks the Error shape or cannot be read. */
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
 * Runs `repeat` with attempts that stop for good once one may have been carried out. `hint` tells what to do then.
 * @throws ServiceUnavailableError, or an InterruptedError, with that hint; any other error of `repeat`.
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
    // After an interruption `repeat` throws the signal's reason, which does not mention the doubt.
    throw doubt ?? error;
  }
}

/** Returns null when the request surely never arrived. */
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
