/**
 * What an answer other than 200 means (the service's interface, Errors, and what we assume beyond it). Decided by
 * status and code, never by the text of a message. Pure.
 */

import {
  CommandRefusedError,
  CursorExpiredError,
  RefusalError,
  type RefusalScope,
  type RefusalWords,
} from '../../model/errors.ts';
import type { ErrorBody } from '../wire/records.ts';
import type { Operation } from './operations.ts';

export interface RefusedAnswer {
  readonly status: number;
  /** Null where the body has not the Error shape. */
  readonly error: ErrorBody | null;
  /** Service time. */
  readonly readAt: Date;
}

/** Statuses that pass by themselves, whatever the body says. */
export function isTransientStatus(status: number): boolean {
  return status === 408 || status === 425 || status === 429 || status >= 500;
}

/**
 * A refusal is a 401, or a 4xx in the Error shape. `finalStatuses` are those that mean something to the operation
 * without that shape too; every other 4xx may come from anything between here and the service, and passes.
 */
export function isRefusal(
  { status, error }: Omit<RefusedAnswer, 'readAt'>,
  finalStatuses: readonly number[],
): boolean {
  if (status < 400 || isTransientStatus(status)) return false;
  return status === 401 || error !== null || finalStatuses.includes(status);
}

/** Of a person's command it is a `CommandRefusedError`, which cannot be held. */
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

/** A refusal to read on in a log: its position is lost, or a person must act. */
export function refusalOfLog(operation: Operation, answer: RefusedAnswer): Error {
  const isExpired =
    answer.error !== null && (answer.status === 410 || answer.error.code === 'cursor_expired');
  if (!isExpired || answer.status === 401) return refusalError(operation, answer);
  return new CursorExpiredError(
    `Could not ${operation.title}: the position in the log is past what the service keeps.`,
    answer.readAt,
  );
}

/** Whether a refusal is about the key itself, which no other page or path would change. */
export function isAboutKey({ refusal }: { readonly refusal: RefusalWords }): boolean {
  return refusal.status === 401 || refusal.code === 'insufficient_scope';
}

/** The statuses of a request that is refused for the values it carries. */
const INVALID_STATUSES: readonly (number | null)[] = [400, 422];

/**
 * An id that the service does not know, or a value that it does not accept: the request carries no others than those of the
 * command line.
 */
function isAboutInput({ input }: Operation, refusal: RefusalWords): boolean {
  if (input === undefined || isAboutKey({ refusal })) return false;
  return INVALID_STATUSES.includes(refusal.status) || (input === 'id' && refusal.code === 'not_found');
}

function scopeOf(
  { needsFeedsScope }: Operation,
  scope: RefusalScope,
  { status, error }: RefusedAnswer,
): RefusalScope {
  const lacksScope = status === 403 && error?.code === 'insufficient_scope' && needsFeedsScope;
  return status === 401 || lacksScope ? { kind: 'workspace' } : scope;
}

function messageFor(status: number): string {
  return status === 401 ? 'The API key is wrong, revoked or expired.' : `The service answered ${status}.`;
}
