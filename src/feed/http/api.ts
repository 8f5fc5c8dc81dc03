/**
 * One call of the feed's API: asked, repeated where that helps, and either decoded or recognised as a refusal.
 *
 * Invariant: no body, and nothing of a body but a refusal's message and links, gets into an error or the log; and
 * where a refusal repeats the key, it is struck out.
 */

import type { Secret } from '../../lib/secret.ts';
import type { Operation } from '../operations.ts';
import { decodeErrorBody, type ErrorBody } from '../wire/error-body.ts';
import type { Http, HttpAnswer } from './http.ts';
import { type JsonBody, type JsonLimits, readJsonBody } from './json-body.ts';
import { isRefusal, isTransientStatus, type RefusedAnswer, refusalError } from './refusal.ts';
import { type RetryPolicy, type RetryTools, withRetries } from './retry.ts';
import { retryAfterMs } from './retry-after.ts';
import { TransientTrouble } from './trouble.ts';

/** A refusal says a code, a sentence and some links. */
const ERROR_LIMITS: JsonLimits = { maxBytes: 64_000, maxDepth: 16 };

export type Query = Readonly<Record<string, string | number | null>>;

export interface ApiCall<T> {
  readonly operation: Operation;
  /** Parameters that are null are left out. */
  readonly query?: Query;
  readonly maxDepth: number;
  /** Statuses that are refusals here though their body has not the Error shape. */
  readonly finalStatuses?: readonly number[];
  readonly maxAttempts?: number;
  /** @throws ContractViolationError */
  decode(body: JsonBody): T;
  /** The error of a refusal; a `RefusalError` by default. */
  refuse?(operation: Operation, answer: RefusedAnswer): Error;
}

export interface Api {
  /**
   * @throws ServiceUnavailableError, ContractViolationError, RefusalError (or what `refuse` makes of a refusal) and
   * InterruptedError.
   */
  call<T>(call: ApiCall<T>, signal: AbortSignal): Promise<T>;
}

export interface ApiParts {
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
      const { operation, refuse = refusalError } = call;
      const task = { title: operation.title, attempt: () => attempt(call, parts, signal) };
      const policy = { ...parts.retryPolicy, maxAttempts: call.maxAttempts ?? parts.retryPolicy.maxAttempts };
      const outcome = await withRetries(task, policy, parts.tools, signal);
      if (outcome.kind === 'refused') throw refuse(operation, outcome.answer);
      return outcome.value;
    },
  };
}

type Outcome<T> =
  | { readonly kind: 'decoded'; readonly value: T }
  | { readonly kind: 'refused'; readonly answer: RefusedAnswer };

async function attempt<T>(call: ApiCall<T>, parts: ApiParts, signal: AbortSignal): Promise<Outcome<T>> {
  const { operation, maxDepth, finalStatuses = [] } = call;
  const request = {
    operation: operation.name,
    origin: parts.origin,
    path: `${parts.basePath}${operation.path}${queryText(call.query ?? {})}`,
    headers: { accept: 'application/json' },
    deadlineMs: parts.deadlineMs,
  };
  const answer = await parts.http.get(request, signal);
  if (answer.status === 200) {
    const body = await readJsonBody(answer, { maxBytes: parts.maxJsonBytes, maxDepth }, operation.title);
    return { kind: 'decoded', value: call.decode(body) };
  }
  const isRefusing = answer.status >= 400 && !isTransientStatus(answer.status);
  const error = isRefusing ? await readError(answer, parts.apiKey) : null;
  answer.discard();
  const refused = { status: answer.status, error };
  if (isRefusal(refused, finalStatuses)) return { kind: 'refused', answer: refused };
  throw statusTrouble(answer, parts);
}

/** Null where the body has not the Error shape, or cannot be read at all. */
async function readError(answer: HttpAnswer, apiKey: Secret): Promise<ErrorBody | null> {
  try {
    const { json } = await readJsonBody(answer, ERROR_LIMITS, 'read the refusal');
    return decodeErrorBody(json, (text) => text.replaceAll(apiKey.reveal(), String(apiKey)));
  } catch (error) {
    if (error instanceof TransientTrouble) return null;
    throw error;
  }
}

function statusTrouble(answer: HttpAnswer, { tools }: ApiParts): TransientTrouble {
  const { status } = answer;
  if (status >= 300 && status < 400) {
    return new TransientTrouble(`the service answered ${status}, a redirect, which is not followed here`, {
      hint: 'Set service.baseUrl to the address that it redirects to.',
    });
  }
  return new TransientTrouble(`the service answered ${status}`, {
    retryAfterMs: retryAfterMs(answer.header('retry-after'), tools.clock.now()),
  });
}

function queryText(query: Query): string {
  const given = Object.entries(query).flatMap(([name, value]) =>
    value === null ? [] : [`${encodeURIComponent(name)}=${encodeURIComponent(value)}`],
  );
  return given.length === 0 ? '' : `?${given.join('&')}`;
}
