/** `status` for people. Pure. */

import { formatCount } from '../lib/units.ts';
import type { DatasetStatus, HoldStatus, Status } from './status-view.ts';
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
  const held = [...holds, ...datasets.flatMap(({ hold }) => hold ?? [])].flatMap(holdLines);
  const failed = datasets.flatMap(({ id, failure }) =>
    failure === null
      ? []
      : [
          '',
          `Failed: ${printable(id)} (${failure.attempts} times, last at ${failure.failedAt}; tried again after ${failure.retryAt})`,
          ...failure.message.split('\n').map((line) => `  ${printable(line)}`),
          ...(failure.hint === null ? [] : [`  → ${printable(failure.hint)}`]),
        ],
  );
  return [...held, ...failed];
}

function holdLines({
  scope,
  id,
  operation,
  status,
  code,
  message,
  links,
  since,
}: HoldStatus): readonly string[] {
  const what = id === null ? 'the workspace' : `${scope} ${printable(id)}`;
  const option = id === null ? '--workspace' : `--${scope} ${printable(id)}`;
  return [
    '',
    `Held since ${since}: ${what}. The service refused to ${operation} (${status} ${printable(code ?? '')}).`,
    `  It says: ${printable(message)}`,
    ...Object.entries(links).map(([name, url]) => `  ${printable(name)}: ${printable(url)}`),
    `  → Once you have acted on it: feed-sync resume ${option}`,
  ];
}
