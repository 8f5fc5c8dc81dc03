/** `status` for people. Pure. */

import { unreachable } from '../lib/assert.ts';
import { formatCount } from '../lib/units.ts';
import type { Need } from '../sync/need.ts';
import { listed, tellHold } from './person.ts';
import { type FailureStatus, holdOf } from './status-troubles.ts';
import type { DatasetStatus, Status, SubscriptionStatus } from './status-view.ts';
import { renderTable } from './table.ts';
import { printable } from './terminal.ts';

export function renderStatus(status: Status): string {
  return [
    ...headlines(status),
    ...subscriptionLines(status),
    ...datasetLines(status),
    ...troubleLines(status),
  ].join('\n');
}

function headlines({ dataDirectory, mirror, runningInstance }: Status): readonly string[] {
  const instance =
    runningInstance === null
      ? 'No instance is running.'
      : `Instance ${runningInstance.pid} on ${printable(runningInstance.host)} is running: ${printable(runningInstance.command)}.`;
  const states = {
    present: `The mirror is ${mirror.path}.`,
    absent: `There is no mirror yet at ${mirror.path}. Make it with: feed-sync once`,
    busy: `The mirror ${mirror.path} is being written or held by a reader; what it has is not shown. Try again in a moment.`,
    unusable: `${printable(mirror.trouble ?? '')} What it has is not shown.`,
  };
  return [`Data directory ${dataDirectory}. ${instance}`, states[mirror.state]];
}

function subscriptionLines({ subscriptions, forgottenSubscriptions }: Status): readonly string[] {
  const columns = [
    { title: 'subscription' },
    { title: 'name' },
    { title: 'read up to' },
    { title: 'at' },
    { title: 'state' },
  ];
  const rows = subscriptions.map((subscription) => [
    subscription.id,
    subscription.name ?? '',
    subscription.cursor ?? 'its start',
    subscription.cursorAt,
    subscriptionWords(subscription),
  ]);
  return [
    ...(rows.length === 0 ? [] : ['', renderTable(columns, rows)]),
    ...(forgottenSubscriptions.length === 0
      ? []
      : ['', `Forgotten at the next catch-up: ${listed(forgottenSubscriptions)}.`]),
  ];
}

function subscriptionWords({ isHeld, quietReadAt }: SubscriptionStatus): string {
  const quiet = `quiet: nothing newer in its log at ${quietReadAt}`;
  return [...(isHeld ? ['held'] : []), ...(quietReadAt === null ? [] : [quiet])].join('; ') || 'followed';
}

function datasetLines({ datasets }: Status): readonly string[] {
  if (datasets.length === 0) return [];
  const columns = [
    { title: 'dataset' },
    { title: 'table' },
    { title: 'version', align: 'right' as const },
    { title: 'wanted', align: 'right' as const },
    { title: 'rows', align: 'right' as const },
    { title: 'published' },
    { title: 'state' },
  ];
  const rows = datasets.map((dataset) => [
    dataset.id,
    dataset.table ?? '',
    dataset.version === null ? '' : String(dataset.version),
    dataset.wantedVersion === null ? '' : String(dataset.wantedVersion),
    dataset.rows === null ? '' : formatCount(dataset.rows),
    dataset.publishedAt ?? '',
    stateWords(dataset),
  ]);
  return ['', renderTable(columns, rows)];
}

/** How it stands, and what is to be done; what is to be done is all there is to say of a table that serves. */
function stateWords(dataset: DatasetStatus): string {
  const { state, retirement, need, subscriptions } = dataset;
  if (retirement !== null) {
    const when = retirement.waitsForApproval ? 'to be retired, once you agree' : 'to be retired';
    return `${when}: ${retirement.reason}`;
  }
  if (subscriptions.length === 0) return 'not known to the checkpoint';
  const shown = state === 'live' || state === 'absent' ? [] : [state];
  return [...shown, ...(need === null ? [] : [needWords(need, dataset)])].join('; ') || 'not known';
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
    case 'look':
      return 'to be looked at';
    case 'nothing':
      return 'up to date';
    default:
      return unreachable(need);
  }
}

function troubleLines({ holds, datasets }: Status): readonly string[] {
  const held = [...holds, ...datasets.flatMap(({ hold }) => hold ?? [])];
  const failed = datasets.flatMap(({ id, failure }) => (failure === null ? [] : [failureText(id, failure)]));
  return [...held.map((hold) => tellHold(holdOf(hold))), ...failed].flatMap((text) => ['', text]);
}

function failureText(id: string, { message, hint, attempts, failedAt, retryAt }: FailureStatus): string {
  const times = attempts === 1 ? 'once' : `${formatCount(attempts)} times`;
  return [
    `Failed: ${printable(id)} (${times}, last at ${failedAt}; tried again after ${retryAt})`,
    ...message.split('\n').map((line) => `  ${printable(line)}`),
    ...(hint === null ? [] : [`  → ${printable(hint)}`]),
    `  → To have it tried at the next catch-up: feed-sync resume --dataset ${printable(id)}`,
  ].join('\n');
}
