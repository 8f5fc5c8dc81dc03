/** Renders the report of `status` for people: the desired and the observed state, and the obstacles between them. Pure. */

import type { Failure, HookRecord } from '../../checkpoint/checkpoint.ts';
import { formatLeftOut } from '../../destination/catalog/unions.ts';
import { unreachable } from '../../lib/assert.ts';
import { printable } from '../../lib/text.ts';
import { formatBytes, formatCount, plural } from '../../lib/units.ts';
import { type Absence, confirmedAt } from '../../model/absence.ts';
import { announcedVersion } from '../../model/desired-state.ts';
import { FeedSyncError } from '../../model/errors.ts';
import { remedyOfLostPast } from '../../model/lost-past.ts';
import type { DatasetReport, Outage, RetirementReport, SubscriptionReport } from '../../reporting/report.ts';
import {
  mirrorSpace,
  mirrorState,
  ownSuspension,
  pastLogsOf,
  type Status,
  sortedAbsences,
  subscriptionState,
  suspensionsBeyondDatasets,
  unionsOf,
} from '../../reporting/status.ts';
import { backlogOf, backlogWords, DATASET_CONDITIONS, datasetCondition } from '../../reporting/up-to-date.ts';
import type { Need } from '../../sync/plan/need.ts';
import { reportAwaited } from '../../sync/retirements.ts';
import {
  type Counted,
  type DatasetProblem,
  formatCounts,
  formatRetry,
  formatSuspension,
  formatTime,
  formatTimeFrom,
  groupByCause,
  listed,
  minuteOf,
  suspensionProblem,
} from './messages.ts';
import { renderTable, rightAligned } from './table.ts';

interface ShownTo {
  readonly now: Date;
  /** Columns of the screen. */
  readonly width: number;
}

export function renderStatus(status: Status, shownTo: ShownTo): string {
  const { forgotten, absences } = status.checkpoint;
  const datasets = [...status.datasets.values()];
  const paragraphs = [
    headlines(status, shownTo.now),
    ...status.service.outages.map((outage) => outageText(outage, shownTo.now)),
    readersText(status, shownTo.now),
    subscriptionTable(status, datasets, shownTo),
    forgotten.length === 0 ? null : `Will be forgotten at the next catch-up: ${listed(forgotten)}.`,
    datasetTable(datasets, shownTo),
    leftOutLine(datasets),
    historyTable(status, shownTo),
    unionTable(status, shownTo),
    absencesText(absences),
    ...problemTexts(status, datasets, shownTo),
    datasets.length === 0
      ? null
      : [
          `${formatCounts(plural(datasets.length, 'dataset'), datasets, CONDITIONS)}${asOfThen(status)}.`,
          ...nextCommand(status, datasets),
        ].join('\n'),
  ];
  return paragraphs.filter((paragraph) => paragraph !== null).join('\n\n');
}

/** During an outage nobody knows what was published since. */
function asOfThen({ service }: Status): string {
  return service.outages.length === 0 ? '' : ', when the service was last reached';
}

function headlines(status: Status, now: Date): string {
  const { dataDirectory, mirrorFile, service } = status;
  const lines = [
    `Data directory ${dataDirectory}. ${instanceSentences(status).join(' ')}`,
    ...mirrorLines(status),
    ...scrubLines(status, now),
    ...reachedLines(service, now),
  ];
  if (mirrorFile.lockHolders.length > 0) {
    const holders = listed(mirrorFile.lockHolders.map((pid) => `process ${pid}`));
    lines.push(`The mirror is held by ${holders}. A commit waits for that up to lock.wait.`);
  }
  return lines.join('\n');
}

/** The instance of this data directory, and one of another that works on the same database. */
function instanceSentences({ runningInstance: instance, leaseHolder }: Status): readonly string[] {
  const elsewhere = `${printable(leaseHolder ?? '')} works on the database.`;
  if (instance === null) {
    return leaseHolder === null ? ['No instance is running.'] : ['No instance is running here:', elsewhere];
  }
  const { pid, host, command, standsBy } = instance;
  const named = `Instance ${pid} on ${printable(host)}`;
  return standsBy
    ? [`${named} stands by (${printable(command)}):`, elsewhere]
    : [`${named} is running: ${printable(command)}.`];
}

/** Nothing before the first scrub, which only `run` does. */
function scrubLines({ scrub }: Status, now: Date): readonly string[] {
  if (scrub.beganAt === null) return [];
  return scrub.completedAt === null
    ? [`The first scrub of the mirror began at ${formatTimeFrom(now, scrub.beganAt)}.`]
    : [`The last scrub of the mirror was complete at ${formatTimeFrom(now, scrub.completedAt)}.`];
}

/** Nothing before the first catch-up. */
function reachedLines({ reached, dataAsOf, outages }: Status['service'], now: Date): readonly string[] {
  if (reached === null) return outages.length === 0 ? [] : ['The service was never reached from here.'];
  const { process: poller, at } = reached;
  const by = `${printable(poller.command)} (process ${poller.pid} on ${printable(poller.host)})`;
  const data = dataAsOf === null ? [] : [`The data is as of ${formatTimeFrom(now, dataAsOf)}.`];
  return [
    [`The service was last reached at ${formatTimeFrom(now, at)} by feed-sync ${by}.`, ...data].join(' '),
  ];
}

function outageText({ subscriptionIds, error, message, hint, since, at }: Outage, now: Date): string {
  const of = subscriptionIds.length === 0 ? '' : ` Subscriptions: ${listed(subscriptionIds)}.`;
  const began = formatTimeFrom(now, since);
  return [
    `The service has given no usable answer since ${began}, last asked at ${formatTime(at)}.${of} [${error}]`,
    ...message.split('\n').map((line) => `  ${printable(line)}`),
    ...(hint === null ? [] : [`→ ${printable(hint)}`]),
  ].join('\n');
}

function mirrorLines(status: Status): readonly string[] {
  const { mirror, mirrorFile } = status;
  const { path, bytes } = mirrorFile;
  const problem = mirror instanceof Error ? mirror.message : 'The mirror was not read yet.';
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
  const suspended = datasets.flatMap((dataset) => {
    const suspension = ownSuspension(dataset);
    return suspension === null ? [] : [suspensionProblem(dataset.id, suspension)];
  });
  const failed = datasets.flatMap(({ failure }) => (failure === null ? [] : [failureProblem(failure, now)]));
  return [...above.map(formatSuspension), ...groupByCause([...suspended, ...failed]).map(({ text }) => text)];
}

function failureProblem(failure: Failure, now: Date): DatasetProblem {
  const { datasetId: id, error, message, hint, failedAt, retryAt } = failure;
  const lines = [
    `Dataset ${printable(id)} failed${timesOf(failure)} at ${formatTimeFrom(now, failedAt)}: [${error}]`,
    ...message.split('\n').map((line) => `  ${printable(line)}`),
    ...(hint === null ? [] : [`→ ${printable(hint)}`]),
    formatRetry(failure, formatTimeFrom(now, retryAt)),
  ];
  return { datasetId: id, cause: `${error} ${message}`, text: lines.join('\n') };
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

/** Null where publishing and the export are off and no command is configured. */
function readersText({ publishedCopy: copy, export: exported, hook }: Status, now: Date): string | null {
  const lines: string[] = [];
  if (copy !== null) {
    lines.push(
      copy.publishedAt === null
        ? `No copy is published yet at ${copy.path}.`
        : `The copy ${copy.path} was published at ${formatTimeFrom(now, copy.publishedAt)}.`,
    );
  }
  if (exported !== null) {
    lines.push(
      exported.exportedAt === null
        ? `Nothing is exported yet to ${exported.path}.`
        : `The export in ${exported.path} was made at ${formatTimeFrom(now, exported.exportedAt)}.`,
    );
  }
  if (hook !== null) lines.push(...commandLines(hook, now));
  return lines.length === 0 ? null : lines.join('\n');
}

function commandLines({ reportedAt, failure }: HookRecord, now: Date): readonly string[] {
  if (failure === null) {
    return reportedAt === null
      ? ['The command after commits was notified of nothing yet.']
      : [`The command after commits was last notified at ${formatTimeFrom(now, reportedAt)}.`];
  }
  return [
    `The command after commits failed${timesOf(failure)} at ${formatTimeFrom(now, failure.failedAt)}:`,
    ...failure.message.split('\n').map((line) => `  ${printable(line)}`),
    '→ A running instance notifies it again by itself; without one: feed-sync once',
  ];
}

/** Nothing for the first attempt. */
function timesOf({ attempts }: { readonly attempts: number }): string {
  return attempts === 1 ? '' : ` ${formatCount(attempts)} times, last`;
}

/** Returns a command where work waits for nothing but a catch-up. An instance that works does this by itself, wherever it runs. */
function nextCommand(
  { runningInstance: instance, leaseHolder }: Status,
  datasets: readonly DatasetReport[],
): readonly string[] {
  return instance === null && leaseHolder === null && datasets.some(isDueAtNextCatchUp)
    ? ['→ feed-sync once']
    : [];
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
  { subscriptions, service }: Status,
  datasets: readonly DatasetReport[],
  { now, width }: ShownTo,
): string | null {
  const isListFailing = service.outages.some(({ subscriptionIds }) => subscriptionIds.length === 0);
  if (subscriptions.length === 0) return null;
  const columns = [
    { title: 'subscription' },
    { title: 'name', isOptional: true },
    { title: 'last event' },
    { title: 'read', isOptional: true },
    { title: 'state', wraps: true },
  ];
  const rows = subscriptions.map((subscription) => {
    const { subscriptionId, name, cursor } = subscription.followed;
    const readAt = subscription.poll?.success?.at ?? null;
    const read = readAt === null ? 'not known' : formatTimeFrom(now, readAt);
    const isUnread = isListFailing || (subscription.poll?.failure ?? null) !== null;
    const words = subscriptionWords(subscription, datasets);
    const state = isUnread && subscription.suspension === null ? `${words}, when it was last read` : words;
    return [subscriptionId, name ?? '', cursor?.text ?? 'none yet', read, state];
  });
  return renderTable(columns, rows, width);
}

function subscriptionWords(subscription: SubscriptionReport, datasets: readonly DatasetReport[]): string {
  const state = subscriptionState(subscription);
  if (state !== 'followed') return state;
  const { subscriptionId, cursor, replayedAt } = subscription.followed;
  const quiet = cursor === null ? 'no events yet' : 'no event for longer than the service keeps them';
  const content = backlogWords(backlogOf(subscriptionId, datasets));
  return [content, ...(replayedAt === null ? [] : [quiet])].join('; ');
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

/** Null without undo logs. */
function historyTable(status: Status, { width }: ShownTo): string | null {
  const logs = pastLogsOf(status) ?? [];
  if (logs.length === 0) return null;
  const columns = [
    { title: 'undo log' },
    rightAligned('entries'),
    { title: 'knows since (UTC)' },
    { title: 'earlier states', wraps: true },
  ];
  const rows = logs.map(({ logName, rowCount, firstTime, closedReason, frozenCommit }) => [
    `history.${logName}`,
    rowCount === null ? '' : formatCount(rowCount),
    minuteOf(firstTime),
    [
      ...(closedReason === null ? [] : [`lost: ${closedReason}`]),
      ...(frozenCommit === null ? [] : [`frozen by commit ${frozenCommit}`]),
    ].join('; '),
  ]);
  const reasons = new Set(logs.flatMap(({ closedReason }) => closedReason ?? []));
  const remedies = new Set([...reasons].map(remedyOfLostPast));
  return [renderTable(columns, rows, width), ...[...remedies].map((remedy) => `→ ${remedy}`)].join('\n');
}

/** Null without unions. */
function unionTable(status: Status, { width }: ShownTo): string | null {
  const unions = unionsOf(status) ?? [];
  if (unions.length === 0) return null;
  const columns = [{ title: 'union' }, rightAligned('tables'), { title: 'left out', wraps: true }];
  const rows = unions.map(({ name, members, leftOut, unusable }) => [
    name,
    formatCount(members),
    [...leftOut.map(formatLeftOut), ...unusable.map((id) => `${id}: altered outside feed-sync`)].join('; '),
  ]);
  return renderTable(columns, rows, width);
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
      return 'behind: versions and schemas to be read';
    case 'nothing':
      return 'up to date';
    default:
      return unreachable(need);
  }
}

const CONDITIONS: readonly Counted<DatasetReport>[] = DATASET_CONDITIONS.map((words) => {
  return { words, counts: (dataset) => datasetCondition(dataset) === words };
});
