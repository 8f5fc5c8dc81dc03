/** `status` for people. Pure. */

import { formatCount } from '../lib/units.ts';
import type { RefusalScope } from '../model/errors.ts';
import { tellHold } from './person.ts';
import type { DatasetStatus, FailureStatus, HoldStatus, Status } from './status-view.ts';
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

function subscriptionLines({ subscriptions }: Status): readonly string[] {
  if (subscriptions.length === 0) return [];
  const columns = [{ title: 'subscription' }, { title: 'name' }, { title: 'read up to' }, { title: 'at' }];
  const rows = subscriptions.map(({ id, name, cursor, cursorAt }) => [
    id,
    name ?? '',
    cursor ?? 'its start',
    cursorAt,
  ]);
  return ['', renderTable(columns, rows)];
}

function datasetLines({ datasets }: Status): readonly string[] {
  if (datasets.length === 0) return [];
  const columns = [
    { title: 'dataset' },
    { title: 'table' },
    { title: 'version', align: 'right' as const },
    { title: 'rows', align: 'right' as const },
    { title: 'published' },
    { title: 'state' },
  ];
  const rows = datasets.map((dataset) => [
    dataset.id,
    dataset.table ?? '',
    dataset.version === null ? '' : String(dataset.version),
    dataset.rows === null ? '' : formatCount(dataset.rows),
    dataset.publishedAt ?? '',
    stateWords(dataset),
  ]);
  return ['', renderTable(columns, rows)];
}

function stateWords({ state, need, wantedVersion }: DatasetStatus): string {
  if (state !== 'live') return state;
  switch (need) {
    case 'version':
      return `behind: version ${wantedVersion} is out`;
    case 'reload':
      return 'behind: to be reloaded';
    case 'look':
      return 'to be looked at';
    default:
      return 'up to date';
  }
}

function troubleLines({ holds, datasets }: Status): readonly string[] {
  const held = [...holds, ...datasets.flatMap(({ hold }) => hold ?? [])];
  const failed = datasets.flatMap(({ id, failure }) => (failure === null ? [] : [failureText(id, failure)]));
  return [...held.map((hold) => tellHold(asHold(hold))), ...failed].flatMap((text) => ['', text]);
}

function failureText(id: string, { message, hint, attempts, failedAt, retryAt }: FailureStatus): string {
  const times = attempts === 1 ? 'once' : `${formatCount(attempts)} times`;
  return [
    `Failed: ${printable(id)} (${times}, last at ${failedAt}; tried again after ${retryAt})`,
    ...message.split('\n').map((line) => `  ${printable(line)}`),
    ...(hint === null ? [] : [`  → ${printable(hint)}`]),
  ].join('\n');
}

/** As it was stored: a hold is told in the same words wherever it is told. */
function asHold({ scope, id, since, links, ...refusal }: HoldStatus): Parameters<typeof tellHold>[0] {
  return {
    refusal: { ...refusal, scope: scopeOf(scope, id ?? ''), links: new Map(Object.entries(links)) },
    heldAt: new Date(since),
  };
}

function scopeOf(kind: RefusalScope['kind'], id: string): RefusalScope {
  switch (kind) {
    case 'workspace':
      return { kind };
    case 'subscription':
      return { kind, subscriptionId: id };
    case 'dataset':
      return { kind, datasetId: id };
  }
}
