/** What a person reads of a dry run: the exact text; and the numbers that programs get. */

import { expect, it } from 'vitest';
import { dryRunOf, type Foretold, renderDryRun } from '../../src/cli/render/dry-run.ts';
import { ServiceUnavailableError } from '../../src/model/errors.ts';
import type { CatchUpResult, DatasetResult } from '../../src/sync/result.ts';
import type { SimulatedOutcome } from '../../src/sync/simulate.ts';
import { NOW, suspension } from '../support/sync-values.ts';

const LOAD: SimulatedOutcome = {
  kind: 'load',
  fromVersion: 1,
  toVersion: 7,
  why: 'version 7 asks for the snapshot',
  rows: 2_000_000,
  bytes: 52_000_000,
  requests: 3,
};
const APPLY: SimulatedOutcome = {
  kind: 'apply',
  fromVersion: 7,
  toVersion: 9,
  versions: 2,
  addsColumns: true,
  rows: 120,
  requests: 2,
};
const RETIRE: SimulatedOutcome = {
  kind: 'retire',
  fromVersion: 4,
  how: 'archive',
  why: 'left subscription sub_1',
};

function foretold(
  steps: Record<string, readonly SimulatedOutcome[]>,
  datasets: readonly DatasetResult[],
  changed: Partial<CatchUpResult> = {},
): Foretold {
  const result = {
    subscriptions: 1,
    datasets,
    incidents: [],
    suspensions: [],
    again: null,
    durationMs: 1,
    ...changed,
  };
  const disk = { freeBytes: 4_000_000_000, reserveBytes: 1_000_000_000 };
  return { result, steps: new Map(Object.entries(steps)), disk };
}

function textOf(reported: Foretold): string {
  return renderDryRun(dryRunOf(reported), reported, 200);
}

const current = (datasetId: string): DatasetResult => ({
  datasetId,
  commits: [],
  kind: 'current',
  recheckAt: null,
});
const updated = (datasetId: string): DatasetResult => ({
  datasetId,
  commits: [],
  kind: 'updated',
  recheckAt: null,
});

it('of work of every kind', () => {
  const unknown = { ...LOAD, fromVersion: null, rows: null, bytes: null, why: 'there is no table yet' };
  const reported = foretold({ parcels: [LOAD, APPLY], permits: [RETIRE], roads: [unknown] }, [
    updated('parcels'),
    { datasetId: 'permits', commits: [], kind: 'retired', table: null },
    updated('roads'),
    {
      datasetId: 'sewers',
      commits: [],
      kind: 'waiting',
      why: 'no manifest that was read lists it',
      until: null,
      awaited: [],
    },
    current('zoning'),
  ]);
  expect(textOf(reported)).toBe(
    [
      'This is what feed-sync once would do now. Nothing was changed.',
      '',
      'dataset  what would be done',
      '─'.repeat(183),
      'parcels  load version 7 in place of version 1 (2,000,000 rows, 52.0 MB), because version 7 asks for the snapshot; then apply 2 versions, from 7 to 9 (120 changed rows), adding columns',
      'permits  move its table to the schema archived (left subscription sub_1)',
      'roads    load version 7 (of unknown size), because there is no table yet',
      'sewers   wait: no manifest that was read lists it',
      '',
      '5 datasets: 3 with work to do, 1 up to date, 1 waiting. 52.0 MB of snapshots and 1 snapshot of unknown size, 2,000,120 rows, 8 requests.',
      'Disk: about 104.0 MB are needed; 4.0 GB are free, 1.0 GB of them to be kept so (disk.reserve).',
    ].join('\n'),
  );
  expect(dryRunOf(reported)).toMatchObject({
    totals: { downloadBytes: 52_000_000, snapshotsOfUnknownSize: 1, rows: 2_000_120, requests: 8 },
    disk: { neededBytes: 104_000_000, isEnough: true },
    datasets: [
      { id: 'parcels', steps: [LOAD, APPLY], ending: 'updated', why: null },
      {},
      {},
      { ending: 'waiting' },
      {},
    ],
  });
});

it('of nothing to do', () => {
  expect(textOf(foretold({}, [current('parcels')]))).toBe(
    ['This is what feed-sync once would do now. Nothing was changed.', '', '1 dataset: 1 up to date.'].join(
      '\n',
    ),
  );
});

it('of more than the disk holds says what to do', () => {
  const reported = foretold({ parcels: [{ ...LOAD, bytes: 1_600_000_000 }] }, [updated('parcels')]);
  expect(dryRunOf(reported).disk.isEnough).toBe(false);
  expect(textOf(reported)).toContain(
    'Disk: about 3.2 GB are needed, and only 4.0 GB are free, 1.0 GB of them to be kept so (disk.reserve).\n→ Free some space',
  );
});

it('of what is in the way tells it as a catch-up does', () => {
  const reported = foretold(
    {},
    [{ datasetId: 'parcels', commits: [], kind: 'suspended', suspension: suspension() }],
    {
      suspensions: [suspension({ kind: 'subscription', subscriptionId: 'sub_2' })],
      incidents: [{ subscriptionId: 'sub_1', error: new ServiceUnavailableError('The log cannot be read.') }],
    },
  );
  const text = textOf(reported);
  expect(text).toContain('parcels  nothing: it is suspended\n\nThe service refused to list versions');
  expect(text).toContain('feed-sync resume --subscription sub_2');
  expect(text).toContain('\nSubscription sub_1: The log cannot be read. [service_unavailable]\n');
  expect(dryRunOf(reported)).toMatchObject({
    datasets: [{ ending: 'suspended', suspension: { id: 'parcels', since: NOW.toISOString() } }],
    suspensions: [{ id: 'sub_2' }],
    incidents: [{ subscription: 'sub_1', error: 'service_unavailable', links: {} }],
  });
});
