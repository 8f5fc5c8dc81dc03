/** A hold as data for programs, in the one form in which every output has it. Pure. */

import type { Hold } from '../checkpoint/checkpoint.ts';
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
