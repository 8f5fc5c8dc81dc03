/** `status`: the report of both stores, and its exact text. */

import { describe, expect, it } from 'vitest';
import type { Followed, Poll, Suspension } from '../../src/checkpoint/checkpoint.ts';
import { judgeStatus } from '../../src/cli/commands/status.ts';
import { renderStatus } from '../../src/cli/render/status.ts';
import type { DesiredState } from '../../src/model/desired-state.ts';
import { BusyError, type RefusalScope, StorageError } from '../../src/model/errors.ts';
import { NEVER_SCRUBBED } from '../../src/model/scrub.ts';
import type { ObservedTable } from '../../src/model/write-jobs.ts';
import { reportOf } from '../../src/reporting/report.ts';
import { type Status, statusJson } from '../../src/reporting/status.ts';
import { type CheckpointContent, type MirrorSeen, NO_CHECKPOINT } from '../../src/reporting/stores.ts';
import { OPERATOR } from '../../src/sync/plan/need.ts';
import { followedAt } from '../support/checkpoint-files.ts';
import { mirrorOf } from '../support/mirror-seen.ts';
import {
  desired,
  failure,
  formerMember,
  id,
  member,
  membersAt,
  NOW,
  refusal,
  reload,
  suspension,
  table,
} from '../support/sync-values.ts';

const EARLIER = new Date('2026-02-28T12:00:00.000Z');

function observed(datasetId: string, changed: Partial<ObservedTable> = {}): ObservedTable {
  return table(3, { datasetId, tableName: datasetId, publishedAt: EARLIER, ...changed });
}

function content({
  desiredStates = [],
  ...changed
}: Partial<Omit<CheckpointContent, 'desiredStates'>> & {
  desiredStates?: readonly DesiredState[];
} = {}): CheckpointContent {
  return {
    ...NO_CHECKPOINT,
    desiredStates: new Map(desiredStates.map((one) => [one.datasetId, one])),
    ...changed,
  };
}

function report(
  mirror: MirrorSeen,
  checkpoint: CheckpointContent | null,
  lockHolders: readonly number[] = [],
): Status {
  const choices = { include: ['*'], exclude: ['left-out'] };
  return {
    ...reportOf({ mirror, checkpoint, choices, keyHash: null }),
    dataDirectory: '/data',
    mirrorFile: { path: '/data/mirror.duckdb', bytes: 12_600_000, lockHolders },
    runningInstance: null,
    leaseHolder: null,
    publishedCopy: null,
    export: null,
    hook: null,
    scrub: checkpoint?.scrub ?? NEVER_SCRUBBED,
  };
}

function view(mirror: MirrorSeen, checkpoint: CheckpointContent | null) {
  return statusJson(report(mirror, checkpoint));
}

/** The lines of the table of datasets, by dataset, from the state on. */
function states(mirror: MirrorSeen, checkpoint: CheckpointContent | null): Readonly<Record<string, string>> {
  const lines = renderStatus(report(mirror, checkpoint), { now: NOW, width: 400 }).split('\n');
  const title = lines.find((line) => line.startsWith('dataset')) ?? '';
  const start = title.indexOf('state');
  const rows = lines.slice(lines.indexOf(title) + 2);
  const end = rows.indexOf('');
  return Object.fromEntries(
    rows.slice(0, end < 0 ? rows.length : end).map((row) => [row.split(' ')[0], row.slice(start)]),
  );
}

function ours(scope: RefusalScope, code: string): Suspension {
  const changed = { status: null, code, message: 'Why.', links: new Map() };
  return { ...suspension(), refusal: refusal(scope, changed).refusal };
}

const DROPPED = {
  members: new Map(),
  formerMembers: new Map([
    ['sub_1', formerMember({ eventNumber: 7n, reason: 'left_coverage' })],
    ['sub_2', formerMember()],
  ]),
};

/** The desired state of a subscription that has announced the version. */
function announcing(announced: number, changed: Partial<DesiredState>): DesiredState {
  return desired({ members: new Map([['sub_1', member({ announced })]]), ...changed });
}

/** The table was loaded for the resync of this number. */
function resynced(number: bigint): ObservedTable['reloads'] {
  return new Map([[OPERATOR, { logNumber: 1, eventNumber: number, createdAt: null }]]);
}

describe('the instance in status', () => {
  const OTHER = 'feed-sync run, process 7 on alpha';
  const here = (isWorking: boolean, standsBy: boolean): Status => ({
    ...report(
      { ...mirrorOf(observed('parcels')), leaseHolder: OTHER },
      content({ desiredStates: [desired({ datasetId: 'roads' })] }),
    ),
    runningInstance: isWorking ? { pid: 8, host: 'beta', command: 'run', standsBy } : null,
    leaseHolder: OTHER,
  });
  const firstLine = (status: Status) => renderStatus(status, { now: NOW, width: 80 }).split('\n')[0];

  it('says for whom the instance of this data directory stands by', () => {
    expect(firstLine(here(true, true))).toBe(
      `Data directory /data. Instance 8 on beta stands by (run): ${OTHER} works on the database.`,
    );
    expect(firstLine(here(true, false))).toBe('Data directory /data. Instance 8 on beta is running: run.');
    expect(statusJson(here(true, true))).toMatchObject({
      runningInstance: { pid: 8, standsBy: true },
      leaseHolder: OTHER,
    });
  });

  it('names the instance of another data directory that works on the database, and advises no catch-up beside it', () => {
    expect(firstLine(here(false, false))).toBe(
      `Data directory /data. No instance is running here: ${OTHER} works on the database.`,
    );
    const advises = (status: Status) =>
      renderStatus(status, { now: NOW, width: 80 }).endsWith('→ feed-sync once');
    expect([advises(here(false, false)), advises({ ...here(false, false), leaseHolder: null })]).toEqual([
      false,
      true,
    ]);
  });
});

describe('the state of a dataset in status', () => {
  it('shows the most urgent state of each dataset', () => {
    const desiredStates = [
      desired({ datasetId: 'a-absent' }),
      desired({ datasetId: 'b-reload', reloads: [reload(9)], resyncNumber: 8 }),
      announcing(9, { datasetId: 'c-resync', resyncNumber: 9 }),
      announcing(4, { datasetId: 'd-version', refreshesRequested: 1 }),
      announcing(3, { datasetId: 'e-refresh', refreshesRequested: 1 }),
      announcing(3, { datasetId: 'f-current', resyncNumber: 8 }),
    ];
    const tables = desiredStates.slice(1).map(({ datasetId }) => observed(datasetId));
    const loaded = tables.map((one) =>
      one.datasetId === 'b-reload' ? one : { ...one, reloads: resynced(8n) },
    );
    const mirror = mirrorOf(...loaded, observed('g-unknown'));
    expect(states(mirror, content({ desiredStates }))).toEqual({
      'a-absent': 'to be loaded',
      'b-reload': 'behind: the service asked to load it again',
      'c-resync': 'to be loaded again, as you asked',
      'd-version': 'behind: version 4 is out',
      'e-refresh': 'behind: versions and schemas to be read',
      'f-current': 'up to date',
      'g-unknown': 'no subscription is known to contain it',
    });
    const seen = view(mirror, content({ desiredStates })).datasets;
    expect(seen.filter((one) => one.isReloadPending).map((one) => one.id)).toEqual(['b-reload']);
    expect(seen.filter((one) => one.isResyncPending).map((one) => one.id)).toEqual(['b-reload', 'c-resync']);
    expect(seen.filter((one) => one.isRefreshPending).map((one) => one.id)).toEqual([
      'd-version',
      'e-refresh',
    ]);
    const unread = view('unread', content({ desiredStates })).datasets;
    expect(unread.map((one) => [one.isReloadPending, one.isResyncPending])).toEqual(
      desiredStates.map(() => [null, null]),
    );
  });

  it('shows what is to be done besides for suspended and failed datasets', () => {
    const desiredStates = [announcing(4, { datasetId: 'failed' }), desired({ datasetId: 'suspended' })];
    const checkpoint = content({
      desiredStates,
      suspensions: [suspension({ kind: 'dataset', datasetId: 'suspended' })],
      failures: new Map([['failed', failure({ datasetId: 'failed' })]]),
    });
    const known = { failed: 'failed; behind: version 4 is out', suspended: 'suspended; up to date' };
    expect(states(mirrorOf(observed('failed'), observed('suspended')), checkpoint)).toEqual(known);
    expect(states('unread', checkpoint)).toEqual({ failed: 'failed', suspended: 'suspended' });
    expect(states('unread', content({ desiredStates }))).toEqual({
      failed: 'not known',
      suspended: 'not known',
    });
  });

  it('shows a dataset without a subscription as to be retired while it has a table', () => {
    const desiredStates = [
      desired({
        ...DROPPED,
        datasetId: 'left',
        reloads: [reload(9)],
        resyncNumber: 1,
        refreshesRequested: 1,
      }),
    ];
    const checkpoint = content({ desiredStates });
    const reason = 'left subscription sub_1: left_coverage, left subscription sub_2';
    expect(states(mirrorOf(observed('left')), checkpoint)).toEqual({ left: `to be retired: ${reason}` });
    expect(view(mirrorOf(observed('left')), checkpoint).datasets).toMatchObject([
      {
        state: 'retired',
        need: null,
        subscriptions: [],
        isReloadPending: false,
        isResyncPending: false,
        isRefreshPending: false,
        retirement: { reason, waitsForApproval: false, waitsFor: [] },
      },
    ]);
    expect(view(mirrorOf(), checkpoint).datasets).toEqual([]);
    expect(view('unread', checkpoint).datasets).toEqual([]);
  });

  it('shows an excluded dataset with a table, and counts the excluded datasets without one', () => {
    const desiredStates = [announcing(9, { datasetId: 'left-out' })];
    const words = 'left out by the settings; its table stays as it is';
    expect(states(mirrorOf(observed('left-out')), content({ desiredStates }))).toEqual({ 'left-out': words });
    expect(view(mirrorOf(), content({ desiredStates })).datasets).toMatchObject([
      { isChosen: false, need: null },
    ]);
    expect(renderStatus(report(mirrorOf(), content({ desiredStates })), { now: NOW, width: 80 })).toContain(
      '\n1 more dataset is left out by datasets.include and datasets.exclude.\n\n1 dataset: 1 left out.',
    );
  });

  it('shows the time of the last poll below its subscription where the screen is too narrow', () => {
    const followed = new Map([['sub_counties', followedAt(id(7), { subscriptionId: 'sub_counties' })]]);
    const success = { at: NOW, process: { command: 'run', pid: 1, host: 'here' } };
    const polls = [{ subscriptionId: 'sub_counties', success, failure: null }];
    const text = renderStatus(report(mirrorOf(), content({ followed, polls })), { now: NOW, width: 60 });
    const table = text.split('\n\n').find((part) => part.startsWith('subscription ')) ?? '';
    expect(table.split('\n').filter(({ length }) => length > 60)).toEqual([]);
    expect(table).toMatch(/\n {2}read: 2\d{3}-/);
  });

  it('shows a dataset as suspended where all of its subscriptions are suspended', () => {
    const desiredStates = [
      desired({ datasetId: 'a', members: membersAt('sub_1', 'sub_2') }),
      desired({ datasetId: 'b' }),
    ];
    const suspensions = [suspension({ kind: 'subscription', subscriptionId: 'sub_1' })];
    expect(states(mirrorOf(observed('a'), observed('b')), content({ desiredStates, suspensions }))).toEqual({
      a: 'up to date',
      b: 'suspended with its subscription; up to date',
    });
  });

  describe('a retirement that waits', () => {
    const left = desired({ ...DROPPED, datasetId: 'left' });
    const reason = 'left subscription sub_1: left_coverage, left subscription sub_2';
    const followed = new Map(
      ['sub_1', 'sub_2'].map((one) => [one, followedAt(null, { subscriptionId: one })]),
    );
    const seenBy = (...subscriptionIds: readonly string[]): MirrorSeen => ({
      ...mirrorOf(observed('left')),
      service: { origin: 'https://feed.example', subscriptionIds },
    });
    const waitsFor = (mirror: MirrorSeen, checkpoint: CheckpointContent) =>
      view(mirror, checkpoint).datasets.map(({ retirement }) => retirement?.waitsFor);
    const lostSubscription = suspension({ kind: 'subscription', subscriptionId: 'sub_2' });

    it('W16 names the suspended subscription that contained it, and suggests no catch-up', () => {
      const checkpoint = content({ desiredStates: [left], followed, suspensions: [lostSubscription] });
      const mirror = seenBy('sub_1', 'sub_2');
      expect(states(mirror, checkpoint)).toEqual({
        left: `retirement waits for subscription sub_2, which is suspended: ${reason}`,
      });
      expect(waitsFor(mirror, checkpoint)).toEqual([[{ subscriptionId: 'sub_2', reason: 'suspended' }]]);
      const text = renderStatus(report(mirror, checkpoint), { now: NOW, width: 400 });
      expect(text).toContain('→ Once you have acted on it: feed-sync resume --subscription sub_2');
      expect(text).not.toContain('feed-sync once');
      const free = content({ desiredStates: [left], followed });
      expect(waitsFor(mirror, free)).toEqual([[]]);
      expect(renderStatus(report(mirror, free), { now: NOW, width: 400 })).toContain('→ feed-sync once');
    });

    it('W16 omits a suspended subscription that is followed and never contained the dataset', () => {
      const own = { ...left, formerMembers: new Map([['sub_1', formerMember()]]) };
      const checkpoint = content({ desiredStates: [own], followed, suspensions: [lostSubscription] });
      expect(waitsFor(seenBy('sub_1', 'sub_2'), checkpoint)).toEqual([[]]);
    });

    it('W16 names subscriptions that were never read: a suspended one, and those that only the mirror names', () => {
      const third = suspension({ kind: 'subscription', subscriptionId: 'sub_3' });
      const checkpoint = content({
        desiredStates: [left],
        followed,
        suspensions: [third],
        forgotten: ['sub_5'],
      });
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
      ['whose log may have restarted', 'log', 'log-in-doubt'],
    ] as const)('W16 names a subscription %s, and suggests a catch-up', (_, kind, reason) => {
      const subject = { kind, subscriptionId: 'sub_2' } as const;
      const checkpoint = content({ desiredStates: [left], followed, absences: [{ subject, since: NOW }] });
      const mirror = seenBy('sub_1', 'sub_2');
      expect(waitsFor(mirror, checkpoint)).toEqual([[{ subscriptionId: 'sub_2', reason }]]);
      expect(renderStatus(report(mirror, checkpoint), { now: NOW, width: 400 })).toContain(
        '→ feed-sync once',
      );
    });

    it('W16 F55 names the subscription whose record named the dataset until its absence is confirmed', () => {
      const mentions = [{ subscriptionId: 'sub_2', datasetId: 'left' }];
      const checkpoint = content({ desiredStates: [left], followed, mentions });
      const mirror = seenBy('sub_1', 'sub_2');
      expect(states(mirror, checkpoint)).toEqual({
        left: `retirement waits for subscription sub_2, whose record names the dataset or named it lately: ${reason}`,
      });
      expect(waitsFor(mirror, checkpoint)).toEqual([
        [{ subscriptionId: 'sub_2', reason: 'record-names-dataset' }],
      ]);
      const elsewhere = content({
        desiredStates: [left],
        followed,
        mentions: [{ subscriptionId: 'sub_2', datasetId: 'other' }],
      });
      expect(waitsFor(mirror, elsewhere)).toEqual([[]]);
    });

    it('W16 counts a waiting retirement to none that an operator is to approve', () => {
      const suspensions = [lostSubscription, ours({ kind: 'retirement' }, 'mass_retirement')];
      const checkpoint = content({ desiredStates: [left], followed, suspensions });
      expect(view(seenBy('sub_1', 'sub_2'), checkpoint).datasets).toMatchObject([
        { retirement: { waitsForApproval: false, waitsFor: [{ subscriptionId: 'sub_2' }] } },
      ]);
    });
  });

  it('shows a retirement that waits for approval until it is approved', () => {
    const approved = desired({ ...DROPPED, datasetId: 'approved', retirementApproved: true });
    const waiting = desired({ ...DROPPED, datasetId: 'waiting' });
    const checkpoint = content({
      desiredStates: [approved, waiting],
      suspensions: [ours({ kind: 'retirement' }, 'mass_retirement')],
    });
    expect(states(mirrorOf(observed('approved'), observed('waiting')), checkpoint)).toEqual({
      approved: 'to be retired: left subscription sub_1: left_coverage, left subscription sub_2',
      waiting:
        'to be retired, once you agree: left subscription sub_1: left_coverage, left subscription sub_2',
    });
  });
});

it('renders every condition in the exact text', () => {
  const followed = (subscriptionId: string, changed: Partial<Followed> = {}) =>
    [
      subscriptionId,
      followedAt(id(7), { subscriptionId, name: 'Parcels', cursorAt: EARLIER, ...changed }),
    ] as const;
  const retryAt = new Date(NOW.getTime() + 24 * 3_600_000);
  const broken = failure({
    datasetId: 'roads',
    attempts: 2,
    hint: 'Report it to the service.',
    contents: ['v4'],
    retryAt,
  });
  const checkpoint = content({
    polls: ['sub_1', 'sub_2', 'sub_3'].map((subscriptionId) => ({
      subscriptionId,
      success: { at: EARLIER, process: { command: 'run', pid: 7, host: 'here' } },
      failure: null,
    })),
    followed: new Map([
      followed('sub_1'),
      followed('sub_2', { name: null, replayedAt: NOW }),
      followed('sub_3', { cursor: null }),
    ]),
    forgotten: ['sub_4'],
    desiredStates: [announcing(4, {}), announcing(3, { datasetId: 'roads' })],
    suspensions: [
      ours({ kind: 'subscription', subscriptionId: 'sub_3' }, 'subscription_missing'),
      ours({ kind: 'retirement' }, 'mass_retirement'),
      suspension(),
    ],
    failures: new Map([['roads', broken]]),
  });
  expect(
    renderStatus(report(mirrorOf(observed('parcels'), observed('roads')), checkpoint), {
      now: NOW,
      width: 400,
    }),
  ).toBe(
    [
      'Data directory /data. No instance is running.',
      'The mirror is /data/mirror.duckdb (12.6 MB).',
      'The service was last reached at 2026-02-28 12:00 UTC (1 day ago) by feed-sync run (process 7 on here). The data is as of 2026-02-28 12:00 UTC (1 day ago).',
      '',
      'subscription  name     last event  read                              state',
      '─'.repeat(128),
      'sub_1         Parcels  evt_7       2026-02-28 12:00 UTC (1 day ago)  1 dataset is behind',
      'sub_2                  evt_7       2026-02-28 12:00 UTC (1 day ago)  up to date; no event for longer than the service keeps them',
      'sub_3         Parcels  none yet    2026-02-28 12:00 UTC (1 day ago)  missing',
      '',
      'Will be forgotten at the next catch-up: sub_4.',
      '',
      'dataset  version  rows  published (UTC)   table    state',
      '─'.repeat(86),
      'parcels        3    10  2026-02-28 12:00  parcels  suspended; behind: version 4 is out',
      'roads          3    10  2026-02-28 12:00  roads    failed; up to date',
      '',
      'Subscription sub_3 is suspended (subscription_missing): Why.',
      '  Suspended since 2026-03-01 12:00 UTC; until you have acted, what is mirrored stays as it is.',
      '→ When it is there again: feed-sync resume --subscription sub_3',
      '→ To give it up, and retire what only it contains: feed-sync forget --subscription sub_3',
      '',
      'The retirement of datasets is suspended (mass_retirement): Why.',
      '  Suspended since 2026-03-01 12:00 UTC; until you have acted, what is mirrored stays as it is.',
      '→ Where that is right: feed-sync resume --retire',
      '',
      'The service refused to list versions (403 outside_coverage).',
      '  It says: The county is not covered.',
      '  coverage: https://app.example/coverage',
      '  Suspended since 2026-03-01 12:00 UTC; until you have acted, nothing more is asked of the service for it.',
      '→ Once you have acted on it: feed-sync resume --dataset parcels',
      '',
      'Dataset roads failed 2 times, last at 2026-03-01 12:00 UTC (just now): [data_invalid]',
      '  The file is broken.',
      '→ Report it to the service.',
      '→ The same content is not fetched again before 2026-03-02 12:00 UTC (in 1 day), unless you ask: feed-sync resume --dataset roads',
      '',
      '2 datasets: 1 suspended, 1 failed.',
    ].join('\n'),
  );
});

describe('F55 an unconfirmed absence', () => {
  const since = NOW;
  const absences: CheckpointContent['absences'] = [
    { subject: { kind: 'version', datasetId: 'roads', version: 4 }, since },
    { subject: { kind: 'table', datasetId: 'zoning' }, since },
    { subject: { kind: 'subscription', subscriptionId: 'sub_3' }, since },
    { subject: { kind: 'member', subscriptionId: 'sub_1', datasetId: 'par\u001bcels' }, since },
    { subject: { kind: 'log', subscriptionId: 'sub_2' }, since },
  ];

  it('states since when something is absent, and when the absence is confirmed', () => {
    const text = renderStatus(report(mirrorOf(), content({ absences })), { now: NOW, width: 80 });
    const [, reported] = text.split('\n\n');
    expect(reported).toBe(
      [
        'The newest event that was read is absent from the log of subscription sub_2 since 2026-03-01 12:00 UTC, confirmed after 2026-03-01 12:10 UTC.',
        'Dataset par\\u001bcels is absent from subscription sub_1 since 2026-03-01 12:00 UTC, confirmed after 2026-03-01 12:10 UTC.',
        'Subscription sub_3 is absent from the list of subscriptions since 2026-03-01 12:00 UTC, confirmed after 2026-03-01 12:10 UTC.',
        'Dataset zoning, which has a table, is absent from every subscription since 2026-03-01 12:00 UTC, confirmed after 2026-03-01 12:10 UTC.',
        'Version 4 of dataset roads is absent from the list of versions since 2026-03-01 12:00 UTC, confirmed after 2026-03-01 13:00 UTC.',
      ].join('\n'),
    );
    expect(renderStatus(report(mirrorOf(), content()), { now: NOW, width: 80 })).not.toContain('absent');
  });

  it('names the absence in JSON, and leaves the states of datasets as they are', () => {
    const desiredStates = [desired({ datasetId: 'roads' })];
    const seen = view(mirrorOf(observed('roads')), content({ desiredStates, absences }));
    expect(seen.absences.at(-1)).toEqual({
      kind: 'version',
      subscriptionId: null,
      datasetId: 'roads',
      version: 4,
      since: '2026-03-01T12:00:00.000Z',
      confirmedAfter: '2026-03-01T13:00:00.000Z',
    });
    expect(seen.datasets).toEqual(view(mirrorOf(observed('roads')), content({ desiredStates })).datasets);
  });
});

it('shows every subscription as suspended where the workspace is refused', () => {
  const followed = new Map([['s', followedAt(null)]]);
  const checkpoint = content({ followed, suspensions: [suspension({ kind: 'workspace' })] });
  expect(view(null, checkpoint).subscriptions).toMatchObject([{ id: 's', isSuspended: true }]);
});

describe('F10 a mirror that others have open', () => {
  const reported = (mirror: MirrorSeen, lockHolders: readonly number[]) =>
    renderStatus(report(mirror, null, lockHolders), { now: NOW, width: 400 });

  it('names the processes that have the mirror open, whether it can be read meanwhile or not', () => {
    expect(reported(mirrorOf(), [4_712, 4_713])).toContain(
      'The mirror is held by process 4712, process 4713. A commit waits for that up to lock.wait.',
    );
    expect(reported(mirrorOf(), [])).not.toContain('suspended');
    const busy = new BusyError('The mirror /data/mirror.duckdb is held by the process 4712.');
    expect(reported(busy, [4_712])).toContain('is held by the process 4712. What it has is not shown.');
    expect(view(busy, null).mirror).toMatchObject({ state: 'busy', problem: busy.message, lockHolders: [] });
  });
});

describe('a mirror that cannot be used', () => {
  it('shows the error line by line, with its hint', () => {
    const unusable = new StorageError('The mirror /m cannot be used: the first line.\nThe second\u001b.', {
      hint: 'Look at /m.',
    });
    const lines = renderStatus(report(unusable, null), { now: NOW, width: 400 }).split('\n');
    expect(lines.slice(1)).toEqual([
      'The mirror /m cannot be used: the first line.',
      'The second\\u001b. What it has is not shown.',
      '→ Look at /m.',
    ]);
    expect(view(unusable, null).mirror).toMatchObject({ state: 'unusable', hint: 'Look at /m.' });
  });
});

describe('an outage of the service', () => {
  const MINUTE_MS = 60_000;
  const ago = (minutes: number) => new Date(NOW.getTime() - minutes * MINUTE_MS);
  const process = { command: 'run', pid: 7, host: 'here' };
  const refused = (at: Date, since: Date, milliseconds: number) => ({
    error: 'service_unavailable' as const,
    message: `Could not list events: connection refused after 6 attempts in ${milliseconds} ms.`,
    hint: 'Check the address.',
    since,
    at,
  });
  const followed = new Map(
    ['s', 't', 'u'].map((subscriptionId) => [subscriptionId, followedAt(id(7), { subscriptionId })] as const),
  );
  const polls: readonly Poll[] = [
    { subscriptionId: null, success: { at: ago(60), process }, failure: null },
    { subscriptionId: 's', success: { at: ago(30), process }, failure: refused(ago(1), ago(20), 9) },
    { subscriptionId: 't', success: { at: ago(40), process }, failure: refused(ago(2), ago(25), 10) },
    { subscriptionId: 'u', success: { at: ago(5), process }, failure: null },
    // A subscription that was given up says nothing.
    { subscriptionId: 'gone', success: { at: ago(3), process }, failure: refused(ago(1), ago(99), 1) },
  ];
  const during = report(mirrorOf(), content({ followed, polls }));

  it('reports an outage once for its cause, with its start, and dates the data to the last reading before it', () => {
    expect(statusJson(during).service).toMatchObject({
      reachedAt: ago(3).toISOString(),
      reachedBy: process,
      dataAsOf: ago(40).toISOString(),
      outages: [
        { since: ago(25).toISOString(), failedAt: ago(1).toISOString(), subscriptionIds: ['s', 't'] },
      ],
    });
    const text = renderStatus(during, { now: NOW, width: 400 });
    expect(text.match(/connection refused/g)).toHaveLength(1);
    expect(text).toMatch(/^s .*up to date, when it was last read$/m);
    expect(text).toMatch(/^u .*up to date$/m);
  });

  it.each([
    ['0 without problems, whatever the age', [polls[0], polls[3]], {}, null, []],
    ['75 where the service is unreachable', polls, {}, null, [75]],
    ['75 where the data is older', [polls[3]], {}, 4, [75]],
    ['0 where the data is as old as it may be', [polls[3]], {}, 5, []],
    ['75 where the age is unknown', [polls[0]], {}, 999, [75]],
    ['77 where a suspension waits for an operator', [polls[3]], { suspensions: [suspension()] }, null, [77]],
    [
      'the code of a failure',
      [polls[3]],
      { failures: new Map([['d', failure({ datasetId: 'd' })]]) },
      null,
      [65],
    ],
  ])('ends a check with %s', (_, seen, changed, minutes, codes) => {
    const only = new Map([...followed].filter(([subscriptionId]) => subscriptionId === 'u'));
    const stored = content({
      desiredStates: [desired({ datasetId: 'd' })],
      followed: seen === polls ? followed : only,
      polls: seen.filter((poll) => poll !== undefined),
      ...changed,
    });
    const findings = judgeStatus(
      report(mirrorOf(), stored),
      minutes === null ? null : minutes * MINUTE_MS,
      NOW,
    );
    expect(findings.map(({ exitCode }) => exitCode)).toEqual(codes);
  });
});
