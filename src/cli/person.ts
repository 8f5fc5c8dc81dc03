/** How trouble is told to a person: what happened, to what, why, and what to do. */

import type { Hold } from '../checkpoint/checkpoint.ts';
import { unreachable } from '../lib/assert.ts';
import { FeedSyncError, type Refusal, RefusalError, type RefusalScope } from '../model/errors.ts';
import { printable } from './terminal.ts';

/** The message and, below it, the hint. */
export function tellError(error: Error): string {
  if (error instanceof RefusalError) return tellRefusal(error.refusal);
  const hint = error instanceof FeedSyncError && error.hint !== null ? `\n→ ${error.hint}` : '';
  return `${error.message}${hint}`.split('\n').map(printable).join('\n');
}

/** A refusal with the service's own message and links, and how to go on once a person has acted. */
export function tellHold({ refusal, heldAt }: Pick<Hold, 'refusal' | 'heldAt'>): string {
  return `${tellRefusal(refusal)}\n  held since ${heldAt.toISOString()}; nothing more is asked of the service for it until then.`;
}

function tellRefusal(refusal: Refusal): string {
  const code = refusal.code === null ? `${refusal.status}` : `${refusal.status} ${refusal.code}`;
  const links = [...refusal.links].map(([name, url]) => `  ${printable(name)}: ${printable(url)}`);
  return [
    `The service refused to ${printable(refusal.operation)} (${printable(code)}).`,
    `  It says: ${printable(refusal.message)}`,
    ...links,
    `→ Once you have acted on it: feed-sync resume ${resumeOptions(refusal.scope)}`,
  ].join('\n');
}

export function tellScope(scope: RefusalScope): string {
  switch (scope.kind) {
    case 'workspace':
      return 'this API key';
    case 'subscription':
      return `subscription ${printable(scope.subscriptionId)}`;
    case 'dataset':
      return `dataset ${printable(scope.datasetId)}`;
    default:
      return unreachable(scope);
  }
}

function resumeOptions(scope: RefusalScope): string {
  switch (scope.kind) {
    case 'workspace':
      return '--workspace (or give another key)';
    case 'subscription':
      return `--subscription ${printable(scope.subscriptionId)}`;
    case 'dataset':
      return `--dataset ${printable(scope.datasetId)}`;
    default:
      return unreachable(scope);
  }
}
