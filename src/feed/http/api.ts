/**
 * One call of the feed's API: sent, repeated when that helps, and decoded or recognised as a refusal.
 *
 * Invariants: of a body, only a refusal's message and links reach an error or the log. A key or another secret in a refusal is
 * masked; any other response that contains the key is discarded. A command that must not run twice is repeated only when it
 * surely was not done.
 */

import { type Secret, secretDetector, struckOut } from '../../lib/secret.ts';
import {
  CommandRefusedError,
  FeedSyncError,
  InterruptedError,
  ServiceUnavailableError,
} from '../../model/errors.ts';
import type { Operation, Query, Reading } from '../operations.ts';
import type { NewWebhook } from '../operator.ts';
import { decodeErrorBody, type ErrorBody } from '../wire/records.ts';
import { repeatsKey } from './body.ts';
import { TransientError } from './failures.ts';
import type { Http, HttpAnswer, HttpRequest } from './http.ts';
import { type JsonLimits, readJsonBody } from './json-body.ts';
import { ListBudget } from './list-budget.ts';
import { type ConnectionOptions, limitsOf, retryPolicy } from './options.ts';
import { isRefusal, isTransientStatus, refusalError } from './refusal.ts';
import { withRetries } from './retry.ts';
import { TOO_MANY_REQUESTS } from './throttle.ts';

const NOT_FOUND = 404;

/** The nesting limit of most answers. */
const MAX_JSON_DEPTH = 64;

/** A refusal has a code, a sentence and some links. */
const ERROR_LIMITS: JsonLimits = { maxBytes: 64_000, maxDepth: 16 };

export interface Answer<T> {
  readonly value: T;
  /** The inflated body as sent. */
  readonly bytes: Buffer;
  /** Service time. */
  readonly readAt: Date;
}

export interface Api {
  /** The memory that lists may take. */
  readonly lists: ListBudget;
  /** The most bytes of an answer, whatever is left for its list. */
  readonly maxJsonBytes: number;
  /** @throws ServiceUnavailableError, ContractViolationError, RefusalError (or the error of `refuse`) and InterruptedError. */
  call<T>(operation: Reading<T>, signal: AbortSignal): Promise<Answer<T>>;
  /** The body of the answer is ignored. @throws ServiceUnavailableError, CommandRefusedError and InterruptedError. */
  command(operation: Operation, signal: AbortSignal): Promise<void>;
}

export function createApi(http: Http, options: ConnectionOptions): Api {
  const limits = limitsOf(options);
  const policy = retryPolicy(options, limits.operationDeadlineMs);
  const holdsKey = secretDetector([options.apiKey.reveal()]);

  function repeated<T>(operation: Operation, success: Success<T>, signal: AbortSignal): Promise<T> {
    const { title, ifInDoubt } = operation;
    let attempts = 0;
    let waitedMs = 0;
    const onStart = (ms: number): void => {
      waitedMs += ms;
    };
    const ask = async (): Promise<T> => {
      attempts += 1;
      const request = { ...requestOf(operation, options), deadlineMs: limits.jsonDeadlineMs, onStart };
      const answer = await http.send(request, signal);
      return meaningOf(answer, operation, attempts, success, options);
    };
    const maxAttempts = operation.maxAttempts ?? policy.maxAttempts;
    const repeat = (attempt: () => Promise<T>): Promise<T> =>
      withRetries({ title, attempt, waitedMs: () => waitedMs }, { ...policy, maxAttempts }, options, signal);
    return ifInDoubt === undefined ? repeat(ask) : unlessDone(title, ifInDoubt, ask, repeat);
  }

  const lists = new ListBudget(options.http.maxListBytes);
  const { maxJsonBytes } = options.http;
  return {
    lists,
    maxJsonBytes,
    call(operation, signal) {
      const { title, maxDepth = MAX_JSON_DEPTH, unreadList = null, mostBytes = lists.maxBytes } = operation;
      const statuses = operation.method === undefined ? [200] : [200, 201];
      const read = async (answer: HttpAnswer) => {
        // Of an answer whose list stays as it was sent, little is parsed.
        const mostParsed = unreadList === null ? mostBytes : Number.POSITIVE_INFINITY;
        const jsonLimits = { maxBytes: Math.min(maxJsonBytes, mostParsed), maxDepth };
        const { bytes, json } = await readJsonBody(answer, jsonLimits, title, unreadList);
        if (holdsKey(bytes)) throw repeatsKey(title);
        return { value: operation.decode(json), bytes, readAt: answer.readAt };
      };
      return repeated(operation, { statuses, read }, signal);
    },
    command: (operation, signal) =>
      repeated(operation, { statuses: COMMAND_DONE, read: async () => {} }, signal),
  };
}

interface Success<T> {
  readonly statuses: readonly number[];
  read(answer: HttpAnswer): Promise<T>;
}

/** The successful answers to a command. */
const COMMAND_DONE: readonly number[] = [200, 201, 202, 204];

/** @throws TransientError, ContractViolationError, or the error of a refusal. */
async function meaningOf<T>(
  answer: HttpAnswer,
  operation: Operation,
  attempts: number,
  success: Success<T>,
  { apiKey }: ConnectionOptions,
): Promise<T> {
  const { finalStatuses = [], isDoneIfMissing = false, body, refuse = refusalError } = operation;
  const { status } = answer;
  try {
    if (success.statuses.includes(status)) return await success.read(answer);
    const isRefusing = status >= 400 && !isTransientStatus(status);
    const secrets = [apiKey, ...(body?.header == null ? [] : [body.header.value])];
    const error = isRefusing ? await readError(answer, secrets) : null;
    const refused = { status, error, readAt: answer.readAt };
    if (isRefusal(refused, finalStatuses)) {
      const isRepetition = attempts > 1;
      if (isRepetition && status === NOT_FOUND && isDoneIfMissing) return await success.read(answer);
      throw refuse(operation, refused);
    }
    throw statusError(answer, operation.ifMissing ?? null);
  } finally {
    answer.discard();
  }
}

function requestOf(
  { name, path, lane, method, query = {}, body }: Operation,
  { baseUrl }: ConnectionOptions,
): Omit<HttpRequest, 'deadlineMs'> {
  const { origin, pathname } = new URL(baseUrl);
  const accept = { accept: 'application/json' };
  return {
    operation: name,
    ...(lane === undefined ? {} : { lane }),
    ...(method === undefined ? {} : { method }),
    origin,
    path: `${pathname.replace(/\/+$/, '')}${path}${queryText(query)}`,
    ...(body === undefined
      ? { headers: accept }
      : { headers: { ...accept, 'content-type': 'application/json' }, body: textOf(body) }),
  };
}

/** The one place where the secret of a new webhook's header is revealed. */
function textOf({ url, header }: NewWebhook): string {
  return JSON.stringify(
    header === null ? { url } : { url, header: { name: header.name, value: header.value.reveal() } },
  );
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

function statusError({ status, retryAfterMs }: HttpAnswer, ifMissing: string | null): TransientError {
  if (status >= 300 && status < 400) {
    return new TransientError(`the service answered ${status}, a redirect, which is not followed here`, {
      hint: 'Set service.baseUrl to the address that it redirects to.',
      mayBeDone: false,
    });
  }
  return new TransientError(`the service answered ${status}`, {
    hint: status === NOT_FOUND ? ifMissing : null,
    retryAfterMs,
    isThrottled: status === TOO_MANY_REQUESTS,
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
 * Runs `repeat` with attempts that stop for good once one may have been carried out. `hint` says what to do then.
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

/** Returns null when the command was refused, or the request surely never arrived. */
function doubtOf(error: unknown, title: string, hint: string): Error | null {
  if (error instanceof CommandRefusedError) return null;
  if (error instanceof TransientError) {
    if (!error.mayBeDone) return null;
    return new ServiceUnavailableError(`Could not ${title}: ${error.message}.`, { hint, cause: error });
  }
  if (error instanceof InterruptedError) return new InterruptedError(error.message, { hint, cause: error });
  if (error instanceof FeedSyncError)
    return new ServiceUnavailableError(error.message, { hint, cause: error });
  return null;
}
