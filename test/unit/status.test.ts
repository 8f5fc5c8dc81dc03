/** `status`: what it makes of both stores, and the exact text of it. */

import { describe, expect, it } from 'vitest';
import type { Hold } from '../../src/checkpoint/checkpoint.ts';
import type { MirrorSeen } from '../../src/cli/mirror-seen.ts';
import type { CheckpointContent } from '../../src/cli/status/checkpoint-content.ts';
import { renderStatus } from '../../src/cli/status/text.ts';
import { holdOf } from '../../src/cli/status/troubles.ts';
import { statusOf } from '../../src/cli/status/view.ts';
import type { HeldDataset } from '../../src/destination/destination.ts';
import { BusyError, type RefusalScope } from '../../src/model/errors.ts';
import type { Want } from '../../src/model/want.ts';
import { holdStatus } from '../../src/sync/hold-status.ts';
import { failure, hold, id, NOW, refusal, table, want } from '../support/sync-values.ts';

const EARLIER = new Date('2026-02-28T12:00:00.000Z');

function mirrorOf(...tables: readonly HeldDataset[]): MirrorSeen {
  return { datasets: new Map(tables.map((held) => [held.datasetId, held])), service: null, freeBytes: 0 };
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

function view(mirror: MirrorSeen, checkpoint: CheckpointContent | null, heldBy: readonly number[] = []) {
  return statusOf({
    dataDirectory: '/data',
    mirrorPath: '/data/mirror.duckdb',
    runningInstance: null,
    mirror,
    mirrorBytes: 12_600_000,
    heldBy,
    readers: { copy: null, hook: null },
    checkpoint,
    isChosen: (datasetId) => datasetId !== 'left-out',
  });
}

/** The lines of the table of datasets, by dataset, from the state on. */
function states(mirror: MirrorSeen, checkpoint: CheckpointContent | null): Readonly<Record<string, string>> {
  const lines = renderStatus(view(mirror, checkpoint), { now: NOW, width: 400 }).split('\n');
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
      'e-look': 'behind: to be looked at',
      'f-current': 'up to date',
      'g-unknown': 'no subscription is known to hold it',
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

  it('that is left out by the settings says so where it has a table, and is counted where it has none', () => {
    const wants = [want({ datasetId: 'left-out', atLeastVersion: 9 })];
    const words = 'left out by the settings; its table stays as it is';
    expect(states(mirrorOf(held('left-out')), content({ wants }))).toEqual({ 'left-out': words });
    expect(view(mirrorOf(), content({ wants })).datasets).toMatchObject([{ isChosen: false, need: null }]);
    expect(renderStatus(view(mirrorOf(), content({ wants })), { now: NOW, width: 80 })).toContain(
      '\n1 more dataset is left out by datasets.include and datasets.exclude.\n\n1 dataset: 1 left out.',
    );
  });

  it('that only held subscriptions hold is held with them', () => {
    const wants = [want({ datasetId: 'a', members: new Set(['sub_1', 'sub_2']) }), want({ datasetId: 'b' })];
    const holds = [hold({ kind: 'subscription', subscriptionId: 'sub_1' })];
    expect(states(mirrorOf(held('a'), held('b')), content({ wants, holds }))).toEqual({
      a: 'up to date',
      b: 'held with its subscription; up to date',
    });
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
  const retryAt = new Date(NOW.getTime() + 24 * 3_600_000);
  const broken = failure({
    datasetId: 'roads',
    attempts: 2,
    hint: 'Tell the service.',
    contents: ['v4'],
    retryAt,
  });
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
    failures: new Map([['roads', broken]]),
  });
  expect(
    renderStatus(view(mirrorOf(held('parcels'), held('roads')), checkpoint), { now: NOW, width: 400 }),
  ).toBe(
    [
      'Data directory /data. No instance is running.',
      'The mirror is /data/mirror.duckdb (12.6 MB).',
      '',
      'subscription  name     last event  read                              state',
      '─'.repeat(128),
      'sub_1         Parcels  evt_7       2026-02-28 12:00 UTC (1 day ago)  1 dataset is behind',
      'sub_2                  evt_7       2026-02-28 12:00 UTC (1 day ago)  up to date; no event for longer than the service keeps them',
      'sub_3         Parcels  none yet    2026-02-28 12:00 UTC (1 day ago)  missing',
      '',
      'Forgotten at the next catch-up: sub_4.',
      '',
      'dataset  version  rows  published (UTC)   table    state',
      '─'.repeat(81),
      'parcels        3    10  2026-02-28 12:00  parcels  held; behind: version 4 is out',
      'roads          3    10  2026-02-28 12:00  roads    failed; up to date',
      '',
      'Subscription sub_3 is held (subscription_missing): Why.',
      '  Held since 2026-03-01 12:00 UTC; until you have acted, what is mirrored stays as it is.',
      '→ When it is there again: feed-sync resume --subscription sub_3',
      '→ To give it up, and retire what only it holds: feed-sync forget --subscription sub_3',
      '',
      'The retirement of datasets is held (mass_retirement): Why.',
      '  Held since 2026-03-01 12:00 UTC; until you have acted, what is mirrored stays as it is.',
      '→ Where that is right: feed-sync resume --retire',
      '',
      'The service refused to list versions (403 outside_coverage).',
      '  It says: The county is not covered.',
      '  coverage: https://app.example/coverage',
      '  Held since 2026-03-01 12:00 UTC; until you have acted, nothing more is asked of the service for it.',
      '→ Once you have acted on it: feed-sync resume --dataset parcels',
      '',
      'Dataset roads failed 2 times, last at 2026-03-01 12:00 UTC (just now):',
      '  The file is broken.',
      '→ Tell the service.',
      '→ The same content is not fetched again before 2026-03-02 12:00 UTC (in 1 day), unless you ask: feed-sync resume --dataset roads',
      '',
      '2 datasets: 1 held, 1 failed.',
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

describe('F10 a mirror that others have open', () => {
  const told = (mirror: MirrorSeen, heldBy: readonly number[]) =>
    renderStatus(view(mirror, null, heldBy), { now: NOW, width: 400 });

  it('names them, whether it can be read meanwhile or not', () => {
    expect(told(mirrorOf(), [4_712, 4_713])).toContain(
      'The mirror is held by process 4712, process 4713. A commit waits for that up to lock.wait.',
    );
    expect(told(mirrorOf(), [])).not.toContain('held');
    const busy = new BusyError('The mirror /data/mirror.duckdb is held by the process 4712.');
    expect(told(busy, [4_712])).toContain('is held by the process 4712. What it has is not shown.');
    expect(view(busy, null).mirror).toMatchObject({ state: 'busy', trouble: busy.message, heldBy: [] });
  });
});
