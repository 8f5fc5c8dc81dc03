/** Holds and failures as data for programs, and back into what people are told. Pure. */

import type { Failure, Hold } from '../checkpoint/checkpoint.ts';
import type { RefusalScope } from '../model/errors.ts';

export interface HoldStatus {
  readonly scope: RefusalScope['kind'];
  /** Of the subscription or the dataset; null for the other scopes. */
  readonly id: string | null;
  readonly operation: string;
  /** Null where it was no answer of the service: code and message are then feed-sync's own. */
  readonly status: number | null;
  readonly code: string | null;
  readonly message: string;
  readonly links: Readonly<Record<string, string>>;
  readonly since: string;
}

export interface FailureStatus {
  readonly error: string;
  readonly message: string;
  readonly hint: string | null;
  readonly attempts: number;
  readonly failedAt: string;
  readonly retryAt: string;
}

export function holdStatus({
  refusal: { scope, operation, status, code, message, links },
  heldAt,
}: Hold): HoldStatus {
  return {
    scope: scope.kind,
    id: idOf(scope),
    operation,
    status,
    code,
    message,
    links: Object.fromEntries(links),
    since: heldAt.toISOString(),
  };
}

/** As it was stored: a hold is told in the same words wherever it is told. */
export function holdOf({
  scope,
  id,
  since,
  links,
  ...refusal
}: HoldStatus): Pick<Hold, 'refusal' | 'heldAt'> {
  return {
    refusal: { ...refusal, scope: scopeOf(scope, id ?? ''), links: new Map(Object.entries(links)) },
    heldAt: new Date(since),
  };
}

export function failureStatus({ error, message, hint, attempts, failedAt, retryAt }: Failure): FailureStatus {
  return { error, message, hint, attempts, failedAt: failedAt.toISOString(), retryAt: retryAt.toISOString() };
}

function idOf(scope: RefusalScope): string | null {
  switch (scope.kind) {
    case 'subscription':
      return scope.subscriptionId;
    case 'dataset':
      return scope.datasetId;
    case 'workspace':
    case 'retirement':
      return null;
  }
}

function scopeOf(kind: RefusalScope['kind'], id: string): RefusalScope {
  switch (kind) {
    case 'workspace':
    case 'retirement':
      return { kind };
    case 'subscription':
      return { kind, subscriptionId: id };
    case 'dataset':
      return { kind, datasetId: id };
  }
}
