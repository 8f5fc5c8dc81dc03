/**
 * `feed-sync resume`: lifts suspensions after an operator has acted on a refusal, or approves retirements; the next
 * catch-up continues. Failures are forgotten, so that their datasets are retried at once. Only the flag of their own approves retirements.
 */

import type { Checkpoint, CheckpointReader } from '../../checkpoint/checkpoint.ts';
import type { Configuration, LocalConfiguration } from '../../configuration/configuration.ts';
import { printable } from '../../lib/text.ts';
import { formatCount, plural } from '../../lib/units.ts';
import { announcedVersion } from '../../model/desired-state.ts';
import { RefusalError, type RefusalScope, UsageError } from '../../model/errors.ts';
import { isPinned, type ObservedTable } from '../../model/write-jobs.ts';
import { observedOf, readCheckpoint, seeMirror, usingMirror } from '../../reporting/stores.ts';
import { approveCommand } from '../../sync/candidates.ts';
import { takeMovedLogs } from '../../sync/follow/from-manifest.ts';
import { refuseForeignSubscriptions } from '../../sync/follow/subscriptions.ts';
import { silentProgress } from '../../sync/progress.ts';
import { currentSuspensions } from '../../sync/suspensions.ts';
import { confirm, type Intent } from '../confirm.ts';
import { type Context, write } from '../context.ts';
import { decide } from '../data-directory.ts';
import { EXIT_CODES, type ExitCode } from '../exit-codes.ts';
import { openParts } from '../open-parts.ts';
import { performRequest } from '../operator-request.ts';
import { formatScope, listed } from '../render/messages.ts';
import { logFor } from '../render/screen.ts';

export interface ResumeOptions {
  readonly dataset?: readonly string[];
  readonly subscription?: readonly string[];
  readonly workspace?: boolean;
  readonly retire?: boolean;
  readonly all?: boolean;
  readonly yes?: boolean;
}

/** @throws UsageError when no id is given, or one that is neither suspended nor failed. */
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
  const notSuspended = (
    await resumeSuspended(options, { isYes, tables, pinned }, configuration, context)
  ).filter((scope) => scope.kind !== 'dataset' || !pinned.includes(scope.datasetId));
  for (const datasetId of pinned) {
    const request = { datasetId, command: 'resume', parameters: {} };
    await write(context.terminal.stdout, `${await performRequest(request, configured(), context)}\n`);
  }
  if (notSuspended.length === 0) return EXIT_CODES.caughtUp;
  refuseToApprove(notSuspended, configuration, context);
  throw new UsageError(`Neither suspended nor failed: ${notSuspended.map(formatScope).join(', ')}.`, {
    hint: 'feed-sync status lists what is suspended and what failed.',
  });
}

/** @throws UsageError where one of these waits for an approval, which only `approve` gives. */
function refuseToApprove(
  scopes: readonly RefusalScope[],
  configuration: LocalConfiguration,
  context: Context,
): void {
  const candidates = readCheckpoint(configuration, context.identity.uid)?.candidates ?? [];
  const waiting = candidates.find(({ datasetId }) =>
    scopes.some((scope) => scope.kind === 'dataset' && scope.datasetId === datasetId),
  );
  if (waiting === undefined) return;
  throw new UsageError(`${printable(waiting.datasetId)} waits for an approval, which resume does not give.`, {
    hint: `To commit exactly what waits: ${approveCommand(waiting)}`,
  });
}

interface Resuming {
  readonly isYes: boolean;
  /** Null where the mirror could not be read, or was not. */
  readonly tables: ReadonlyMap<string, ObservedTable> | null;
  readonly pinned: readonly string[];
}

/** Lifts suspensions and forgets failures. Returns what was neither suspended nor failed. */
async function resumeSuspended(
  options: ResumeOptions,
  { isYes, tables, pinned }: Resuming,
  configuration: LocalConfiguration,
  context: Context,
): Promise<readonly RefusalScope[]> {
  const hasTable = (datasetId: string): boolean => tables?.has(datasetId) !== false;
  const decision = (checkpoint: Checkpoint) => {
    const resumed = execute(checkpoint, options);
    const approved = resumed.approved?.filter(hasTable) ?? null;
    const isAnyDone = resumed.lifted.length + resumed.retried.length + (approved?.length ?? 0) > 0;
    const lines = formatResumed({ ...resumed, approved });
    return { ...resumed, lines: pinned.length > 0 && !isAnyDone ? [] : lines, isAnyDone };
  };
  const intent = (checkpoint: Checkpoint): Intent | null => intentToRetire(checkpoint, hasTable);
  const confirmed = options.retire ? { isYes, intent } : null;
  return (await decide('to resume', configuration, context, decision, confirmed)).notSuspended;
}

/** Says which version comes next, and asks where that one was undone. */
async function confirmUnpin(
  datasetId: string,
  isYes: boolean,
  configuration: LocalConfiguration,
  context: Context,
): Promise<void> {
  const commits = await usingMirror(configuration, context, (reader) => reader.commits(datasetId));
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
}

function execute(checkpoint: Checkpoint, options: ResumeOptions): Resumed {
  const { all = false, retire = false, dataset = [] } = options;
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
  };
}

function namedScopes({ dataset, subscription, workspace }: ResumeOptions): readonly RefusalScope[] {
  return [
    ...(workspace ? [{ kind: 'workspace' as const }] : []),
    ...[...new Set(subscription)].map((id) => ({ kind: 'subscription' as const, subscriptionId: id })),
    ...[...new Set(dataset)].map((id) => ({ kind: 'dataset' as const, datasetId: id })),
  ];
}

/** Returns no line where nothing was done, and another message reports the named ids. */
function formatResumed({ lifted, retried, approved, notSuspended, retirementsWait }: Resumed): string[] {
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
  if (lines.length + notSuspended.length === 0) lines.push('Nothing is suspended, and nothing has failed.');
  return lines;
}

/**
 * @throws ConfigurationError where the service at `service.baseUrl` lists none of the subscriptions of the mirror. @throws
 * RefusalError where the service refuses the key, or has refused it before. @throws BusyError where another instance works
 * on the data directory; UsageError where there is no mirror.
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
    const found = `${formatCount(common.length)} of its ${formatCount(service.subscriptionIds.length)} subscriptions`;
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
