/**
 * `feed-sync resume`: lifts suspensions after an operator has acted on a refusal, or approves retirements; the next
 * catch-up continues. Failures are forgotten, so that their datasets are retried at once. Only the flag of their own approves retirements.
 */

import { z } from 'zod';
import type { Checkpoint, CheckpointReader } from '../../checkpoint/checkpoint.ts';
import type { Configuration, LocalConfiguration } from '../../configuration/configuration.ts';
import { printable } from '../../lib/text.ts';
import { formatCount, plural } from '../../lib/units.ts';
import { announcedVersion } from '../../model/desired-state.ts';
import { RefusalError, type RefusalScope, UsageError } from '../../model/errors.ts';
import { isPinned } from '../../model/write-jobs.ts';
import { observedOf, readCheckpoint, seeMirror, usingMirror } from '../../reporting/stores.ts';
import { approveCommand } from '../../sync/candidates.ts';
import { takeMovedLogs } from '../../sync/follow/from-manifest.ts';
import { refuseForeignSubscriptions } from '../../sync/follow/subscriptions.ts';
import { silentProgress } from '../../sync/progress.ts';
import { currentSuspensions } from '../../sync/suspensions.ts';
import { confirm, type Intent } from '../confirm.ts';
import { type Context, write } from '../context.ts';
import type { Decision } from '../decision.ts';
import { EXIT_CODES, type ExitCode } from '../exit-codes.ts';
import { makeDecision } from '../make-decision.ts';
import { openParts } from '../open-parts.ts';
import { performRequest } from '../operator-request.ts';
import { formatScope, listed } from '../render/messages.ts';
import { logFor, readingPlace } from '../render/screen.ts';

export interface ResumeOptions {
  readonly dataset?: readonly string[];
  readonly subscription?: readonly string[];
  readonly workspace?: boolean;
  readonly retire?: boolean;
  readonly all?: boolean;
  readonly yes?: boolean;
}

/** Lifts suspensions. @throws UsageError when no id is given, or one that is neither suspended nor failed. */
export async function resume(
  options: ResumeOptions,
  configuration: LocalConfiguration,
  configured: () => Configuration,
  context: Context,
): Promise<ExitCode> {
  const { yes: isYes = false, ...named } = options;
  if (Object.keys(named).length === 0) {
    throw new UsageError('resume needs to know what: nothing was named.', {
      hint: 'Give --dataset ID, --subscription ID, --workspace, --retire, --all or --service-moved; see feed-sync status.',
    });
  }
  const { dataset = [], retire = false } = options;
  const tables =
    retire || dataset.length > 0
      ? (observedOf(await seeMirror(configuration, context))?.datasets ?? null)
      : null;
  const pinned = [...new Set(dataset)].filter((id) => isPinned(tables?.get(id) ?? null));
  for (const id of pinned) await confirmUnpin(id, isYes, configuration, context);
  const { all = false, subscription = [], workspace = false } = options;
  const parameters = {
    ...{ all, retire, workspace, dataset, subscription, pinned },
    tables: tables === null ? null : [...tables.keys()],
  };
  const refusal = await makeDecision(liftDecision, parameters, isYes, configuration, context);
  for (const datasetId of pinned) {
    const request = { datasetId, command: 'resume', parameters: {} };
    const text = await performRequest(request, configured(), context);
    await write(context.terminal.stdout, `${printable(text)}\n`);
  }
  if (refusal !== null) throw refusal;
  return EXIT_CODES.caughtUp;
}

const parameters = z.object({
  all: z.boolean(),
  retire: z.boolean(),
  workspace: z.boolean(),
  dataset: z.array(z.string()).readonly(),
  subscription: z.array(z.string()).readonly(),
  /** The named datasets whose tables a rollback keeps where they are; their pins are lifted by requests of their own. */
  pinned: z.array(z.string()).readonly(),
  /** The datasets with a table; null where the mirror could not be read, or was not. */
  tables: z.array(z.string()).readonly().nullable(),
});

type Parameters = z.infer<typeof parameters>;

/** Lifts suspensions and forgets failures. */
export const liftDecision: Decision<Parameters> = {
  command: 'lift',
  purpose: 'to resume',
  parameters,
  intent: ({ retire, tables }, checkpoint) => (retire ? intentToRetire(checkpoint, hasTable(tables)) : null),
  decide(asked, checkpoint) {
    const { tables, pinned } = asked;
    const resumed = execute(checkpoint, asked);
    const approved = resumed.approved?.filter(hasTable(tables)) ?? null;
    const isAnyDone = resumed.lifted.length + resumed.retried.length + (approved?.length ?? 0) > 0;
    const lines = formatResumed({ ...resumed, approved });
    const notSuspended = resumed.notSuspended.filter(
      (scope) => scope.kind !== 'dataset' || !pinned.includes(scope.datasetId),
    );
    return {
      lines: pinned.length > 0 && !isAnyDone ? [] : lines,
      isAnyDone,
      refusal: notSuspended.length === 0 ? null : refusalOf(notSuspended, checkpoint),
    };
  },
};

function hasTable(tables: readonly string[] | null): (datasetId: string) => boolean {
  const known = tables === null ? null : new Set(tables);
  return (datasetId) => known?.has(datasetId) !== false;
}

/** Where one of these waits for an approval, only `approve` gives it. */
function refusalOf(scopes: readonly RefusalScope[], checkpoint: CheckpointReader): UsageError {
  const waiting = checkpoint
    .candidates()
    .find(({ datasetId }) =>
      scopes.some((scope) => scope.kind === 'dataset' && scope.datasetId === datasetId),
    );
  if (waiting === undefined) {
    return new UsageError(`Neither suspended nor failed: ${scopes.map(formatScope).join(', ')}.`, {
      hint: 'feed-sync status lists what is suspended and what failed.',
    });
  }
  return new UsageError(
    `${printable(waiting.datasetId)} waits for an approval, which resume does not give.`,
    {
      hint: `To commit exactly what waits: ${approveCommand(waiting)}`,
    },
  );
}

/** Says which version comes next, and asks where that one was undone. */
async function confirmUnpin(
  datasetId: string,
  isYes: boolean,
  configuration: LocalConfiguration,
  context: Context,
): Promise<void> {
  const commits = await usingMirror(configuration, readingPlace(configuration, context), (reader) =>
    reader.commits(datasetId),
  );
  const pinnedBy = commits.slice(
    commits.findLastIndex(({ kind }) => kind !== 'rollback' && kind !== 'repair') + 1,
  );
  const undone = Math.max(...pinnedBy.map(({ fromVersion }) => fromVersion ?? 0));
  const desired = readCheckpoint(configuration, context.identity.uid)?.desiredStates.get(datasetId);
  const next = desired === undefined ? null : announcedVersion(desired);
  const name = printable(datasetId);
  if (next !== null && next > undone) {
    const line = `The next version of ${name} is ${next}; version ${undone} was undone.`;
    await write(context.terminal.stdout, `${line}\n`);
    return;
  }
  const line =
    next === null
      ? `Which version of ${name} comes next is not known; it may be version ${undone}, which was undone.`
      : `The next version of ${name} is ${next}, which was undone.`;
  await confirm(isYes, { lines: [line], question: 'Take it again?' }, context);
}

/** Null where nothing waits to be retired. */
function intentToRetire(
  checkpoint: CheckpointReader,
  hasTable: (datasetId: string) => boolean,
): Intent | null {
  const ids = [...checkpoint.desiredStates().values()]
    .filter(({ datasetId, members: { size } }) => size === 0 && hasTable(datasetId))
    .map(({ datasetId }) => datasetId)
    .sort();
  if (ids.length === 0) return null;
  const tables = `the tables of ${plural(ids.length, 'dataset')}, which no subscription contains`;
  return { lines: [`This retires ${tables}: ${listed(ids)}.`], question: 'Retire them?' };
}

interface Resumed {
  readonly lifted: readonly RefusalScope[];
  /** Failed datasets that are retried. */
  readonly retried: readonly string[];
  readonly notSuspended: readonly RefusalScope[];
  /** Datasets whose retirement was approved; null where approval was not requested. */
  readonly approved: readonly string[] | null;
  /** Retirements wait for approval and did not get it. */
  readonly retirementsWait: boolean;
  /** Commits wait for approval, and everything else was resumed. */
  readonly commitsWait: boolean;
}

function execute(checkpoint: Checkpoint, options: Parameters): Resumed {
  const { all, retire, dataset } = options;
  const failures = checkpoint.failures();
  const suspended = checkpoint.suspensions().map(({ refusal }) => refusal.scope);
  const scopes = all ? suspended.filter(({ kind }) => kind !== 'retirement') : namedScopes(options);
  const lifted = scopes.filter((scope) => checkpoint.lift(scope));
  const retried = all ? [...failures.keys()] : dataset.filter((id) => failures.has(id));
  for (const datasetId of retried) checkpoint.clearFailure(datasetId);
  const isRetried = (scope: RefusalScope): boolean =>
    scope.kind === 'dataset' && retried.includes(scope.datasetId);
  return {
    lifted,
    retried,
    notSuspended: scopes.filter((scope) => !lifted.includes(scope) && !isRetried(scope)),
    approved: retire ? checkpoint.approveRetirements() : null,
    retirementsWait: all && !retire && suspended.some(({ kind }) => kind === 'retirement'),
    commitsWait: all && checkpoint.candidates().length > 0,
  };
}

function namedScopes({ dataset, subscription, workspace }: Parameters): readonly RefusalScope[] {
  return [
    ...(workspace ? [{ kind: 'workspace' as const }] : []),
    ...[...new Set(subscription)].map((id) => ({ kind: 'subscription' as const, subscriptionId: id })),
    ...[...new Set(dataset)].map((id) => ({ kind: 'dataset' as const, datasetId: id })),
  ];
}

/** Returns no line where nothing was done, and another message reports the named ids. */
function formatResumed(resumed: Resumed): string[] {
  const { lifted, retried, approved, notSuspended, retirementsWait, commitsWait } = resumed;
  const lines: string[] = [];
  if (lifted.length > 0) {
    const scopes = lifted.map(formatScope).join(', ');
    lines.push(`Lifted the suspension of ${scopes}. The next catch-up asks the service again.`);
  }
  if (retried.length > 0) lines.push(`Tried again at the next catch-up: ${listed(retried)}.`);
  if (approved !== null) {
    lines.push(
      approved.length === 0
        ? 'No dataset waits to be retired.'
        : `Agreed. Will be retired at the next catch-up, because no subscription contains them: ${listed(approved)}.`,
    );
  }
  if (retirementsWait) {
    lines.push('Retirements still wait for you to agree to them: feed-sync resume --retire');
  }
  if (commitsWait)
    lines.push('Commits still wait for approval, which resume does not give: feed-sync approve');
  if (lines.length + notSuspended.length === 0) lines.push('Nothing is suspended, and nothing has failed.');
  return lines;
}

/**
 * Accepts a service that is at another address. @throws ConfigurationError where the service at `service.baseUrl` lists none of the
 * subscriptions of the mirror. @throws RefusalError where the service refuses the key, or has refused it before. @throws BusyError where
 * another instance works on the data directory; UsageError where there is no mirror.
 */
export async function acceptMovedService(configuration: Configuration, context: Context): Promise<ExitCode> {
  if ((await seeMirror(configuration, context)) === null) throw nothingMoved();
  const { signal, terminal } = context;
  const log = logFor(configuration, terminal);
  const options = { configuration, context, log, progress: silentProgress, command: 'resume', signal };
  const { parts, close } = await openParts(options);
  try {
    const { feed, destination, checkpoint } = parts;
    const observed = await destination.has();
    const { service } = observed;
    if (service === null) throw nothingMoved();
    if (service.origin === feed.origin) {
      await write(terminal.stdout, `The mirror belongs to the service at ${feed.origin} already.\n`);
      return EXIT_CODES.caughtUp;
    }
    const refused = currentSuspensions(parts).workspace;
    if (refused !== null) throw new RefusalError(refused.refusal);
    const records = await feed.subscriptions(signal);
    const common = refuseForeignSubscriptions(service, records.subscriptions, checkpoint.forgotten());
    await feed.discover(signal);
    // Runs first, so that an accepted address has no position of another log.
    const restarted = await takeMovedLogs(records, observed, parts, signal);
    await destination.enroll({
      origin: feed.origin,
      subscriptionIds: [],
      forgottenSubscriptionIds: [],
      datasetIds: [],
    });
    const found = `${formatCount(common.length)} of its ${plural(service.subscriptionIds.length, 'subscription')}`;
    await write(
      terminal.stdout,
      `Accepted: the mirror of the service at ${service.origin} belongs to ${feed.origin} now, which lists ${found}.\n` +
        `${restarted.length === 0 ? '' : formatRestarted(restarted)}The next catch-up goes on there.\n`,
    );
    return EXIT_CODES.caughtUp;
  } finally {
    await close();
  }
}

/** The tables of the subscriptions are loaded again, which may take long. */
function formatRestarted(subscriptionIds: readonly string[]): string {
  return (
    `It lacks events that were read before, so the next catch-up starts from the manifest of ${listed(subscriptionIds)}: ` +
    'tables of other content are loaded again.\n'
  );
}

function nothingMoved(): UsageError {
  return new UsageError('There is no mirror that could belong to a service that has moved.', {
    hint: 'feed-sync once',
  });
}
