/**
 * The client's only retry policy. A temporary failure is retried with backoff and full jitter, or when the service asked for
 * it; a body that violates the interface is requested once more; any other error is thrown at once.
 *
 * Invariant: retrying ends, because attempts, time and the waits that the service asks for are each limited.
 */

import { type Backoff, backoffDelayMs, type Random } from '../../lib/backoff.ts';
import type { Clock } from '../../lib/clock.ts';
import type { Log } from '../../lib/log.ts';
import { formatDuration } from '../../lib/units.ts';
import { ContractViolationError, ServiceUnavailableError } from '../../model/errors.ts';
import { sleepUnlessStopped, TransientError, throwIfStopped } from './failures.ts';

/** A service that answers wrongly twice in a row will not have changed a second later. */
const MAX_VIOLATIONS = 2;

/** An operator who watches would wonder about a longer wait, so it is logged. */
const LONG_WAIT_MS = 10_000;

export interface RetryPolicy extends Backoff {
  readonly maxAttempts: number;
  /** All attempts together, without the waits that the service asked for and without waiting for other requests. */
  readonly deadlineMs: number;
  /** All waits together that the service asked for. */
  readonly maxRetryAfterMs: number;
  /** Recent failures of the other side, shared by all requests to it. */
  readonly outage: Outage;
}

export interface RetryTools {
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
}

interface RetriedTask<T> {
  /** The action, as the end of "Could not …". */
  readonly title: string;
  attempt(): Promise<T>;
  /** The part of the elapsed time that the request spent waiting for other requests. */
  waitedMs?(): number;
  /** True when the failed attempt made enough progress to forgive earlier failures. */
  hasProgressed?(): boolean;
}

/**
 * Repeats an attempt until it succeeds. @throws ServiceUnavailableError when the failure outlasts the policy.
 * @throws ContractViolationError when the answer violates the interface twice.
 */
export async function withRetries<T>(
  task: RetriedTask<T>,
  policy: RetryPolicy,
  tools: RetryTools,
  signal: AbortSignal,
): Promise<T> {
  const startedMs = tools.clock.monotonicMs();
  const spent: Spent = { attempts: 0, failures: 0, violations: 0, elapsedMs: 0, askedMs: 0, waitedMs: 0 };
  for (;;) {
    throwIfStopped(signal);
    try {
      const result = await task.attempt();
      policy.outage.noteAnswered();
      return result;
    } catch (error) {
      throwIfStopped(signal);
      if (!isWorthAnotherTry(error, policy.outage)) throw error;
      noteFailure(spent, error, task);
      spent.elapsedMs = tools.clock.monotonicMs() - startedMs;
      const wait = nextWait(error, spent, policy, tools.random);
      if (wait === null) throw givenUp(error, task.title, spent, policy.outage);
      logWait(tools.log, task.title, error, wait.ms);
      if (wait.asked) spent.askedMs += wait.ms;
      await sleepUnlessStopped(tools.clock, wait.ms, signal);
    }
  }
}

/** All other errors are final answers. */
function isWorthAnotherTry(error: unknown, outage: Outage): error is TransientError | ContractViolationError {
  if (error instanceof TransientError) return true;
  outage.noteAnswered();
  return error instanceof ContractViolationError;
}

function logWait(
  log: Log,
  operation: string,
  error: TransientError | ContractViolationError,
  waitMs: number,
): void {
  const fields = { operation, why: error.message, waitMs };
  // The throttle of the origin logs its wait once for all requests.
  const isLogged = error instanceof TransientError && error.isThrottled;
  if (waitMs < LONG_WAIT_MS || isLogged) log.debug(fields, 'Trying again.');
  else log.warn(fields, 'Waiting before the next attempt.');
}

interface Spent {
  attempts: number;
  failures: number;
  violations: number;
  elapsedMs: number;
  askedMs: number;
  waitedMs: number;
}

function noteFailure<T>(
  spent: Spent,
  error: TransientError | ContractViolationError,
  task: RetriedTask<T>,
): void {
  spent.attempts += 1;
  spent.failures = task.hasProgressed?.() === true ? 1 : spent.failures + 1;
  spent.waitedMs = task.waitedMs?.() ?? 0;
  if (error instanceof ContractViolationError) spent.violations += 1;
}

/** Returns null to give up. */
function nextWait(
  error: TransientError | ContractViolationError,
  spent: Spent,
  policy: RetryPolicy,
  random: Random,
): { readonly ms: number; readonly asked: boolean } | null {
  const askedMs = error instanceof TransientError ? error.retryAfterMs : null;
  const maxAttempts = policy.outage.isLasting && askedMs === null ? 1 : policy.maxAttempts;
  if (error instanceof TransientError && error.isFinal) return null;
  if (spent.failures >= maxAttempts || spent.violations >= MAX_VIOLATIONS) return null;
  const ownMs = backoffDelayMs(policy, spent.failures, random);
  if (spent.elapsedMs - spent.askedMs - spent.waitedMs + ownMs > policy.deadlineMs) return null;
  if (askedMs === null || askedMs <= ownMs) return { ms: ownMs, asked: false };
  const leftMs = policy.maxRetryAfterMs - spent.askedMs;
  return leftMs <= 0 ? null : { ms: Math.min(askedMs, leftMs), asked: true };
}

function givenUp(
  error: TransientError | ContractViolationError,
  title: string,
  spent: Spent,
  outage: Outage,
): Error {
  if (error instanceof ContractViolationError) return error;
  if (error.retryAfterMs === null && !error.isThrottled) outage.noteGivenUp();
  const attempts = spent.attempts === 1 ? '1 attempt' : `${spent.attempts} attempts`;
  return new ServiceUnavailableError(
    `Could not ${title}: ${error.message} after ${attempts} in ${formatDuration(spent.elapsedMs)}.`,
    {
      ...(error.hint === null ? {} : { hint: error.hint }),
      retryAfterMs: error.retryAfterMs,
      isThrottled: error.isThrottled,
      cause: error.cause ?? error,
    },
  );
}

/** The number of failed requests in a row that makes a lasting outage. */
export const REQUESTS_GIVEN_UP = 3;

/**
 * The memory that the last requests all failed. Each further request then gets a single attempt, until one is answered. With thousands of
 * datasets, all their retries together would last hours, and yet no dataset is delayed for good.
 */
export class Outage {
  #inARow = 0;

  get isLasting(): boolean {
    return this.#inARow >= REQUESTS_GIVEN_UP;
  }

  /** A request was given up without being asked to wait. */
  noteGivenUp(): void {
    this.#inARow += 1;
  }

  /** The other side answered, whatever the answer was. */
  noteAnswered(): void {
    this.#inARow = 0;
  }
}
