/** `status` for people. Pure. */

import { unreachable } from '../../lib/assert.ts';
import { printable } from '../../lib/text.ts';
import { formatBytes, formatCount } from '../../lib/units.ts';
import type { Need } from '../../sync/plan/need.ts';
import { reportAwaited } from '../../sync/retirements.ts';
import {
  formatRetryOfContent,
  formatSuspension,
  formatTimeFrom,
  listed,
  minuteOf,
} from '../render/messages.ts';
import { renderTable } from '../render/table.ts';
import { type FailureStatus, suspensionOf } from './datasets.ts';
import type { DatasetStatus, MirrorStatus, RetirementStatus, Status, SubscriptionStatus } from './shape.ts';
import { absencesText, readersText } from './view.ts';

export function renderStatus(status: Status, shownTo: ShownTo): string {
  const { forgottenSubscriptions, datasets, absences } = status;
  const paragraphs = [
    headlines(status),
    readersText(status, shownTo.now),
    subscriptionTable(status, shownTo),
    forgottenSubscriptions.length === 0
      ? null
      : `Forgotten at the next catch-up: ${listed(forgottenSubscriptions)}.`,
    datasetTable(datasets, shownTo),
    leftOutLine(datasets),
    absencesText(absences),
    ...problemTexts(status, shownTo),
    datasets.length === 0 ? null : [conditionLine(datasets), ...nextCommand(status)].join('\n'),
  ];
  return paragraphs.filter((paragraph) => paragraph !== null).join('\n\n');
}

function headlines({ dataDirectory, mirror, runningInstance }: Status): string {
  const instance =
    runningInstance === null
      ? 'No instance is running.'
      : `Instance ${runningInstance.pid} on ${printable(runningInstance.host)} is running: ${printable(runningInstance.command)}.`;
  const states = {
    present: presentLines(mirror),
    absent: `There is no mirror yet at ${mirror.path}.\n→ Make it with: feed-sync once`,
    busy: `${printable(mirror.problem ?? 'The mirror was not looked at yet.')} What it has is not shown.\n→ Try again in a moment.`,
    unusable: unusableLines(mirror),
  };
  return [`Data directory ${dataDirectory}. ${instance}`, states[mirror.state], ...lockLine(mirror)].join(
    '\n',
  );
}

/** DuckDB words some troubles in several lines. */
function unusableLines({ problem, hint }: MirrorStatus): string {
  const reported = `${problem ?? ''} What it has is not shown.`.split('\n').map(printable);
  return [...reported, ...(hint === null ? [] : [`→ ${printable(hint)}`])].join('\n');
}

/** Who a commit waits for. */
function lockLine({ lockHolders }: MirrorStatus): readonly string[] {
  if (lockHolders.length === 0) return [];
  const who = listed(lockHolders.map((pid) => `process ${pid}`));
  return [`The mirror is held by ${who}. A commit waits for that up to lock.wait.`];
}

function presentLines({ path, bytes, freeBytes, isWorthCompacting }: MirrorStatus): string {
  const line = `The mirror is ${path} (${formatBytes(bytes)}).`;
  if (isWorthCompacting !== true) return line;
  const won = `${formatBytes(freeBytes ?? 0)} of it hold nothing`;
  return `${line}\n→ ${won}. To give them back, while no instance is running: feed-sync compact`;
}

/** What is in the way, once each: a hold of a subscription is not told again with its datasets. */
function problemTexts({ suspensions, datasets }: Status, { now }: ShownTo): readonly string[] {
  const suspended = [...suspensions, ...datasets.flatMap(({ suspension }) => suspension ?? [])];
  const failed = datasets.flatMap(({ id, failure }) =>
    failure === null ? [] : [failureText(id, failure, now)],
  );
  return [...suspended.map((suspension) => formatSuspension(suspensionOf(suspension))), ...failed];
}

function failureText(id: string, failure: FailureStatus, now: Date): string {
  const { error, message, hint, attempts, failedAt, retryAt, isOfContent } = failure;
  const times = attempts === 1 ? '' : ` ${formatCount(attempts)} times, last`;
  return [
    `Dataset ${printable(id)} failed${times} at ${formatTimeFrom(now, failedAt)}: [${error}]`,
    ...message.split('\n').map((line) => `  ${printable(line)}`),
    ...(hint === null ? [] : [`→ ${printable(hint)}`]),
    isOfContent
      ? formatRetryOfContent(id, formatTimeFrom(now, retryAt))
      : '→ The next catch-up tries it again.',
  ].join('\n');
}

/** Where something is to be done that waits for nothing but a catch-up. A running instance comes to it by itself. */
function nextCommand({ datasets, runningInstance }: Status): readonly string[] {
  const isDue = datasets.some(isDueAtNextCatchUp);
  return isDue && runningInstance === null ? ['→ feed-sync once'] : [];
}

function isDueAtNextCatchUp({ state, need, retirement, isChosen }: DatasetStatus): boolean {
  if (!isChosen || state === 'suspended') return false;
  if (retirement !== null) {
    const { waitsFor, waitsForApproval } = retirement;
    return !waitsForApproval && waitsFor.every(({ reason }) => reason !== 'suspended');
  }
  return need !== null && need !== 'nothing';
}

interface ShownTo {
  readonly now: Date;
  /** Columns of the screen. */
  readonly width: number;
}

/** Null where there is none to show. */
function subscriptionTable(
  { subscriptions, datasets }: Pick<Status, 'subscriptions' | 'datasets'>,
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
  const rows = subscriptions.map((subscription) => [
    subscription.id,
    subscription.name ?? '',
    subscription.cursor ?? 'none yet',
    formatTimeFrom(now, subscription.cursorAt),
    subscriptionWords(subscription, datasets),
  ]);
  return renderTable(columns, rows, width);
}

function subscriptionWords(
  { id, state, cursor, replayedAt }: SubscriptionStatus,
  datasets: readonly DatasetStatus[],
): string {
  if (state !== 'followed') return state;
  const members = datasets.filter(({ subscriptions, isChosen }) => isChosen && subscriptions.includes(id));
  const quiet = cursor === null ? 'no events yet' : 'no event for longer than the service keeps them';
  return [...conditionWords(members), ...(replayedAt === null ? [] : [quiet])].join('; ');
}

/** Of what it holds: whether it has all that was published. */
function conditionWords(members: readonly DatasetStatus[]): readonly string[] {
  if (members.some(({ need }) => need === null)) return ['followed'];
  const due = members.filter(({ need }) => need !== 'nothing').length;
  if (due === 0) return ['up to date'];
  return [due === 1 ? '1 dataset is behind' : `${formatCount(due)} datasets are behind`];
}

/** Null where there is none to show. Of those that are left out, only tables that are here are shown. */
function datasetTable(datasets: readonly DatasetStatus[], { width }: ShownTo): string | null {
  const shown = datasets.filter(({ isChosen, table }) => isChosen || table !== null);
  if (shown.length === 0) return null;
  const columns = [
    { title: 'dataset' },
    { title: 'version', align: 'right' as const },
    { title: 'rows', align: 'right' as const },
    { title: 'published (UTC)', isOptional: true },
    { title: 'table', isOptional: true },
    { title: 'state', wraps: true },
  ];
  const rows = shown.map((dataset) => [
    dataset.id,
    dataset.version === null ? '' : String(dataset.version),
    dataset.rows === null ? '' : formatCount(dataset.rows),
    dataset.publishedAt === null ? '' : minuteOf(dataset.publishedAt),
    dataset.table ?? '',
    datasetWords(dataset),
  ]);
  return renderTable(columns, rows, width);
}

/** Of those that have no table. */
function leftOutLine(datasets: readonly DatasetStatus[]): string | null {
  const { length } = datasets.filter(({ isChosen, table }) => !isChosen && table === null);
  if (length === 0) return null;
  const are = length === 1 ? 'dataset is' : 'datasets are';
  return `${formatCount(length)} more ${are} left out by datasets.include and datasets.exclude.`;
}

/** How it stands, and what is to be done; what is to be done is all there is to say of a table that serves. */
function datasetWords(dataset: DatasetStatus): string {
  const { state, isChosen, retirement, need, subscriptions, suspension } = dataset;
  if (!isChosen) return 'left out by the settings; its table stays as it is';
  if (retirement !== null) return `${retirementWords(retirement)}: ${retirement.reason}`;
  if (subscriptions.length === 0) return 'no subscription is known to contain it';
  const isSuspendedAbove = state === 'suspended' && suspension === null;
  const shown =
    state === 'live' || state === 'absent'
      ? []
      : [isSuspendedAbove ? 'suspended with its subscription' : state];
  return [...shown, ...(need === null ? [] : [needWords(need, dataset)])].join('; ') || 'not known';
}

function retirementWords({ waitsFor, waitsForApproval }: RetirementStatus): string {
  if (waitsFor.length > 0) return `retirement waits ${reportAwaited(waitsFor)}`;
  return waitsForApproval ? 'to be retired, once you agree' : 'to be retired';
}

function needWords(need: Need, { wantedVersion }: DatasetStatus): string {
  switch (need) {
    case 'table':
      return 'to be loaded';
    case 'reload':
      return 'behind: the service asked to load it again';
    case 'resync':
      return 'to be loaded again, as you asked';
    case 'version':
      return `behind: version ${wantedVersion} is out`;
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

/** Every dataset is counted once, by the first of these that it is. */
const STANDINGS: readonly { readonly words: string; readonly counts: (dataset: DatasetStatus) => boolean }[] =
  [
    { words: 'left out', counts: ({ isChosen }) => !isChosen },
    { words: 'suspended', counts: ({ state }) => state === 'suspended' },
    { words: 'failed', counts: ({ state }) => state === 'failed' },
    { words: 'to be retired', counts: ({ retirement }) => retirement !== null },
    { words: 'up to date', counts: ({ need }) => need === 'nothing' },
    { words: 'to be loaded', counts: ({ need }) => need === 'table' },
    { words: 'behind', counts: ({ need }) => need !== null },
    { words: 'not known', counts: () => true },
  ];

/** `9 datasets: 7 up to date, 1 behind, 1 held.` */
function conditionLine(datasets: readonly DatasetStatus[]): string {
  const standings = datasets.map((dataset) => STANDINGS.findIndex(({ counts }) => counts(dataset)));
  const counted = STANDINGS.flatMap(({ words }, index) => {
    const { length } = standings.filter((standing) => standing === index);
    return length === 0 ? [] : [`${formatCount(length)} ${words}`];
  });
  const total = datasets.length === 1 ? '1 dataset' : `${formatCount(datasets.length)} datasets`;
  return `${total}: ${counted.join(', ')}.`;
}
