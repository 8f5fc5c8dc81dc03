/** `status`: what it makes of both stores, and the exact text of it. */

import { describe, expect, it } from 'vitest';
import type { Followed, Hold } from '../../src/checkpoint/checkpoint.ts';
import type { MirrorSeen } from '../../src/cli/mirror-seen.ts';
import { holdOf } from '../../src/cli/status/datasets.ts';
import type { CheckpointContent } from '../../src/cli/status/status.ts';
import { renderStatus } from '../../src/cli/status/text.ts';
import { statusOf } from '../../src/cli/status/view.ts';
import type { Want } from '../../src/model/desired-state.ts';
import { BusyError, type RefusalScope, StorageError } from '../../src/model/errors.ts';
import type { HeldDataset } from '../../src/model/write-jobs.ts';
import { OPERATOR } from '../../src/sync/plan/need.ts';
import { holdStatus } from '../../src/sync/suspensions.ts';
import { followedAt } from '../support/checkpoint-files.ts';
import {
  failure,
  formerMember,
  hold,
  id,
  member,
  membersAt,
  NOW,
  refusal,
  reload,
  table,
  want,
} from '../support/sync-values.ts';

const EARLIER = new Date('2026-02-28T12:00:00.000Z');

function mirrorOf(...tables: readonly HeldDataset[]): MirrorSeen {
  return {
    datasets: new Map(tables.map((held) => [held.datasetId, held])),
    service: null,
    progress: null,
    retired: [],
    freeBytes: 0,
  };
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
    absences: [],
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
  members: new Map(),
  formerMembers: new Map([
    ['sub_1', formerMember({ eventNumber: 7n, reason: 'left_coverage' })],
    ['sub_2', formerMember()],
  ]),
};

/** A want of a subscription that has announced the version. */
function announcing(announced: number, changed: Partial<Want>): Want {
  return want({ members: new Map([['sub_1', member({ announced })]]), ...changed });
}

/** The table was loaded for the resync of this number. */
function resynced(number: bigint): HeldDataset['reloads'] {
  return new Map([[OPERATOR, { logNumber: 1, eventNumber: number, createdAt: null }]]);
}

describe('the state of a dataset', () => {
  it('says what is most pressing', () => {
    const wants = [
      want({ datasetId: 'a-absent' }),
      want({ datasetId: 'b-reload', reloads: [reload(9)], resyncNumber: 8 }),
      announcing(9, { datasetId: 'c-resync', resyncNumber: 9 }),
      announcing(4, { datasetId: 'd-version', looksAsked: 1 }),
      announcing(3, { datasetId: 'e-look', looksAsked: 1 }),
      announcing(3, { datasetId: 'f-current', resyncNumber: 8 }),
    ];
    const tables = wants.slice(1).map(({ datasetId }) => held(datasetId));
    const loaded = tables.map((one) =>
      one.datasetId === 'b-reload' ? one : { ...one, reloads: resynced(8n) },
    );
    const mirror = mirrorOf(...loaded, held('g-unknown'));
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
    const unread = view('busy', content({ wants })).datasets;
    expect(unread.map((one) => [one.isReloadPending, one.isResyncPending])).toEqual(
      wants.map(() => [null, null]),
    );
  });

  it('that is held or failed says what is to be done besides', () => {
    const wants = [announcing(4, { datasetId: 'failed' }), want({ datasetId: 'held' })];
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
      want({ ...DROPPED, datasetId: 'left', reloads: [reload(9)], resyncNumber: 1, looksAsked: 1 }),
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
        retirement: { reason, waitsForApproval: false, waitsFor: [] },
      },
    ]);
    expect(view(mirrorOf(), checkpoint).datasets).toEqual([]);
    expect(view('busy', checkpoint).datasets).toEqual([]);
  });

  it('that is left out by the settings says so where it has a table, and is counted where it has none', () => {
    const wants = [announcing(9, { datasetId: 'left-out' })];
    const words = 'left out by the settings; its table stays as it is';
    expect(states(mirrorOf(held('left-out')), content({ wants }))).toEqual({ 'left-out': words });
    expect(view(mirrorOf(), content({ wants })).datasets).toMatchObject([{ isChosen: false, need: null }]);
    expect(renderStatus(view(mirrorOf(), content({ wants })), { now: NOW, width: 80 })).toContain(
      '\n1 more dataset is left out by datasets.include and datasets.exclude.\n\n1 dataset: 1 left out.',
    );
  });

  it('that only held subscriptions hold is held with them', () => {
    const wants = [want({ datasetId: 'a', members: membersAt('sub_1', 'sub_2') }), want({ datasetId: 'b' })];
    const holds = [hold({ kind: 'subscription', subscriptionId: 'sub_1' })];
    expect(states(mirrorOf(held('a'), held('b')), content({ wants, holds }))).toEqual({
      a: 'up to date',
      b: 'held with its subscription; up to date',
    });
  });

  describe('whose retirement waits', () => {
    const left = want({ ...DROPPED, datasetId: 'left' });
    const reason = 'left subscription sub_1: left_coverage, left subscription sub_2';
    const followed = new Map(
      ['sub_1', 'sub_2'].map((one) => [one, followedAt(null, { subscriptionId: one })]),
    );
    const seenBy = (...subscriptionIds: readonly string[]): MirrorSeen => ({
      datasets: new Map([['left', held('left')]]),
      service: { origin: 'https://feed.example', subscriptionIds },
      progress: null,
      retired: [],
      freeBytes: 0,
    });
    const waitsFor = (mirror: MirrorSeen, checkpoint: CheckpointContent) =>
      view(mirror, checkpoint).datasets.map(({ retirement }) => retirement?.waitsFor);
    const suspension = hold({ kind: 'subscription', subscriptionId: 'sub_2' });

    it('W16 names the suspended subscription that contained it, and does not promise that a catch-up helps', () => {
      const checkpoint = content({ wants: [left], followed, holds: [suspension] });
      const mirror = seenBy('sub_1', 'sub_2');
      expect(states(mirror, checkpoint)).toEqual({
        left: `retirement waits for subscription sub_2, which is suspended: ${reason}`,
      });
      expect(waitsFor(mirror, checkpoint)).toEqual([[{ subscriptionId: 'sub_2', reason: 'suspended' }]]);
      const text = renderStatus(view(mirror, checkpoint), { now: NOW, width: 400 });
      expect(text).toContain('→ Once you have acted on it: feed-sync resume --subscription sub_2');
      expect(text).not.toContain('feed-sync once');
      const free = content({ wants: [left], followed });
      expect(waitsFor(mirror, free)).toEqual([[]]);
      expect(renderStatus(view(mirror, free), { now: NOW, width: 400 })).toContain('→ feed-sync once');
    });

    it('W16 does not name a suspended subscription that is followed and never contained it', () => {
      const own = { ...left, formerMembers: new Map([['sub_1', formerMember()]]) };
      const checkpoint = content({ wants: [own], followed, holds: [suspension] });
      expect(waitsFor(seenBy('sub_1', 'sub_2'), checkpoint)).toEqual([[]]);
    });

    it('W16 names subscriptions that were never read: a suspended one, and those that only the mirror knows', () => {
      const third = hold({ kind: 'subscription', subscriptionId: 'sub_3' });
      const checkpoint = content({ wants: [left], followed, holds: [third], forgotten: ['sub_5'] });
      const mirror = seenBy('sub_1', 'sub_2', 'sub_4', 'sub_5');
      expect(states(mirror, checkpoint)).toEqual({
        left:
          'retirement waits for subscription sub_3, which is suspended, and for subscription sub_4, ' +
          `whose log was not read to its end since the dataset left: ${reason}`,
      });
      expect(waitsFor(mirror, checkpoint)).toEqual([
        [
          { subscriptionId: 'sub_3', reason: 'suspended' },
          { subscriptionId: 'sub_4', reason: 'log-unread' },
        ],
      ]);
    });

    it.each([
      ['that the service did not list', 'subscription', 'log-unread'],
      ['whose log may have begun anew', 'log', 'log-in-doubt'],
    ] as const)(
      'W16 names a subscription %s: the next catch-up may be able to read it',
      (_, kind, reason) => {
        const subject = { kind, subscriptionId: 'sub_2' } as const;
        const checkpoint = content({ wants: [left], followed, absences: [{ subject, since: NOW }] });
        const mirror = seenBy('sub_1', 'sub_2');
        expect(waitsFor(mirror, checkpoint)).toEqual([[{ subscriptionId: 'sub_2', reason }]]);
        expect(renderStatus(view(mirror, checkpoint), { now: NOW, width: 400 })).toContain(
          '→ feed-sync once',
        );
      },
    );

    it('W16 is not among those that an operator is asked to agree to', () => {
      const holds = [suspension, ours({ kind: 'retirement' }, 'mass_retirement')];
      const checkpoint = content({ wants: [left], followed, holds });
      expect(view(seenBy('sub_1', 'sub_2'), checkpoint).datasets).toMatchObject([
        { retirement: { waitsForApproval: false, waitsFor: [{ subscriptionId: 'sub_2' }] } },
      ]);
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
  const followed = (subscriptionId: string, changed: Partial<Followed> = {}) =>
    [
      subscriptionId,
      followedAt(id(7), { subscriptionId, name: 'Parcels', cursorAt: EARLIER, ...changed }),
    ] as const;
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
      followed('sub_1'),
      followed('sub_2', { name: null, quietReadAt: NOW }),
      followed('sub_3', { cursor: null }),
    ]),
    forgotten: ['sub_4'],
    wants: [announcing(4, {}), announcing(3, { datasetId: 'roads' })],
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

describe('F55 what is absent without an event that says so', () => {
  const since = NOW;
  const absences: CheckpointContent['absences'] = [
    { subject: { kind: 'version', datasetId: 'roads', version: 4 }, since },
    { subject: { kind: 'table', datasetId: 'zoning' }, since },
    { subject: { kind: 'subscription', subscriptionId: 'sub_3' }, since },
    { subject: { kind: 'member', subscriptionId: 'sub_1', datasetId: 'par\u001bcels' }, since },
    { subject: { kind: 'log', subscriptionId: 'sub_2' }, since },
  ];

  it('is told with since when it is, and after when that is confirmed', () => {
    const text = renderStatus(view(mirrorOf(), content({ absences })), { now: NOW, width: 80 });
    const [, told] = text.split('\n\n');
    expect(told).toBe(
      [
        'The newest event that was read is absent from the log of subscription sub_2 since 2026-03-01 12:00 UTC, confirmed after 2026-03-01 12:10 UTC.',
        'Dataset par\\u001bcels is absent from subscription sub_1 since 2026-03-01 12:00 UTC, confirmed after 2026-03-01 12:10 UTC.',
        'Subscription sub_3 is absent from the list of subscriptions since 2026-03-01 12:00 UTC, confirmed after 2026-03-01 12:10 UTC.',
        'Dataset zoning, which has a table, is absent from every subscription since 2026-03-01 12:00 UTC, confirmed after 2026-03-01 12:10 UTC.',
        'Version 4 of dataset roads is absent from the list of versions since 2026-03-01 12:00 UTC, confirmed after 2026-03-01 13:00 UTC.',
      ].join('\n'),
    );
    expect(renderStatus(view(mirrorOf(), content()), { now: NOW, width: 80 })).not.toContain('absent');
  });

  it('is told to programs with all that names it, and changes nothing of how datasets stand', () => {
    const wants = [want({ datasetId: 'roads' })];
    const seen = view(mirrorOf(held('roads')), content({ wants, absences }));
    expect(seen.absences.at(-1)).toEqual({
      kind: 'version',
      subscriptionId: null,
      datasetId: 'roads',
      version: 4,
      since: '2026-03-01T12:00:00.000Z',
      confirmedAfter: '2026-03-01T13:00:00.000Z',
    });
    expect(seen.datasets).toEqual(view(mirrorOf(held('roads')), content({ wants })).datasets);
  });
});

it('a refusal of the workspace holds every subscription', () => {
  const followed = new Map([['s', followedAt(null)]]);
  const checkpoint = content({ followed, holds: [hold({ kind: 'workspace' })] });
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

describe('a mirror that cannot be used', () => {
  it('is told line by line, with what to do', () => {
    const trouble = new StorageError('The mirror /m cannot be used: the first line.\nThe second\u001b.', {
      hint: 'Look at /m.',
    });
    const lines = renderStatus(view(trouble, null), { now: NOW, width: 400 }).split('\n');
    expect(lines.slice(1)).toEqual([
      'The mirror /m cannot be used: the first line.',
      'The second\\u001b. What it has is not shown.',
      '→ Look at /m.',
    ]);
    expect(view(trouble, null).mirror).toMatchObject({ state: 'unusable', hint: 'Look at /m.' });
  });
});
