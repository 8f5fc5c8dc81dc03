/** `status`: what it makes of both stores, and the exact text of it. */

import { describe, expect, it } from 'vitest';
import type { Hold } from '../../src/checkpoint/checkpoint.ts';
import type { MirrorSeen } from '../../src/cli/mirror-seen.ts';
import { renderStatus } from '../../src/cli/status-text.ts';
import { holdOf, holdStatus } from '../../src/cli/status-troubles.ts';
import { type CheckpointContent, statusOf } from '../../src/cli/status-view.ts';
import type { HeldDataset } from '../../src/destination/destination.ts';
import type { RefusalScope } from '../../src/model/errors.ts';
import type { Want } from '../../src/model/want.ts';
import { failure, hold, id, NOW, refusal, table, want } from '../support/sync-values.ts';

const EARLIER = new Date('2026-02-28T12:00:00.000Z');

function mirrorOf(...tables: readonly HeldDataset[]): MirrorSeen {
  return { datasets: new Map(tables.map((held) => [held.datasetId, held])), service: null };
}

function held(datasetId: string, changed: Partial<HeldDataset> = {}): HeldDataset {
  return table(3, { datasetId, tableName: datasetId, publishedAt: EARLIER, ...changed });
}

function content({
  wants = [],
  ...changed
}: Partial<Omit<CheckpointContent, 'wants'>> & { wants?: readonly Want[] } = {}): CheckpointContent {
  return {
    followed: new Map(),
    forgotten: [],
    holds: [],
    failures: new Map(),
    wants: new Map(wants.map((one) => [one.datasetId, one])),
    ...changed,
  };
}

function view(mirror: MirrorSeen, checkpoint: CheckpointContent | null) {
  return statusOf({
    dataDirectory: '/data',
    mirrorPath: '/data/mirror.duckdb',
    runningInstance: null,
    mirror,
    checkpoint,
  });
}

/** The lines of the table of datasets, by dataset, from the state on. */
function states(mirror: MirrorSeen, checkpoint: CheckpointContent | null): Readonly<Record<string, string>> {
  const lines = renderStatus(view(mirror, checkpoint)).split('\n');
  const title = lines.find((line) => line.startsWith('dataset')) ?? '';
  const start = title.indexOf('state');
  const rows = lines.slice(lines.indexOf(title) + 2);
  const end = rows.indexOf('');
  return Object.fromEntries(
    rows.slice(0, end < 0 ? rows.length : end).map((row) => [row.split(' ')[0], row.slice(start)]),
  );
}

function ours(scope: RefusalScope, code: string): Hold {
  const changed = { status: null, code, message: 'Why.', links: new Map() };
  return { ...hold(), refusal: refusal(scope, changed).refusal };
}

const DROPPED = {
  members: new Set<string>(),
  formerMembers: new Map([
    ['sub_1', 7n],
    ['sub_2', null],
  ]),
  removalReasons: new Map([['sub_1', 'left_coverage']]),
};

describe('the state of a dataset', () => {
  it('says what is most pressing', () => {
    const wants = [
      want({ datasetId: 'a-absent' }),
      want({ datasetId: 'b-reload', reloadAfter: new Map([['sub_1', 9n]]), resyncsAsked: 1 }),
      want({ datasetId: 'c-resync', resyncsAsked: 2, resyncsDone: 1, atLeastVersion: 9 }),
      want({ datasetId: 'd-version', atLeastVersion: 4, looksAsked: 1 }),
      want({ datasetId: 'e-look', atLeastVersion: 3, looksAsked: 1 }),
      want({ datasetId: 'f-current', atLeastVersion: 3, resyncsAsked: 1, resyncsDone: 1 }),
    ];
    const mirror = mirrorOf(...wants.slice(1).map(({ datasetId }) => held(datasetId)), held('g-unknown'));
    expect(states(mirror, content({ wants }))).toEqual({
      'a-absent': 'to be loaded',
      'b-reload': 'behind: the service asked to load it again',
      'c-resync': 'to be loaded again, as you asked',
      'd-version': 'behind: version 4 is out',
      'e-look': 'to be looked at',
      'f-current': 'up to date',
      'g-unknown': 'not known to the checkpoint',
    });
    const seen = view(mirror, content({ wants })).datasets;
    expect(seen.filter((one) => one.isReloadPending).map((one) => one.id)).toEqual(['b-reload']);
    expect(seen.filter((one) => one.isResyncPending).map((one) => one.id)).toEqual(['b-reload', 'c-resync']);
    expect(seen.filter((one) => one.isLookPending).map((one) => one.id)).toEqual(['d-version', 'e-look']);
  });

  it('that is held or failed says what is to be done besides', () => {
    const wants = [want({ datasetId: 'failed', atLeastVersion: 4 }), want({ datasetId: 'held' })];
    const checkpoint = content({
      wants,
      holds: [hold({ kind: 'dataset', datasetId: 'held' })],
      failures: new Map([['failed', failure({ datasetId: 'failed' })]]),
    });
    const known = { failed: 'failed; behind: version 4 is out', held: 'held; up to date' };
    expect(states(mirrorOf(held('failed'), held('held')), checkpoint)).toEqual(known);
    expect(states('busy', checkpoint)).toEqual({ failed: 'failed', held: 'held' });
    expect(states('busy', content({ wants }))).toEqual({ failed: 'not known', held: 'not known' });
  });

  it('that no subscription holds: to be retired while it has a table, and then no more', () => {
    const wants = [
      want({ ...DROPPED, datasetId: 'left', resyncsAsked: 1, looksAsked: 1, atLeastVersion: 9 }),
    ];
    const checkpoint = content({ wants });
    const reason = 'left subscription sub_1: left_coverage, left subscription sub_2';
    expect(states(mirrorOf(held('left')), checkpoint)).toEqual({ left: `to be retired: ${reason}` });
    expect(view(mirrorOf(held('left')), checkpoint).datasets).toMatchObject([
      {
        state: 'retired',
        need: null,
        subscriptions: [],
        isReloadPending: false,
        isResyncPending: false,
        isLookPending: false,
        retirement: { reason, waitsForApproval: false },
      },
    ]);
    expect(view(mirrorOf(), checkpoint).datasets).toEqual([]);
    expect(view('busy', checkpoint).datasets).toEqual([]);
  });

  it('that waits for approval says so, until it is given', () => {
    const approved = want({ ...DROPPED, datasetId: 'approved', retirementApproved: true });
    const waiting = want({ ...DROPPED, datasetId: 'waiting' });
    const checkpoint = content({
      wants: [approved, waiting],
      holds: [ours({ kind: 'retirement' }, 'mass_retirement')],
    });
    expect(states(mirrorOf(held('approved'), held('waiting')), checkpoint)).toEqual({
      approved: 'to be retired: left subscription sub_1: left_coverage, left subscription sub_2',
      waiting:
        'to be retired, once you agree: left subscription sub_1: left_coverage, left subscription sub_2',
    });
  });
});

it('the text of all that can be in the way', () => {
  const subscription = { subscriptionId: 'sub_1', name: 'Parcels', cursor: id(7), cursorAt: EARLIER };
  const checkpoint = content({
    followed: new Map([
      ['sub_1', { ...subscription, quietReadAt: null }],
      ['sub_2', { ...subscription, subscriptionId: 'sub_2', name: null, quietReadAt: NOW }],
      ['sub_3', { ...subscription, subscriptionId: 'sub_3', cursor: null, quietReadAt: null }],
    ]),
    forgotten: ['sub_4'],
    wants: [want({ atLeastVersion: 4 }), want({ datasetId: 'roads', atLeastVersion: 3 })],
    holds: [
      ours({ kind: 'subscription', subscriptionId: 'sub_3' }, 'subscription_missing'),
      ours({ kind: 'retirement' }, 'mass_retirement'),
      hold(),
    ],
    failures: new Map([['roads', failure({ datasetId: 'roads', attempts: 2, hint: 'Tell the service.' })]]),
  });
  expect(renderStatus(view(mirrorOf(held('parcels'), held('roads')), checkpoint))).toBe(
    [
      'Data directory /data. No instance is running.',
      'The mirror is /data/mirror.duckdb.',
      '',
      'subscription  name     read up to  at                        state',
      '─'.repeat(120),
      'sub_1         Parcels  evt_7       2026-02-28T12:00:00.000Z  followed',
      'sub_2                  evt_7       2026-02-28T12:00:00.000Z  quiet: nothing newer in its log at 2026-03-01T12:00:00.000Z',
      'sub_3         Parcels  its start   2026-02-28T12:00:00.000Z  held',
      '',
      'Forgotten at the next catch-up: sub_4.',
      '',
      'dataset  table    version  wanted  rows  published                 state',
      '─'.repeat(97),
      'parcels  parcels        3       4    10  2026-02-28T12:00:00.000Z  held; behind: version 4 is out',
      'roads    roads          3       3    10  2026-02-28T12:00:00.000Z  failed; up to date',
      '',
      'Subscription sub_3 is held (subscription_missing): Why.',
      '→ When it is there again: feed-sync resume --subscription sub_3',
      '→ To give it up, and retire what only it holds: feed-sync forget --subscription sub_3',
      '  held since 2026-03-01T12:00:00.000Z; what is mirrored stays as it is until then.',
      '',
      'The retirement of datasets is held (mass_retirement): Why.',
      '→ Where that is right: feed-sync resume --retire',
      '  held since 2026-03-01T12:00:00.000Z; what is mirrored stays as it is until then.',
      '',
      'The service refused to list versions (403 outside_coverage).',
      '  It says: The county is not covered.',
      '  coverage: https://app.example/coverage',
      '→ Once you have acted on it: feed-sync resume --dataset parcels',
      '  held since 2026-03-01T12:00:00.000Z; nothing more is asked of the service for it until then.',
      '',
      'Failed: roads (2 times, last at 2026-03-01T12:00:00.000Z; tried again after 2026-03-01T12:01:00.000Z)',
      '  The file is broken.',
      '  → Tell the service.',
      '  → To have it tried at the next catch-up: feed-sync resume --dataset roads',
    ].join('\n'),
  );
});

it('a refusal of the workspace holds every subscription', () => {
  const followed = { subscriptionId: 's', name: null, cursor: null, cursorAt: NOW, quietReadAt: null };
  const checkpoint = content({ followed: new Map([['s', followed]]), holds: [hold({ kind: 'workspace' })] });
  expect(view(null, checkpoint).subscriptions).toMatchObject([{ id: 's', isHeld: true }]);
});

it('a hold is told in the same words from its data for programs', () => {
  const scopes: readonly RefusalScope[] = [
    { kind: 'workspace' },
    { kind: 'subscription', subscriptionId: 's' },
    { kind: 'dataset', datasetId: 'd' },
    { kind: 'retirement' },
  ];
  for (const scope of scopes) {
    const { refusal: stored, heldAt } = hold(scope);
    expect(holdOf(holdStatus(hold(scope)))).toEqual({ refusal: stored, heldAt });
  }
});
