/** How trouble is told to a person: what happened, to what, why, and what to do. */

import type { Hold } from '../checkpoint/checkpoint.ts';
import { unreachable } from '../lib/assert.ts';
import { formatCount } from '../lib/units.ts';
import { FeedSyncError, type Refusal, RefusalError, type RefusalScope } from '../model/errors.ts';
import { printable } from './terminal.ts';

/** The message and, below it, the hint. */
export function tellError(error: Error): string {
  if (error instanceof RefusalError) return tellRefusal(error.refusal);
  const hint = error instanceof FeedSyncError && error.hint !== null ? `\n→ ${error.hint}` : '';
  return `${error.message}${hint}`.split('\n').map(printable).join('\n');
}

/** A refusal with its message and links, and how to go on once a person has acted. */
export function tellHold({ refusal, heldAt }: Pick<Hold, 'refusal' | 'heldAt'>): string {
  const meanwhile =
    refusal.status === null
      ? 'what is mirrored stays as it is until then.'
      : 'nothing more is asked of the service for it until then.';
  return `${tellRefusal(refusal)}\n  held since ${heldAt.toISOString()}; ${meanwhile}`;
}

function tellRefusal(refusal: Refusal): string {
  const links = [...refusal.links].map(([name, url]) => `  ${printable(name)}: ${printable(url)}`);
  const ways = refusal.status === null ? waysOutOfOurs(refusal.scope) : [afterActing(refusal.scope)];
  return [...whatWasRefused(refusal), ...links, ...ways.map((way) => `→ ${way}`)].join('\n');
}

/** The service's words are marked as such; where it said nothing, they are ours. */
function whatWasRefused({ scope, operation, status, code, message }: Refusal): readonly string[] {
  if (status === null) {
    const held = `${tellScope(scope)} is held${code === null ? '' : ` (${printable(code)})`}`;
    return [`${held.charAt(0).toUpperCase()}${held.slice(1)}: ${printable(message)}`];
  }
  const answer = code === null ? `${status}` : `${status} ${code}`;
  return [
    `The service refused to ${printable(operation)} (${printable(answer)}).`,
    `  It says: ${printable(message)}`,
  ];
}

function afterActing(scope: RefusalScope): string {
  return `Once you have acted on it: feed-sync resume ${resumeOptions(scope)}`;
}

/** Of what the program holds itself: a subscription that is gone, or more retirements than it does unasked. */
function waysOutOfOurs(scope: RefusalScope): readonly string[] {
  switch (scope.kind) {
    case 'subscription':
      return [
        `When it is there again: feed-sync resume ${resumeOptions(scope)}`,
        `To give it up, and retire what only it holds: feed-sync forget ${resumeOptions(scope)}`,
      ];
    case 'retirement':
      return [`Where that is right: feed-sync resume ${resumeOptions(scope)}`];
    case 'workspace':
    case 'dataset':
      return [afterActing(scope)];
    default:
      return unreachable(scope);
  }
}

export function tellScope(scope: RefusalScope): string {
  switch (scope.kind) {
    case 'workspace':
      return 'this API key';
    case 'subscription':
      return `subscription ${printable(scope.subscriptionId)}`;
    case 'dataset':
      return `dataset ${printable(scope.datasetId)}`;
    case 'retirement':
      return 'the retirement of datasets';
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
    case 'retirement':
      return '--retire';
    default:
      return unreachable(scope);
  }
}

/** Names of a list before the rest is counted. */
const MAX_LISTED = 20;

/** `a, b and 1,200 more`. `names` must not be empty. */
export function listed(names: readonly string[]): string {
  const rest = names.length - MAX_LISTED;
  const shown = names.slice(0, MAX_LISTED).map(printable).join(', ');
  return rest > 0 ? `${shown} and ${formatCount(rest)} more` : shown;
}
