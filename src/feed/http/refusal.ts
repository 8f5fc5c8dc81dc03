/**
 * Interprets every answer other than 200 (the service's interface, Errors, and documented assumptions). Decides by status and
 * code, never by the text of a message. Pure.
 */

import {
  CommandRefusedError,
  CursorExpiredError,
  RefusalError,
  type RefusalScope,
  type RefusalWords,
} from '../../model/errors.ts';
import type { Operation } from '../operations.ts';
import type { ErrorBody } from '../wire/records.ts';

export interface RefusedAnswer {
  readonly status: number;
  /** Null when the body lacks the Error shape. */
  readonly error: ErrorBody | null;
  /** Service time. */
  readonly readAt: Date;
}

/** Statuses of temporary failures, whatever the body contains. */
export function isTransientStatus(status: number): boolean {
  return status === 408 || status === 425 || status === 429 || status >= 500;
}

/**
 * Returns whether an answer is a refusal. A refusal is a 401, or a 4xx in the Error shape. `finalStatuses` are refusals even without that
 * shape. Every other 4xx may come from an intermediate server, and counts as temporary.
 */
export function isRefusal(
  { status, error }: Omit<RefusedAnswer, 'readAt'>,
  finalStatuses: readonly number[],
): boolean {
  if (status < 400 || isTransientStatus(status)) return false;
  return status === 401 || error !== null || finalStatuses.includes(status);
}

/** Returns the error of a refusal. For an operator's command this is a `CommandRefusedError`, which suspends nothing. */
export function refusalError(
  operation: Operation,
  answer: RefusedAnswer,
): RefusalError | CommandRefusedError {
  const { status, error } = answer;
  const words = {
    operation: operation.title,
    status,
    code: error?.code ?? null,
    message: error?.message ?? messageFor(status),
    links: error?.links ?? new Map(),
  };
  if (operation.scope === null) {
    return new CommandRefusedError(
      words,
      isAboutInput(operation, words) ? 'input_refused' : 'command_refused',
    );
  }
  return new RefusalError({ ...words, scope: scopeOf(operation, operation.scope, answer) });
}

/** Returns the error of a refused read of the event log: the cursor has expired, or an operator has to act. */
export function refusalOfLog(operation: Operation, answer: RefusedAnswer): Error {
  const isExpired =
    answer.error !== null && (answer.status === 410 || answer.error.code === 'cursor_expired');
  if (!isExpired || answer.status === 401) return refusalError(operation, answer);
  return new CursorExpiredError(
    `Could not ${operation.title}: the position in the log is past what the service keeps.`,
    answer.readAt,
  );
}

/** Returns whether the refusal concerns the key itself. No other page or path would change that. */
export function isAboutKey({ refusal }: { readonly refusal: RefusalWords }): boolean {
  return refusal.status === 401 || refusal.code === 'insufficient_scope';
}

/** The statuses of a request with invalid values. */
const INVALID_STATUSES: readonly (number | null)[] = [400, 422];

/**
 * True when the service does not know the id or does not accept the value. The request contains only values of the command
 * line.
 */
function isAboutInput({ input }: Operation, refusal: RefusalWords): boolean {
  if (input === undefined || isAboutKey({ refusal })) return false;
  return INVALID_STATUSES.includes(refusal.status) || (input === 'id' && refusal.code === 'not_found');
}

function scopeOf(
  { needsFeedsScope = false }: Operation,
  scope: RefusalScope,
  { status, error }: RefusedAnswer,
): RefusalScope {
  const lacksScope = status === 403 && error?.code === 'insufficient_scope' && needsFeedsScope;
  return status === 401 || lacksScope ? { kind: 'workspace' } : scope;
}

function messageFor(status: number): string {
  return status === 401 ? 'The API key is wrong, revoked or expired.' : `The service answered ${status}.`;
}
