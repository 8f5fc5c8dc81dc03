/** `feed-sync resync`: requests that the snapshots of datasets be loaded again, whatever the tables contain. */

import { z } from 'zod';
import type { CheckpointReader, Suspension } from '../../checkpoint/checkpoint.ts';
import type { LocalConfiguration } from '../../configuration/configuration.ts';
import { LIVE_SCHEMA } from '../../destination/postgres/catalog/names.ts';
import { shellWord } from '../../lib/text.ts';
import { plural } from '../../lib/units.ts';
import type { DesiredState } from '../../model/desired-state.ts';
import { UsageError } from '../../model/errors.ts';
import { type SchemaRule, schemaNameFor } from '../../model/naming.ts';
import { isPinned, type ObservedTable } from '../../model/write-jobs.ts';
import { observedOf, seeMirror } from '../../reporting/stores.ts';
import { isChosenDataset, namedDatasets } from '../../sync/follow/subscriptions.ts';
import type { Context } from '../context.ts';
import type { Decision } from '../decision.ts';
import { EXIT_CODES, type ExitCode } from '../exit-codes.ts';
import { makeDecision } from '../make-decision.ts';
import { formatScope, formatUnknown, knownNames, listed } from '../render/messages.ts';

interface ResyncOptions {
  readonly all: boolean;
  /** Each table moves into the schema that destination.schemas says. */
  readonly moves: boolean;
  readonly isYes: boolean;
}

/**
 * Requests reloads. `all`: every chosen dataset that a subscription contains; with `moves` only those whose tables are in another schema.
 * The command asks first where that or a glob chooses the datasets. @throws UsageError when no dataset is given, or one that is not
 * mirrored, and when tables of a file are to be moved; nothing is requested then.
 */
export async function resync(
  names: readonly string[],
  { all, moves, isYes }: ResyncOptions,
  configuration: LocalConfiguration,
  context: Context,
): Promise<ExitCode> {
  if (names.length === 0 && !all) {
    throw new UsageError('resync needs to know what: no dataset was named.', {
      hint: 'Name datasets, or give --all; feed-sync status lists them.',
    });
  }
  const { include, exclude } = configuration.datasets;
  const { postgres } = configuration.destination;
  if (moves && postgres === null) throw notInAFile();
  const tables = observedOf(await seeMirror(configuration, context))?.datasets;
  const pinned = [...(tables?.values() ?? [])].filter(isPinned).map(({ datasetId }) => datasetId);
  refusePinned(names.filter((id) => pinned.includes(id)));
  const elsewhere =
    moves && postgres !== null && tables !== undefined ? tablesElsewhere(tables, postgres.schemas) : null;
  const parameters = { names, all, include, exclude, pinned, moves, elsewhere };
  await makeDecision(resyncDecision, parameters, isYes, configuration, context);
  return EXIT_CODES.caughtUp;
}

const parameters = z.object({
  names: z.array(z.string()).readonly(),
  all: z.boolean(),
  /** The choice of datasets. */
  include: z.array(z.string()).readonly(),
  exclude: z.array(z.string()).readonly(),
  /** The datasets whose tables a rollback keeps where they are. */
  pinned: z.array(z.string()).readonly(),
  /** Missing in the request of an earlier version, like the next one. */
  moves: z.boolean().default(false),
  /** The datasets whose tables are in other schemas than the settings say; null: not known. */
  elsewhere: z.array(z.string()).readonly().nullable().default(null),
});

type Parameters = z.infer<typeof parameters>;

export const resyncDecision: Decision<Parameters> = {
  command: 'resync',
  purpose: 'to load again',
  parameters,
  intent(asked, checkpoint) {
    const { chosen } = chosenOf(asked, checkpoint);
    const unnamed = chosen.filter((id) => !asked.names.includes(id));
    if (asked.all ? chosen.length === 0 : unnamed.length < 2) return null;
    const which =
      asked.all && asked.elsewhere === null
        ? `all ${plural(chosen.length, 'dataset')} again`
        : `${plural(chosen.length, 'dataset')} again: ${listed(chosen)}`;
    const moved = asked.moves ? ' Each table moves into the schema that destination.schemas says.' : '';
    return { lines: [`This loads the snapshots of ${which}.${moved}`], question: 'Load them all again?' };
  },
  decide(asked, checkpoint) {
    const { all, pinned, moves, elsewhere } = asked;
    const { chosen, ids } = chosenOf(asked, checkpoint);
    const requested = checkpoint.requestResync(chosen, moves);
    const left =
      all && pinned.length > 0 ? [`A rollback keeps these where they are: ${listed(pinned)}.`] : [];
    if (requested.length === 0) {
      const isInPlace =
        all && ids.length > 0 && elsewhere !== null && !ids.some((id) => elsewhere.includes(id));
      const nothing = isInPlace ? NOTHING_TO_MOVE : nothingToLoad(ids);
      return { lines: left.length > 0 ? left : [nothing], isAnyDone: false };
    }
    const desiredStates = checkpoint.desiredStates();
    const inTheWay = checkpoint
      .suspensions()
      .filter((suspension) => requested.some((id) => isInTheWay(suspension, desiredStates.get(id))));
    const lines = [
      `Will be loaded again from the snapshot at the next catch-up${moves ? INTO_SCHEMA : ''}: ${listed(requested)}.`,
      ...left,
      ...inTheWay.map(
        ({ refusal }) => `But ${formatScope(refusal.scope)} is suspended: see feed-sync status.`,
      ),
    ];
    return { lines, isAnyDone: true };
  },
};

interface Chosen {
  /** The datasets that are loaded again, in order. */
  readonly chosen: readonly string[];
  /** Every dataset that a subscription contains. */
  readonly ids: readonly string[];
}

/** @throws UsageError when a name is unknown, or the configuration leaves it out. */
function chosenOf(asked: Parameters, checkpoint: CheckpointReader): Chosen {
  const { names, all, elsewhere } = asked;
  const members = [...checkpoint.desiredStates().values()].filter(({ members: { size } }) => size > 0);
  const ids = members.map(({ datasetId }) => datasetId).sort();
  const { datasetIds, unknown } = namedDatasets(names, ids);
  refuseUnknown(unknown, ids);
  refuseLeftOut(names.filter((id) => ids.includes(id) && !isChosen(id, asked)));
  // A glob names what can be loaded; an id that cannot was refused above.
  const everyOne = elsewhere === null ? ids : ids.filter((id) => elsewhere.includes(id));
  return { chosen: (all ? everyOne : datasetIds).filter((id) => isChosen(id, asked)), ids };
}

function isChosen(datasetId: string, { include, exclude, pinned }: Parameters): boolean {
  return isChosenDataset(datasetId, include, exclude) && !pinned.includes(datasetId);
}

const INTO_SCHEMA = ', and moved into the schema that destination.schemas says';
const NOTHING_TO_MOVE =
  'Every table is in the schema that destination.schemas says: there is nothing to move.';

function notInAFile(): UsageError {
  return new UsageError('resync --move is for PostgreSQL: a file has all tables in the schema main.', {
    hint: 'Leave --move out to load the tables again.',
  });
}

/** Returns the datasets whose tables are in other schemas than the rules say. */
function tablesElsewhere(
  tables: ReadonlyMap<string, ObservedTable>,
  rules: readonly SchemaRule[],
): readonly string[] {
  return [...tables.values()]
    .filter(({ datasetId, schemaName }) => schemaName !== schemaNameFor(datasetId, rules, LIVE_SCHEMA))
    .map(({ datasetId }) => datasetId);
}

function nothingToLoad(members: readonly string[]): string {
  return members.length === 0
    ? 'No subscription contains any dataset: there is nothing to load again.'
    : 'datasets.include and datasets.exclude leave no dataset: there is nothing to load again.';
}

/** @throws UsageError */
function refuseUnknown(unknown: readonly string[], members: readonly string[]): void {
  if (unknown.length === 0) return;
  throw new UsageError(`No subscription contains ${formatUnknown(unknown, members)}.`, {
    hint: `No reload was requested. ${knownNames(members, 'feed-sync status lists the datasets.')}`,
  });
}

/** @throws UsageError */
function refusePinned(pinned: readonly string[]): void {
  if (pinned.length === 0) return;
  throw new UsageError(`A rollback keeps these where they are: ${listed(pinned)}.`, {
    hint: `No reload was requested. Lift the pin first: feed-sync resume ${pinned.map((id) => `--dataset ${shellWord(id)}`).join(' ')}`,
  });
}

/** @throws UsageError */
function refuseLeftOut(leftOut: readonly string[]): void {
  if (leftOut.length === 0) return;
  throw new UsageError(`Left out by datasets.include and datasets.exclude: ${listed(leftOut)}.`, {
    hint: 'No reload was requested. Change these settings to have them mirrored.',
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
