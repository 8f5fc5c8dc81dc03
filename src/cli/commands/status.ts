/**
 * `feed-sync status`: reports the desired and the observed state, and the obstacles between them. Works beside a running
 * instance.
 */

import type { Failure, HookRecord } from '../../checkpoint/checkpoint.ts';
import type { LocalConfiguration } from '../../configuration/configuration.ts';
import { unreachable } from '../../lib/assert.ts';
import { printable } from '../../lib/text.ts';
import { formatBytes, formatCount, plural } from '../../lib/units.ts';
import { type Absence, confirmedAt } from '../../model/absence.ts';
import { announcedVersion } from '../../model/desired-state.ts';
import { BusyError, FeedSyncError } from '../../model/errors.ts';
import type { DatasetReport, RetirementReport, SubscriptionReport } from '../../reporting/report.ts';
import {
  mirrorSpace,
  mirrorState,
  ownSuspension,
  type Status,
  sortedAbsences,
  statusJson,
  statusOf,
  subscriptionState,
  suspensionsBeyondDatasets,
} from '../../reporting/status.ts';
import { readCheckpoint, seeMirror } from '../../reporting/stores.ts';
import type { Need } from '../../sync/plan/need.ts';
import { reportAwaited } from '../../sync/retirements.ts';
import { type Context, write } from '../context.ts';
import { runningInstance } from '../data-directory.ts';
import { EXIT_CODES, type ExitCode, exitCodeOf } from '../exit-codes.ts';
import {
  type Counted,
  formatCounts,
  formatRetry,
  formatSuspension,
  formatTime,
  formatTimeFrom,
  listed,
  minuteOf,
} from '../render/messages.ts';
import { jsonText, renderTable, rightAligned } from '../render/table.ts';

/** @throws FeedSyncError when the checkpoint cannot be read. */
export async function reportStatus(
  configuration: LocalConfiguration,
  context: Context,
  json: boolean,
): Promise<ExitCode> {
  const { identity, readFile, clock, terminal } = context;
  const mirror = await seeMirror(configuration, context);
  const status = statusOf(configuration, {
    mirror,
    runningInstance: runningInstance(configuration, context),
    checkpoint: readCheckpoint(configuration, identity.uid),
    pid: identity.pid,
    readFile,
  });
  const { stdout, width } = terminal;
  const text = json ? jsonText(statusJson(status)) : `${renderStatus(status, { now: clock.now(), width })}\n`;
  await write(stdout, text);
  return mirror instanceof Error && !(mirror instanceof BusyError) ? exitCodeOf(mirror) : EXIT_CODES.caughtUp;
}

interface ShownTo {
  readonly now: Date;
  /** Columns of the screen. */
  readonly width: number;
}

/** Renders the report for people. Pure. */
export function renderStatus(status: Status, shownTo: ShownTo): string {
  const { forgotten, absences } = status.checkpoint;
  const datasets = [...status.datasets.values()];
  const paragraphs = [
    headlines(status),
    readersText(status, shownTo.now),
    subscriptionTable(status.subscriptions, datasets, shownTo),
    forgotten.length === 0 ? null : `Will be forgotten at the next catch-up: ${listed(forgotten)}.`,
    datasetTable(datasets, shownTo),
    leftOutLine(datasets),
    absencesText(absences),
    ...problemTexts(status, datasets, shownTo),
    datasets.length === 0
      ? null
      : [
          `${formatCounts(plural(datasets.length, 'dataset'), datasets, CONDITIONS)}.`,
          ...nextCommand(status, datasets),
        ].join('\n'),
  ];
  return paragraphs.filter((paragraph) => paragraph !== null).join('\n\n');
}

function headlines(status: Status): string {
  const { dataDirectory, runningInstance: instance, mirrorFile } = status;
  const running =
    instance === null
      ? 'No instance is running.'
      : `Instance ${instance.pid} on ${printable(instance.host)} is running: ${printable(instance.command)}.`;
  const lines = [`Data directory ${dataDirectory}. ${running}`, ...mirrorLines(status)];
  if (mirrorFile.lockHolders.length > 0) {
    const holders = listed(mirrorFile.lockHolders.map((pid) => `process ${pid}`));
    lines.push(`The mirror is held by ${holders}. A commit waits for that up to lock.wait.`);
  }
  return lines.join('\n');
}

function mirrorLines(status: Status): readonly string[] {
  const { mirror, mirrorFile } = status;
  const { path, bytes } = mirrorFile;
  const problem = mirror instanceof Error ? mirror.message : 'The mirror was not looked at yet.';
  switch (mirrorState(mirror)) {
    case 'present': {
      const { freeBytes, isWorthCompacting } = mirrorSpace(status);
      const line = `The mirror is ${path} (${formatBytes(bytes)}).`;
      if (isWorthCompacting !== true) return [line];
      const won = `${formatBytes(freeBytes ?? 0)} of it are unused`;
      return [line, `→ ${won}. To give them back, while no instance is running: feed-sync compact`];
    }
    case 'absent':
      return [`There is no mirror yet at ${path}.`, '→ Make it with: feed-sync once'];
    case 'busy':
      return [`${printable(problem)} What it has is not shown.`, '→ Try again in a moment.'];
    case 'unusable': {
      const hint = mirror instanceof FeedSyncError ? mirror.hint : null;
      // DuckDB words some errors in several lines.
      const reported = `${problem} What it has is not shown.`.split('\n').map(printable);
      return [...reported, ...(hint === null ? [] : [`→ ${printable(hint)}`])];
    }
  }
}

/** A suspended subscription is not reported again with its datasets. */
function problemTexts(
  { suspensions }: Status,
  datasets: readonly DatasetReport[],
  { now }: ShownTo,
): readonly string[] {
  const above = suspensionsBeyondDatasets(suspensions.all);
  const suspended = [...above, ...datasets.flatMap((dataset) => ownSuspension(dataset) ?? [])];
  const failed = datasets.flatMap(({ failure }) => (failure === null ? [] : [failureText(failure, now)]));
  return [...suspended.map(formatSuspension), ...failed];
}

function failureText(failure: Failure, now: Date): string {
  const { datasetId: id, error, message, hint, failedAt, retryAt } = failure;
  return [
    `Dataset ${printable(id)} failed${timesOf(failure)} at ${formatTimeFrom(now, failedAt)}: [${error}]`,
    ...message.split('\n').map((line) => `  ${printable(line)}`),
    ...(hint === null ? [] : [`→ ${printable(hint)}`]),
    formatRetry(failure, formatTimeFrom(now, retryAt)),
  ].join('\n');
}

/** Null where nothing is absent. */
function absencesText(absences: readonly Absence[]): string | null {
  if (absences.length === 0) return null;
  const lines = sortedAbsences(absences).map((absence) => {
    const [since, until] = [formatTime(absence.since), formatTime(confirmedAt(absence))];
    return `${absentWords(absence)} since ${since}, confirmed after ${until}.`;
  });
  return lines.join('\n');
}

function absentWords({ subject }: Absence): string {
  switch (subject.kind) {
    case 'member':
      return `Dataset ${printable(subject.datasetId)} is absent from subscription ${printable(subject.subscriptionId)}`;
    case 'subscription':
      return `Subscription ${printable(subject.subscriptionId)} is absent from the list of subscriptions`;
    case 'log':
      return `The newest event that was read is absent from the log of subscription ${printable(subject.subscriptionId)}`;
    case 'version':
      return `Version ${subject.version} of dataset ${printable(subject.datasetId)} is absent from the list of versions`;
    case 'table':
      return `Dataset ${printable(subject.datasetId)}, which has a table, is absent from every subscription`;
    default:
      return unreachable(subject);
  }
}

/** Null where publishing is off and no command is configured. */
function readersText({ publishedCopy: copy, hook }: Status, now: Date): string | null {
  const lines: string[] = [];
  if (copy !== null) {
    lines.push(
      copy.publishedAt === null
        ? `No copy is published yet at ${copy.path}.`
        : `The copy ${copy.path} was published at ${formatTimeFrom(now, copy.publishedAt)}.`,
    );
  }
  if (hook !== null) lines.push(...commandLines(hook, now));
  return lines.length === 0 ? null : lines.join('\n');
}

function commandLines({ reportedAt, failure }: HookRecord, now: Date): readonly string[] {
  if (failure === null) {
    return reportedAt === null
      ? ['The command after commits was told of nothing yet.']
      : [`The command after commits was last told at ${formatTimeFrom(now, reportedAt)}.`];
  }
  return [
    `The command after commits failed${timesOf(failure)} at ${formatTimeFrom(now, failure.failedAt)}:`,
    ...failure.message.split('\n').map((line) => `  ${printable(line)}`),
    '→ A running instance tells it again by itself; without one: feed-sync once',
  ];
}

/** Nothing for the first attempt. */
function timesOf({ attempts }: { readonly attempts: number }): string {
  return attempts === 1 ? '' : ` ${formatCount(attempts)} times, last`;
}

/** Returns a command where work waits for nothing but a catch-up. A running instance does this work by itself. */
function nextCommand(
  { runningInstance: instance }: Status,
  datasets: readonly DatasetReport[],
): readonly string[] {
  return instance === null && datasets.some(isDueAtNextCatchUp) ? ['→ feed-sync once'] : [];
}

function isDueAtNextCatchUp({ phase, need, retirement, isChosen }: DatasetReport): boolean {
  if (!isChosen || phase === 'suspended') return false;
  if (retirement !== null) {
    const { waitsFor, waitsForApproval } = retirement;
    return !waitsForApproval && waitsFor.every(({ reason }) => reason !== 'suspended');
  }
  return need !== null && need !== 'nothing';
}

/** Null where there is none to show. */
function subscriptionTable(
  subscriptions: readonly SubscriptionReport[],
  datasets: readonly DatasetReport[],
  { now, width }: ShownTo,
): string | null {
  if (subscriptions.length === 0) return null;
  const columns = [
    { title: 'subscription' },
    { title: 'name', isOptional: true },
    { title: 'last event' },
    { title: 'read' },
    { title: 'state', wraps: true },
  ];
  const rows = subscriptions.map((subscription) => {
    const { subscriptionId, name, cursor, cursorAt } = subscription.followed;
    const state = subscriptionWords(subscription, datasets);
    return [subscriptionId, name ?? '', cursor?.text ?? 'none yet', formatTimeFrom(now, cursorAt), state];
  });
  return renderTable(columns, rows, width);
}

function subscriptionWords(subscription: SubscriptionReport, datasets: readonly DatasetReport[]): string {
  const state = subscriptionState(subscription);
  if (state !== 'followed') return state;
  const { subscriptionId, cursor, replayedAt } = subscription.followed;
  const members = datasets.filter(
    ({ desired, isChosen }) => isChosen && desired?.members.has(subscriptionId) === true,
  );
  const quiet = cursor === null ? 'no events yet' : 'no event for longer than the service keeps them';
  return [...conditionWords(members), ...(replayedAt === null ? [] : [quiet])].join('; ');
}

/** Whether the tables of a subscription's datasets have everything that was published. */
function conditionWords(members: readonly DatasetReport[]): readonly string[] {
  if (members.some(({ need }) => need === null)) return ['followed'];
  const due = members.filter(({ need }) => need !== 'nothing').length;
  if (due === 0) return ['up to date'];
  return [due === 1 ? '1 dataset is behind' : `${formatCount(due)} datasets are behind`];
}

/** Null where there is none to show. A dataset that is left out is shown only with a table. */
function datasetTable(datasets: readonly DatasetReport[], { width }: ShownTo): string | null {
  const shown = datasets.filter(({ isChosen, observed }) => isChosen || observed !== null);
  if (shown.length === 0) return null;
  const columns = [
    { title: 'dataset' },
    rightAligned('version'),
    rightAligned('rows'),
    { title: 'published (UTC)', isOptional: true },
    { title: 'table', isOptional: true },
    { title: 'state', wraps: true },
  ];
  const rows = shown.map((dataset) => [dataset.id, ...tableWords(dataset.observed), datasetWords(dataset)]);
  return renderTable(columns, rows, width);
}

function tableWords(observed: DatasetReport['observed']): readonly string[] {
  if (observed === null) return ['', '', '', ''];
  const { version, rowCount, publishedAt, tableName } = observed;
  return [
    String(version),
    formatCount(rowCount),
    publishedAt === null ? '' : minuteOf(publishedAt),
    tableName,
  ];
}

/** Counts the left-out datasets without a table. */
function leftOutLine(datasets: readonly DatasetReport[]): string | null {
  const { length } = datasets.filter(({ isChosen, observed }) => !isChosen && observed === null);
  if (length === 0) return null;
  const are = length === 1 ? 'dataset is' : 'datasets are';
  return `${formatCount(length)} more ${are} left out by datasets.include and datasets.exclude.`;
}

/** Returns the state and the next work of a dataset; for a table that serves, only the next work. */
function datasetWords(dataset: DatasetReport): string {
  const { phase, isChosen, retirement, need, desired } = dataset;
  if (!isChosen) return 'left out by the settings; its table stays as it is';
  if (retirement !== null) return `${retirementWords(retirement)}: ${retirement.reason}`;
  if ((desired?.members.size ?? 0) === 0) return 'no subscription is known to contain it';
  if (phase === 'pinned') return pinWords(dataset);
  const isSuspendedAbove = phase === 'suspended' && ownSuspension(dataset) === null;
  const shown =
    phase === 'live' || phase === 'absent'
      ? []
      : [isSuspendedAbove ? 'suspended with its subscription' : phase];
  return [...shown, ...(need === null ? [] : [needWords(need, dataset)])].join('; ') || 'not known';
}

function pinWords({ observed }: DatasetReport): string {
  const since = observed?.pinnedSince ?? null;
  return since === null ? 'pinned' : `pinned since ${minuteOf(since)}, until you resume it`;
}

function retirementWords({ waitsFor, waitsForApproval }: RetirementReport): string {
  if (waitsFor.length > 0) return `retirement waits ${reportAwaited(waitsFor)}`;
  return waitsForApproval ? 'to be retired, once you agree' : 'to be retired';
}

function needWords(need: Need, { desired }: DatasetReport): string {
  switch (need) {
    case 'table':
      return 'to be loaded';
    case 'reload':
      return 'behind: the service asked to load it again';
    case 'resync':
      return 'to be loaded again, as you asked';
    case 'version':
      return `behind: version ${desired && announcedVersion(desired)} is out`;
    case 'schema':
      return 'behind: its schema has changed';
    case 'refresh':
      return 'behind: to be looked at';
    case 'nothing':
      return 'up to date';
    default:
      return unreachable(need);
  }
}

const CONDITIONS: readonly Counted<DatasetReport>[] = [
  { words: 'left out', counts: ({ isChosen }) => !isChosen },
  { words: 'pinned', counts: ({ phase }) => phase === 'pinned' },
  { words: 'suspended', counts: ({ phase }) => phase === 'suspended' },
  { words: 'failed', counts: ({ phase }) => phase === 'failed' },
  { words: 'to be retired', counts: ({ retirement }) => retirement !== null },
  { words: 'up to date', counts: ({ need }) => need === 'nothing' },
  { words: 'to be loaded', counts: ({ need }) => need === 'table' },
  { words: 'behind', counts: ({ need }) => need !== null },
  { words: 'not known', counts: () => true },
];
