/** `feed-sync resync`: requests that the snapshots of datasets be loaded again, whatever the tables contain. */

import type { Checkpoint, Suspension } from '../../checkpoint/checkpoint.ts';
import type { LocalConfiguration } from '../../configuration/configuration.ts';
import type { DesiredState } from '../../model/desired-state.ts';
import { UsageError } from '../../model/errors.ts';
import { isChosenDataset } from '../../sync/follow/subscriptions.ts';
import { doneAtOnce, usingCheckpoint } from '../beside.ts';
import { type Context, write } from '../context.ts';
import { EXIT_CODES, type ExitCode } from '../exit-codes.ts';
import { formatScope, formatUnknown, listed } from '../render/messages.ts';

export interface ResyncOptions {
  readonly datasetIds: readonly string[];
  /** Every chosen dataset that a subscription contains. */
  readonly all: boolean;
}

/** @throws UsageError when no dataset is given, or one that is not mirrored; nothing is requested then. */
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
  const { include, exclude } = configuration.datasets;
  const isChosen = (datasetId: string): boolean => isChosenDataset(datasetId, include, exclude);
  const reported = usingCheckpoint('to load again', configuration, context, (checkpoint) =>
    ask(checkpoint, options, isChosen, doneAtOnce(configuration, context)),
  );
  await write(context.terminal.stdout, `${reported}\n`);
  return EXIT_CODES.caughtUp;
}

function ask(
  checkpoint: Checkpoint,
  { datasetIds, all }: ResyncOptions,
  isChosen: (datasetId: string) => boolean,
  atOnce: readonly string[],
): string {
  const desiredStates = checkpoint.desiredStates();
  const members = [...desiredStates.values()]
    .filter((desired) => desired.members.size > 0)
    .map(({ datasetId }) => datasetId)
    .sort();
  const chosen = members.filter(isChosen);
  refuseUnknown(datasetIds, members);
  refuseLeftOut(datasetIds.filter((id) => !isChosen(id)));
  const asked = checkpoint.requestResync(all ? chosen : datasetIds);
  if (asked.length === 0) {
    return members.length === 0
      ? 'No subscription contains any dataset: there is nothing to load again.'
      : 'datasets.include and datasets.exclude leave no dataset: there is nothing to load again.';
  }
  const inTheWay = checkpoint
    .suspensions()
    .filter((suspension) => asked.some((id) => isInTheWay(suspension, desiredStates.get(id))));
  return [
    `Will be loaded again from the snapshot at the next catch-up: ${listed(asked)}.`,
    ...inTheWay.map(({ refusal }) => `But ${formatScope(refusal.scope)} is suspended: see feed-sync status.`),
    ...atOnce,
  ].join('\n');
}

/** @throws UsageError */
function refuseUnknown(datasetIds: readonly string[], members: readonly string[]): void {
  const unknown = datasetIds.filter((id) => !members.includes(id));
  if (unknown.length === 0) return;
  throw new UsageError(`No subscription contains ${formatUnknown(unknown, members)}.`, {
    hint: 'Nothing was asked for. feed-sync status lists the datasets.',
  });
}

/** @throws UsageError */
function refuseLeftOut(leftOut: readonly string[]): void {
  if (leftOut.length === 0) return;
  throw new UsageError(`Left out by datasets.include and datasets.exclude: ${listed(leftOut)}.`, {
    hint: 'Nothing was asked for. Change these settings to have them mirrored.',
  });
}

function isInTheWay({ refusal: { scope } }: Suspension, desired: DesiredState | undefined): boolean {
  switch (scope.kind) {
    case 'workspace':
      return true;
    case 'subscription':
      return desired?.members.has(scope.subscriptionId) === true;
    case 'dataset':
      return desired?.datasetId === scope.datasetId;
    case 'retirement':
      return false;
  }
}
