/** `feed-sync resume`: a person has acted on a refusal; the service is asked again at the next catch-up. */

import { openCheckpointBeside } from '../checkpoint/sqlite/open.ts';
import type { LocalConfiguration } from '../configuration/configuration.ts';
import { type RefusalScope, UsageError } from '../model/errors.ts';
import type { Context } from './context.ts';
import { EXIT_CODES, type ExitCode } from './exit-codes.ts';
import { tellScope } from './person.ts';
import { write } from './terminal.ts';

export interface ResumeOptions {
  readonly dataset: readonly string[];
  readonly subscription: readonly string[];
  readonly workspace: boolean;
  readonly all: boolean;
}

/** @throws UsageError when nothing is named, or something that is not held. */
export async function resume(
  configuration: LocalConfiguration,
  context: Context,
  options: ResumeOptions,
): Promise<ExitCode> {
  const { terminal, clock, identity } = context;
  const checkpoint = openCheckpointBeside({ path: configuration.checkpoint.path, uid: identity.uid, clock });
  if (checkpoint === null) {
    throw new UsageError('There is nothing to resume: no catch-up has run here yet.', {
      hint: 'feed-sync once',
    });
  }
  try {
    const scopes = options.all
      ? checkpoint.holds().map(({ refusal }) => refusal.scope)
      : namedScopes(options);
    const lifted = scopes.filter((scope) => checkpoint.lift(scope));
    const notHeld = scopes.filter((scope) => !lifted.includes(scope));
    await write(terminal.stdout, `${tellLifted(lifted)}\n`);
    if (notHeld.length === 0) return EXIT_CODES.caughtUp;
    throw new UsageError(`Not held: ${notHeld.map(tellScope).join(', ')}.`, {
      hint: 'feed-sync status lists what is held.',
    });
  } finally {
    checkpoint.close();
  }
}

function namedScopes({ dataset, subscription, workspace }: ResumeOptions): readonly RefusalScope[] {
  const scopes: readonly RefusalScope[] = [
    ...(workspace ? [{ kind: 'workspace' as const }] : []),
    ...subscription.map((subscriptionId) => ({ kind: 'subscription' as const, subscriptionId })),
    ...dataset.map((datasetId) => ({ kind: 'dataset' as const, datasetId })),
  ];
  if (scopes.length > 0) return scopes;
  throw new UsageError('resume needs to know what: nothing was named.', {
    hint: 'Give --dataset ID, --subscription ID, --workspace or --all; feed-sync status lists what is held.',
  });
}

function tellLifted(lifted: readonly RefusalScope[]): string {
  if (lifted.length === 0) return 'Nothing was lifted.';
  return `Lifted the hold of ${lifted.map(tellScope).join(', ')}. The next catch-up asks the service again.`;
}
