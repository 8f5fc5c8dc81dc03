/** How trouble is told to a person: what happened, to what, why, and what to do. */

import type { Hold } from '../checkpoint/checkpoint.ts';
import { unreachable } from '../lib/assert.ts';
import { printable } from '../lib/printable.ts';
import { shellWord } from '../lib/shell-word.ts';
import { formatCount } from '../lib/units.ts';
import {
  CommandRefusedError,
  FeedSyncError,
  type Refusal,
  RefusalError,
  type RefusalScope,
  type RefusalWords,
} from '../model/errors.ts';
import { waysOut } from '../sync/ways-out.ts';
import { tellMoment } from './moments.ts';

/** The message and, below it, the hint. A refusal that is told so holds nothing: the command may be given again. */
export function tellError(error: Error): string {
  if (error instanceof RefusalError || error instanceof CommandRefusedError) {
    return [...answerOf(error.refusal), '→ Once you have acted on it, give the command again.'].join('\n');
  }
  const hint = error instanceof FeedSyncError && error.hint !== null ? `\n→ ${error.hint}` : '';
  return `${error.message}${hint}`.split('\n').map(printable).join('\n');
}

/** What holds it, with its links, since when, and how to go on once a person has acted. */
export function tellHold({ refusal, heldAt }: Pick<Hold, 'refusal' | 'heldAt'>): string {
  const isOurs = refusal.status === null;
  const meanwhile = isOurs
    ? 'what is mirrored stays as it is'
    : 'nothing more is asked of the service for it';
  return [
    ...(isOurs ? [ourWords(refusal)] : answerOf(refusal)),
    `  Held since ${tellMoment(heldAt.toISOString())}; until you have acted, ${meanwhile}.`,
    ...waysOut(refusal).map((way) => `→ ${way}`),
  ].join('\n');
}

/** When content that was found bad is fetched again. `moment`: in words. */
export function tellRetryOfContent(datasetId: string, moment: string): string {
  return `→ The same content is not fetched again before ${moment}, unless you ask: feed-sync resume --dataset ${shellWord(datasetId)}`;
}

/** The service's words are marked as such. */
function answerOf({ operation, status, code, message, links }: RefusalWords): readonly string[] {
  const answer = [status, code].filter((word) => word !== null).join(' ');
  return [
    `The service refused to ${printable(operation)} (${printable(answer)}).`,
    `  It says: ${printable(message)}`,
    ...[...links].map(([name, url]) => `  ${printable(name)}: ${printable(url)}`),
  ];
}

function ourWords({ scope, code, message }: Refusal): string {
  const held = `${tellScope(scope)} is held${code === null ? '' : ` (${printable(code)})`}`;
  return `${held.charAt(0).toUpperCase()}${held.slice(1)}: ${printable(message)}`;
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

/** Names of a list before the rest is counted. */
const MAX_LISTED = 20;

/** `a, b and 1,200 more`. `names` must not be empty. */
export function listed(names: readonly string[]): string {
  const rest = names.length - MAX_LISTED;
  const shown = names.slice(0, MAX_LISTED).map(printable).join(', ');
  return rest > 0 ? `${shown} and ${formatCount(rest)} more` : shown;
}
