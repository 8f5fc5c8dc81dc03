/** `status` for people. Pure. */

import { printable } from '../../lib/printable.ts';
import { formatBytes, formatCount } from '../../lib/units.ts';
import { tellMomentFrom } from '../moments.ts';
import { listed, tellHold, tellRetryOfContent } from '../person.ts';
import { absencesText } from './absences.ts';
import { readersText } from './readers.ts';
import type { DatasetStatus, MirrorStatus, Status } from './shape.ts';
import { datasetTable, leftOutLine, type ShownTo, standingLine, subscriptionTable } from './tables.ts';
import { type FailureStatus, holdOf } from './troubles.ts';

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
    ...troubleTexts(status, shownTo),
    datasets.length === 0 ? null : [standingLine(datasets), ...nextCommand(status)].join('\n'),
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
    busy: `${printable(mirror.trouble ?? 'The mirror was not looked at yet.')} What it has is not shown.\n→ Try again in a moment.`,
    unusable: `${printable(mirror.trouble ?? '')} What it has is not shown.`,
  };
  return [`Data directory ${dataDirectory}. ${instance}`, states[mirror.state], ...heldLine(mirror)].join(
    '\n',
  );
}

/** Who a commit waits for. */
function heldLine({ heldBy }: MirrorStatus): readonly string[] {
  if (heldBy.length === 0) return [];
  const who = listed(heldBy.map((pid) => `process ${pid}`));
  return [`The mirror is held by ${who}. A commit waits for that up to lock.wait.`];
}

function presentLines({ path, bytes, freeBytes, isWorthCompacting }: MirrorStatus): string {
  const line = `The mirror is ${path} (${formatBytes(bytes)}).`;
  if (isWorthCompacting !== true) return line;
  const won = `${formatBytes(freeBytes ?? 0)} of it hold nothing`;
  return `${line}\n→ ${won}. To give them back, while no instance is running: feed-sync compact`;
}

/** What is in the way, once each: a hold of a subscription is not told again with its datasets. */
function troubleTexts({ holds, datasets }: Status, { now }: ShownTo): readonly string[] {
  const held = [...holds, ...datasets.flatMap(({ hold }) => hold ?? [])];
  const failed = datasets.flatMap(({ id, failure }) =>
    failure === null ? [] : [failureText(id, failure, now)],
  );
  return [...held.map((hold) => tellHold(holdOf(hold))), ...failed];
}

function failureText(id: string, failure: FailureStatus, now: Date): string {
  const { message, hint, attempts, failedAt, retryAt, isOfContent } = failure;
  const times = attempts === 1 ? '' : ` ${formatCount(attempts)} times, last`;
  return [
    `Dataset ${printable(id)} failed${times} at ${tellMomentFrom(now, failedAt)}:`,
    ...message.split('\n').map((line) => `  ${printable(line)}`),
    ...(hint === null ? [] : [`→ ${printable(hint)}`]),
    isOfContent
      ? tellRetryOfContent(id, tellMomentFrom(now, retryAt))
      : '→ The next catch-up tries it again.',
  ].join('\n');
}

/** Where something is to be done that waits for nothing but a catch-up. A running instance comes to it by itself. */
function nextCommand({ datasets, runningInstance }: Status): readonly string[] {
  const isDue = datasets.some(isDueAtNextCatchUp);
  return isDue && runningInstance === null ? ['→ feed-sync once'] : [];
}

function isDueAtNextCatchUp({ state, need, retirement, isChosen }: DatasetStatus): boolean {
  if (!isChosen || state === 'held') return false;
  if (retirement !== null) {
    const { waitsFor, waitsForApproval } = retirement;
    return !waitsForApproval && waitsFor.every(({ reason }) => reason !== 'suspended');
  }
  return need !== null && need !== 'nothing';
}
