/** Holds and failures as data for programs, and back into what people are told. Pure. */

import type { Failure, Hold } from '../../checkpoint/checkpoint.ts';
import type { RefusalScope } from '../../model/errors.ts';
import type { HoldStatus } from '../../sync/hold-status.ts';
import { isOfContent } from '../../sync/plan/content.ts';

export interface FailureStatus {
  readonly error: string;
  readonly message: string;
  readonly hint: string | null;
  readonly attempts: number;
  readonly failedAt: string;
  /** Before then the same content is not fetched again; other trouble is tried again by every catch-up. */
  readonly retryAt: string;
  /** Whether content of the service was found bad. */
  readonly isOfContent: boolean;
}

/** Its own, not that of its subscriptions. */
export function holdOfDataset(datasetId: string, holds: readonly Hold[]): Hold | null {
  const isOfIt = ({ refusal: { scope } }: Hold): boolean =>
    scope.kind === 'dataset' && scope.datasetId === datasetId;
  return holds.find(isOfIt) ?? null;
}

/** Its own, else that of the workspace. */
export function holdOfSubscription(subscriptionId: string, holds: readonly Hold[]): Hold | null {
  const isOfIt = ({ refusal: { scope } }: Hold): boolean =>
    scope.kind === 'subscription' && scope.subscriptionId === subscriptionId;
  const isOfWorkspace = ({ refusal: { scope } }: Hold): boolean => scope.kind === 'workspace';
  return holds.find(isOfIt) ?? holds.find(isOfWorkspace) ?? null;
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

export function failureStatus(failure: Failure): FailureStatus {
  const { error, message, hint, attempts } = failure;
  const [failedAt, retryAt] = [failure.failedAt.toISOString(), failure.retryAt.toISOString()];
  return { error, message, hint, attempts, failedAt, retryAt, isOfContent: isOfContent(failure) };
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
