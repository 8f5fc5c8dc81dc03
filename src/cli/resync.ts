/** `feed-sync resync`: a person wants the snapshots of datasets to be loaded again, whatever the tables hold. */

import type { Checkpoint, Hold } from '../checkpoint/checkpoint.ts';
import type { LocalConfiguration } from '../configuration/configuration.ts';
import { UsageError } from '../model/errors.ts';
import type { Want } from '../model/want.ts';
import { usingCheckpoint } from './beside.ts';
import type { Context } from './context.ts';
import { EXIT_CODES, type ExitCode } from './exit-codes.ts';
import { listed, tellScope } from './person.ts';
import { write } from './terminal.ts';
import { tellUnknown } from './unknown-ids.ts';

export interface ResyncOptions {
  readonly datasetIds: readonly string[];
  /** Every dataset that a subscription holds. */
  readonly all: boolean;
}

/** @throws UsageError when nothing is named, or a dataset that no subscription holds; nothing is then asked for. */
export async function resync(
  configuration: LocalConfiguration,
  context: Context,
  options: ResyncOptions,
): Promise<ExitCode> {
  if (options.datasetIds.length === 0 && !options.all) {
    throw new UsageError('resync needs to know what: no dataset was named.', {
      hint: 'Name datasets, or give --all; feed-sync status lists them.',
    });
  }
  const told = usingCheckpoint('to load again', configuration, context, (checkpoint) =>
    ask(checkpoint, options),
  );
  await write(context.terminal.stdout, `${told}\n`);
  return EXIT_CODES.caughtUp;
}

function ask(checkpoint: Checkpoint, { datasetIds, all }: ResyncOptions): string {
  const wants = checkpoint.wants();
  const held = [...wants.values()]
    .filter(({ members }) => members.size > 0)
    .map(({ datasetId }) => datasetId)
    .sort();
  const unknown = datasetIds.filter((id) => !held.includes(id));
  if (unknown.length > 0) {
    throw new UsageError(`No subscription holds ${tellUnknown(unknown, held)}.`, {
      hint: 'Nothing was asked for. feed-sync status lists the datasets.',
    });
  }
  const asked = checkpoint.askResync(all ? held : datasetIds);
  if (asked.length === 0) return 'No subscription holds any dataset: there is nothing to load again.';
  const inTheWay = checkpoint.holds().filter((hold) => asked.some((id) => isInTheWay(hold, wants.get(id))));
  return [
    `Loaded again from the snapshot at the next catch-up: ${listed(asked)}.`,
    ...inTheWay.map(({ refusal }) => `But ${tellScope(refusal.scope)} is held: see feed-sync status.`),
  ].join('\n');
}

function isInTheWay({ refusal: { scope } }: Hold, want: Want | undefined): boolean {
  switch (scope.kind) {
    case 'workspace':
      return true;
    case 'subscription':
      return want?.members.has(scope.subscriptionId) === true;
    case 'dataset':
      return want?.datasetId === scope.datasetId;
    case 'retirement':
      return false;
  }
}
