/** The report of a dry run: the exact text for people, and the numbers for programs. */

import { expect, it } from 'vitest';
import { dryRunOf, renderDryRun } from '../../src/cli/render/dry-run.ts';
import { ServiceUnavailableError } from '../../src/model/errors.ts';
import type { CatchUpResult, DatasetResult, PlannedStep } from '../../src/sync/result.ts';
import { NOW, suspension } from '../support/sync-values.ts';

const LOAD: PlannedStep = {
  kind: 'load',
  fromVersion: 1,
  toVersion: 7,
  why: 'version 7 asks for the snapshot',
  rows: 2_000_000,
  bytes: 52_000_000,
};
const APPLY: PlannedStep = {
  kind: 'apply',
  fromVersion: 7,
  toVersion: 9,
  versions: 2,
  addsColumns: true,
  rows: 120,
};
const RETIRE: PlannedStep = {
  kind: 'retire',
  fromVersion: 4,
  how: 'archive',
  why: 'left subscription sub_1',
};

const DISK = { freeBytes: 4_000_000_000, reserveBytes: 1_000_000_000 };

function resultOf(datasets: readonly DatasetResult[], changed: Partial<CatchUpResult> = {}): CatchUpResult {
  return {
    subscriptions: 1,
    datasets,
    incidents: [],
    suspensions: [],
    again: null,
    durationMs: 1,
    ...changed,
  };
}

function textOf(result: CatchUpResult): string {
  return renderDryRun(dryRunOf(result, DISK), result, 200);
}

const current = (datasetId: string): DatasetResult => ({
  datasetId,
  commits: [],
  kind: 'current',
  recheckAt: null,
});
const planned = (datasetId: string, step: PlannedStep): DatasetResult => ({
  datasetId,
  commits: [],
  kind: 'planned',
  step,
});

it('reports the next step of every kind, with totals', () => {
  const unknown = { ...LOAD, fromVersion: null, rows: null, bytes: null, why: 'there is no table yet' };
  const result = resultOf([
    planned('parcels', LOAD),
    planned('permits', RETIRE),
    planned('roads', unknown),
    planned('signs', APPLY),
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
  expect(textOf(result)).toBe(
    [
      'The next step of feed-sync once for each dataset. Nothing was changed.',
      '',
      'dataset  next step',
      '─'.repeat(112),
      'parcels  load version 7 in place of version 1 (2,000,000 rows, 52.0 MB), because version 7 asks for the snapshot',
      'permits  move its table to the schema archived (left subscription sub_1)',
      'roads    load version 7 (of unknown size), because there is no table yet',
      'signs    apply 2 versions, from 7 to 9 (120 changed rows), adding columns',
      'sewers   wait: no manifest that was read lists it',
      '',
      '6 datasets: 4 with work to do, 1 up to date, 1 waiting. 52.0 MB of snapshots and 1 snapshot of unknown size, 2,000,120 rows.',
      'Disk: about 104.0 MB are needed; 4.0 GB are free, and 1.0 GB of them stay reserved (disk.reserve).',
    ].join('\n'),
  );
  expect(dryRunOf(result, DISK)).toMatchObject({
    totals: { downloadBytes: 52_000_000, snapshotsOfUnknownSize: 1, rows: 2_000_120 },
    disk: { neededBytes: 104_000_000, isEnough: true },
    datasets: [
      { id: 'parcels', result: 'planned', step: LOAD, why: null },
      {},
      {},
      {},
      { result: 'waiting', step: null, why: 'no manifest that was read lists it' },
      {},
    ],
  });
});

it('reports no step where every table is up to date', () => {
  const text =
    'The next step of feed-sync once for each dataset. Nothing was changed.\n\n1 dataset: 1 up to date.';
  expect(textOf(resultOf([current('parcels')]))).toBe(text);
});

it('says what to do where the downloads exceed the free space', () => {
  const result = resultOf([planned('parcels', { ...LOAD, bytes: 1_600_000_000 })]);
  expect(dryRunOf(result, DISK).disk.isEnough).toBe(false);
  expect(textOf(result)).toContain(
    'Disk: about 3.2 GB are needed; only 4.0 GB are free, and 1.0 GB of them stay reserved (disk.reserve).\n→ Free some space',
  );
});

it('explains suspensions and incidents as a catch-up does', () => {
  const result = resultOf(
    [{ datasetId: 'parcels', commits: [], kind: 'suspended', suspension: suspension() }],
    {
      suspensions: [suspension({ kind: 'subscription', subscriptionId: 'sub_2' })],
      incidents: [{ subscriptionId: 'sub_1', error: new ServiceUnavailableError('The log cannot be read.') }],
    },
  );
  const text = textOf(result);
  expect(text).toContain('parcels  nothing: it is suspended\n\nThe service refused to list versions');
  expect(text).toContain('feed-sync resume --subscription sub_2');
  expect(text).toContain('\nSubscription sub_1: The log cannot be read. [service_unavailable]\n');
  expect(dryRunOf(result, DISK)).toMatchObject({
    datasets: [{ result: 'suspended', suspension: { id: 'parcels', since: NOW.toISOString() } }],
    suspensions: [{ id: 'sub_2' }],
    incidents: [{ subscription: 'sub_1', error: 'service_unavailable', links: {} }],
  });
});
