/** What an operator can do about a suspension: the commands, as they are to be typed. Pure. */

import { unreachable } from '../lib/assert.ts';
import { shellWord } from '../lib/shell-word.ts';
import type { Refusal, RefusalScope } from '../model/errors.ts';

/** How to go on after a refusal, in the order in which people will want to: a clause and a command each. */
export function waysOut({ status, scope }: Pick<Refusal, 'status' | 'scope'>): readonly string[] {
  return status === null ? waysOutOfOurs(scope) : [afterActing(scope)];
}

function afterActing(scope: RefusalScope): string {
  return `Once you have acted on it: feed-sync resume ${resumeOptions(scope)}`;
}

/** Where the program itself has stopped: a subscription is gone, or more tables would retire than it retires unasked. */
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

function resumeOptions(scope: RefusalScope): string {
  switch (scope.kind) {
    case 'workspace':
      return '--workspace (or give another key)';
    case 'subscription':
      return `--subscription ${shellWord(scope.subscriptionId)}`;
    case 'dataset':
      return `--dataset ${shellWord(scope.datasetId)}`;
    case 'retirement':
      return '--retire';
    default:
      return unreachable(scope);
  }
}
