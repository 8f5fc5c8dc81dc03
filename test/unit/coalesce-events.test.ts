/** Events become changes of desired states. Where the desired states that follow matter, a real checkpoint keeps them. */

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Checkpoint } from '../../src/checkpoint/checkpoint.ts';
import {
  announcedVersion,
  type DesiredState,
  type DesiredStateChange,
} from '../../src/model/desired-state.ts';
import { EVENT_TYPES, type FeedEvent, parseEventId, type UnreadableEvent } from '../../src/model/event.ts';
import { type CoalesceContext, coalesceEvents, cursorAfter } from '../../src/sync/follow/coalesce-events.ts';
import { openNew, position } from '../support/checkpoint-files.ts';
import { SEED } from '../support/seed.ts';
import {
  desired,
  event,
  formerMember,
  id,
  LONG_AGO,
  member,
  NOW,
  unreadable,
} from '../support/sync-values.ts';

const datasetId = 'parcels';
const MINUTE_MS = 60_000;
const at = (minutes: number): Date => new Date(NOW.getTime() + minutes * MINUTE_MS);

interface Given {
  /** Null: nobody has said anything of the dataset. */
  readonly desired?: DesiredState | null;
  /** Null: there is no table. */
  readonly table?: number | null;
  readonly context?: Partial<CoalesceContext>;
}

/** Of `sub_1`, which contains the dataset since long ago unless the test says otherwise. */
function coalesce(
  events: readonly (FeedEvent | UnreadableEvent)[],
  { desired: desiredState = desired(), table = null, context = {} }: Given = {},
): readonly DesiredStateChange[] {
  return coalesceEvents(events, {
    subscriptionId: 'sub_1',
    logNumber: 1,
    readAt: NOW,
    coveredUntil: null,
    desiredStateOf: (asked) => (asked === desiredState?.datasetId ? desiredState : null),
    tableOf: () => (table === null ? null : { version: table }),
    ...context,
  });
}

const kindsOf = (changes: readonly DesiredStateChange[]) => changes.map(({ kind }) => kind);

const added = (eventNumber: bigint, version: number | null = null) => ({
  kind: 'member',
  datasetId,
  eventNumber,
  at: NOW,
  version,
});
const removed = (eventNumber: bigint, reason: string | null = null) => ({
  kind: 'no-member',
  datasetId,
  eventNumber,
  at: NOW,
  reason,
});
const refresh = { kind: 'refresh', datasetId };
const asked = (eventNumber: bigint, version: number | null, knownVersion = version ?? 0) => ({
  kind: 'reload',
  datasetId,
  version,
  logNumber: 1,
  eventNumber,
  createdAt: NOW,
  readAt: NOW,
  knownVersion,
  isWithdrawal: false,
});

describe('an event about a member', () => {
  it.each<readonly [FeedEvent, readonly object[]]>([
    [event(7, 'dataset.added', { version: 3 }), [added(7n, 3)]],
    [event(7, 'dataset.added'), [added(7n)]],
    [
      event(7, 'dataset.updated', { version: 3 }),
      [{ kind: 'at-least', datasetId, version: 3, eventNumber: 7n }],
    ],
    [event(7, 'dataset.updated'), [refresh]],
    [event(7, 'dataset.schema_changed', { version: 3, schemaVersion: '2' }), [refresh]],
    [event(7, 'dataset.resync_required', { version: 3 }), [asked(7n, 3)]],
    [event(7, 'dataset.resync_required'), [asked(7n, null)]],
    [event(7, 'dataset.removed'), [removed(7n)]],
  ])('turns $type with version $version into a change of the desired state', (given, expected) => {
    expect(coalesce([given])).toEqual(expected);
  });

  it.each([
    'key_columns_changed',
    'cursor_expired',
    'left_coverage',
    'subscription_changed',
    'source_retired',
    'a reason of tomorrow',
    null,
  ])(
    'W6 F29 the reason %s decides nothing: a resync reloads, and a removal keeps it for operators',
    (reason) => {
      expect(coalesce([event(7, 'dataset.resync_required', { reason })])).toEqual([asked(7n, null)]);
      expect(coalesce([event(7, 'dataset.removed', { reason })])).toEqual([removed(7n, reason)]);
    },
  );

  it('an unreadable event asks for a metadata refresh of the member that it names', () => {
    expect(coalesce([unreadable()])).toEqual([refresh]);
    expect(coalesce([unreadable({ id: null })])).toEqual([refresh]);
    expect(coalesce([unreadable({ datasetId: null })])).toEqual([]);
    expect(coalesce([unreadable()], { desired: null })).toEqual([]);
  });

  it('an update to a version that the table is at or past asks for a metadata refresh, too', () => {
    const update = event(7, 'dataset.updated', { version: 3 });
    expect(kindsOf(coalesce([update], { table: 2 }))).toEqual(['at-least']);
    expect(kindsOf(coalesce([update], { table: 3 }))).toEqual(['at-least', 'refresh']);
    expect(kindsOf(coalesce([update], { table: 4 }))).toEqual(['at-least', 'refresh']);
  });

  it('a reload remembers the highest version that was known when it was read, that time, and its log', () => {
    const resync = event(7, 'dataset.resync_required', { version: 3, createdAt: at(-9) });
    const known = desired({
      members: new Map([
        ['sub_2', member({ announced: 5 })],
        ['sub_1', member()],
      ]),
    });
    expect(coalesce([resync], { table: 4, context: { logNumber: 2 } })).toEqual([
      { ...asked(7n, 3, 4), createdAt: at(-9), logNumber: 2 },
    ]);
    expect(coalesce([resync], { desired: known, table: 4 })).toEqual([
      { ...asked(7n, 3, 5), createdAt: at(-9) },
    ]);
  });

  it('an event without a creation time counts as created when its page was read', () => {
    expect(coalesce([event(7, 'dataset.resync_required', { createdAt: null })])).toEqual([asked(7n, null)]);
    expect(coalesce([event(7, 'dataset.removed', { createdAt: null })])).toEqual([removed(7n)]);
  });
});

describe('an addition', () => {
  const addition = event(9, 'dataset.added', { version: 2 });
  const dropped = (number: bigint | null, when = LONG_AGO): DesiredState =>
    desired({
      members: new Map(),
      formerMembers: new Map([['sub_1', formerMember({ eventNumber: number, at: when })]]),
    });
  const ofAnother = (since: Date): DesiredState =>
    desired({ members: new Map([['sub_2', member({ since })]]) });
  const leftAnother = (when: Date): DesiredState =>
    desired({ members: new Map(), formerMembers: new Map([['sub_2', formerMember({ at: when })]]) });

  it.each<readonly [string, DesiredState | null]>([
    ['without a desired state', null],
    ['that was removed before', dropped(8n)],
    ['that an audit found gone', dropped(null)],
    ['that is contained already', desired()],
    [
      'that is contained already, and by another subscription too',
      desired({
        members: new Map([
          ['sub_1', member()],
          ['sub_2', member()],
        ]),
      }),
    ],
    ['that another subscription contains only since a later time', ofAnother(at(1))],
    ['that another subscription had dropped by then', leftAnother(at(-1))],
    ['that another subscription dropped at that very time', leftAnother(NOW)],
  ])('an addition reloads the existing table of a dataset %s', (_, desiredState) => {
    expect(coalesce([addition], { desired: desiredState, table: 1 })).toEqual([
      added(9n, 2),
      asked(9n, 2, 2),
    ]);
    expect(coalesce([addition], { desired: desiredState })).toEqual([added(9n, 2)]);
  });

  it.each<readonly [string, DesiredState]>([
    ['contains it since before', ofAnother(at(-1))],
    ['contains it since that very time', ofAnother(NOW)],
    ['contained it then, and dropped it later', leftAnother(at(1))],
  ])('an addition reloads nothing where another subscription %s', (_, desiredState) => {
    expect(coalesce([addition], { desired: desiredState, table: 1 })).toEqual([added(9n, 2)]);
    const withoutVersion = event(9, 'dataset.added');
    expect(coalesce([withoutVersion], { desired: desiredState, table: 1 })).toEqual([added(9n), refresh]);
  });

  it.each([9n, 10n])('ignores an addition that a decision at event %i reflects already', (number) => {
    expect(coalesce([addition], { desired: dropped(number), table: 1 })).toEqual([]);
    const contained = desired({ members: new Map([['sub_1', member({ eventNumber: number })]]) });
    expect(coalesce([addition], { desired: contained, table: 1 })).toEqual([]);
  });

  it('the removal of another dataset makes an addition no reload', () => {
    const page = [event(8, 'dataset.removed', { datasetId: 'permits' }), addition];
    expect(coalesce(page, { desired: ofAnother(LONG_AGO), table: 1 })).not.toContainEqual(asked(9n, 2, 2));
  });

  it('an addition after a removal in one page is a reload, also where the page is out of order', () => {
    const page = [event(8, 'dataset.removed'), addition];
    for (const events of [page, page.toReversed()]) {
      expect(kindsOf(coalesce(events, { table: 1 }))).toEqual(['no-member', 'member', 'reload']);
    }
  });

  it('each of several additions in one page is a reload', () => {
    const page = [
      event(1, 'dataset.removed'),
      event(2, 'dataset.added'),
      event(3, 'dataset.removed'),
      event(4, 'dataset.added'),
    ];
    const reloads = coalesce(page, { table: 1 }).filter(({ kind }) => kind === 'reload');
    expect(reloads).toMatchObject([{ eventNumber: 2n }, { eventNumber: 4n }]);
  });
});

describe('F82 a removal that is read after other subscriptions took the dataset over', () => {
  const removal = event(9, 'dataset.removed', { createdAt: at(-5), reason: 'left_coverage' });
  const drop = { ...removed(9n, 'left_coverage'), at: at(-5) };
  const gap = { ...asked(9n, null, 1), createdAt: at(-5) };
  const takenOver = (since: Date, ...others: [string, ReturnType<typeof member>][]): DesiredState =>
    desired({ members: new Map([['sub_1', member()], ['sub_2', member({ since })], ...others]) });

  it.each([
    ['a later time', at(-4)],
    ['that very time', at(-5)],
  ])('a removal is a reload where all others contain the dataset only since %s', (_, since) => {
    expect(coalesce([removal], { desired: takenOver(since), table: 1 })).toEqual([gap, drop]);
  });

  it.each<readonly [string, Given]>([
    ['where another contained it before the drop', { desired: takenOver(at(-6)), table: 1 }],
    [
      'where one of several contained it before the drop',
      { desired: takenOver(at(-4), ['sub_3', member()]), table: 1 },
    ],
    [
      'where one contained it before the drop, and has dropped it later',
      {
        desired: { ...takenOver(at(-4)), formerMembers: new Map([['sub_3', formerMember({ at: at(-4) })]]) },
        table: 1,
      },
    ],
    ['where no other contains it', { desired: desired(), table: 1 }],
    ['where there is no table', { desired: takenOver(at(-4)) }],
    [
      'where the manifest that the tables were taken from reflects it',
      { desired: takenOver(at(-4)), table: 1, context: { coveredUntil: at(-5) } },
    ],
  ])('a removal is no reload %s', (_, given) => {
    expect(coalesce([removal], given)).toEqual([drop]);
  });

  it('owes the same reload whether the removal or the addition is read last', async () => {
    const [left, taken] = [removal, event(5, 'dataset.added', { version: 1, createdAt: at(-4) })];
    for (const logs of [
      [
        ['sub_1', left],
        ['sub_2', taken],
      ],
      [
        ['sub_2', taken],
        ['sub_1', left],
      ],
    ] as const) {
      const checkpoint = await openNew();
      commit(checkpoint, 'sub_1', [event(1, 'dataset.added', { createdAt: at(-60) })], 1);
      for (const [subscriptionId, one] of logs) commit(checkpoint, subscriptionId, [one], 1, { version: 1 });
      const [desiredState] = desiredStatesOf(checkpoint, 1);
      expect([...(desiredState?.members.keys() ?? [])]).toEqual(['sub_2']);
      expect(desiredState?.reloads).toHaveLength(1);
    }
  });
});

describe('events that the manifest of the tables reflects', () => {
  const context = { coveredUntil: NOW };

  it.each(EVENT_TYPES)('a reflected %s changes only who is a member', (type) => {
    const kinds = kindsOf(coalesce([event(9, type, { version: 2 })], { table: 1, context }));
    const expected = { 'dataset.added': ['member'], 'dataset.removed': ['no-member'] }[String(type)] ?? [];
    expect(kinds).toEqual(expected);
  });

  it('a reflected addition announces no version', () => {
    expect(coalesce([event(9, 'dataset.added', { version: 2 })], { desired: null, context })).toEqual([
      added(9n),
    ]);
  });

  it('an event after the time that the manifest surely reflects counts in full', () => {
    const later = event(9, 'dataset.resync_required', { createdAt: at(1) });
    expect(coalesce([later], { table: 1, context })).toEqual([{ ...asked(9n, null, 1), createdAt: at(1) }]);
  });
});

/** Every type × with and without a version × the desired state before, where the table is at version 3. */
describe('every event with every earlier desired state', () => {
  const members = new Map([['sub_2', member()]]);
  const left = (eventNumber: bigint | null) => new Map([['sub_1', formerMember({ eventNumber })]]);
  const before: Readonly<Record<string, DesiredState | null>> = {
    unknown: null,
    'a member': desired(),
    'a member of another subscription': desired({ members }),
    'removed before': desired({ members: new Map(), formerMembers: left(6n) }),
    'removed before, and contained by another': desired({ members, formerMembers: left(6n) }),
    'absent without an event': desired({ members: new Map(), formerMembers: left(null) }),
    'removed later': desired({ members: new Map(), formerMembers: left(8n) }),
  };
  const cases = Object.entries(before).flatMap(([state, desiredState]) =>
    EVENT_TYPES.flatMap((type) => [3, null].map((version) => ({ state, desiredState, type, version }))),
  );

  const isMember = (state: string) => state === 'a member';
  const isDecided = (state: string) => state === 'removed later';
  const expectedOfAddition = (
    desiredState: DesiredState | null,
    version: number | null,
  ): readonly string[] => {
    if (desiredState?.members.has('sub_2') !== true) return ['member', 'reload'];
    return version === null ? ['member', 'refresh'] : ['member'];
  };

  it.each(cases)(
    'W3 W4 W5 W6 W7 W8 coalesces $type, version $version, of a dataset that is $state',
    ({ state, desiredState, type, version }) => {
      const ofMember = {
        'dataset.updated': version === null ? ['refresh'] : ['at-least', 'refresh'],
        'dataset.schema_changed': ['refresh'],
        'dataset.resync_required': ['reload'],
      };
      const ofMembership = {
        'dataset.added': expectedOfAddition(desiredState, version),
        'dataset.removed': ['no-member'],
      };
      const kinds = {
        ...(isMember(state) ? ofMember : {}),
        ...(isDecided(state) ? {} : ofMembership),
      };
      const changes = coalesce([event(7, type, { version })], { desired: desiredState, table: 3 });
      expect(kindsOf(changes)).toEqual(new Map(Object.entries(kinds)).get(type) ?? []);
      for (const change of changes) expectFromEvent(change, version);
    },
  );
});

function expectFromEvent(change: DesiredStateChange, version: number | null): void {
  expect(change.datasetId).toBe(datasetId);
  if (change.kind !== 'refresh' && change.kind !== 'nothing-announced') expect(change.eventNumber).toBe(7n);
  if ('version' in change) expect(change.version).toBe(version);
}

describe('F27 the order of events', () => {
  it('W11 orders events by number, also beyond the precision of a double', () => {
    const large = 2n ** 53n;
    const page = [event(large + 1n, 'dataset.added'), event(large, 'dataset.removed')];
    expect(coalesce(page, { table: 1 })).toEqual([
      removed(large),
      added(large + 1n),
      asked(large + 1n, null, 1),
    ]);
    expect(cursorAfter(page, id(large))).toEqual(id(large + 1n));
  });

  it('W11 does not order events by text: evt_9 comes before evt_10', () => {
    const page = [event(10, 'dataset.removed'), event(9, 'dataset.added')];
    expect(kindsOf(coalesce(page, { desired: null }))).toEqual(['member', 'no-member']);
  });

  it('W11 compares numbers within one subscription alone', async () => {
    const checkpoint = await openNew();
    commit(checkpoint, 'sub_1', [event(5, 'dataset.added', { version: 4 })], 1);
    commit(checkpoint, 'sub_2', [event(5, 'dataset.added', { version: 4 })], 1);
    commit(checkpoint, 'sub_1', [event(6, 'dataset.removed')], 1);
    commit(checkpoint, 'sub_2', [event(6, 'dataset.resync_required', { version: 3 })], 1);
    expect(desiredStatesOf(checkpoint, 1)).toMatchObject([
      {
        members: new Map([['sub_2', member({ eventNumber: 5n, since: NOW, announced: 3 })]]),
        formerMembers: new Map([['sub_1', formerMember({ eventNumber: 6n, at: NOW })]]),
        reloads: [{ subscriptionId: 'sub_2', eventNumber: 6n }],
      },
    ]);
    expect([...checkpoint.followed().values()].map(({ cursor }) => cursor)).toEqual([id(6), id(6)]);
  });
});

describe('announcements of a subscription', () => {
  const went = (number: number) => event(number, 'dataset.updated', { version: 5 });
  const returned = event(9, 'dataset.added', { version: 1 });

  it('F46 voids the announcements of a subscription with its drop, in whatever order the logs are read', async () => {
    const pages = {
      sub_1: [event(1, 'dataset.added', { version: 1 }), went(2), event(3, 'dataset.removed'), returned],
      sub_2: [event(1, 'dataset.added', { version: 1 }), went(2), event(3, 'dataset.removed')],
    };
    for (const order of [
      ['sub_1', 'sub_2'],
      ['sub_2', 'sub_1'],
    ] as const) {
      const checkpoint = await openNew();
      for (const subscriptionId of order) commit(checkpoint, subscriptionId, pages[subscriptionId], 1);
      const [desiredState = desired()] = desiredStatesOf(checkpoint, 1);
      expect([...desiredState.members.keys()]).toEqual(['sub_1']);
      expect(announcedVersion(desiredState)).toBe(1);
    }
  });

  it('a reload in one log does not lower what another subscription announced', async () => {
    const checkpoint = await openNew();
    commit(checkpoint, 'sub_1', [event(1, 'dataset.added', { version: 1 }), went(2)], 1);
    commit(
      checkpoint,
      'sub_2',
      [event(1, 'dataset.added', { version: 1 }), event(2, 'dataset.resync_required', { version: 2 })],
      1,
    );
    const [desiredState = desired()] = desiredStatesOf(checkpoint, 1);
    expect([...desiredState.members.values()].map(({ announced }) => announced)).toEqual([5, 2]);
    expect(announcedVersion(desiredState)).toBe(5);
  });

  it('F82 a drop leaves the reload of its subscription owed, and voids its announcement', async () => {
    const checkpoint = await openNew();
    const first = [
      event(1, 'dataset.added', { version: 1, createdAt: at(-2) }),
      event(2, 'dataset.resync_required', { version: 3 }),
    ];
    commit(checkpoint, 'sub_1', first, 1);
    const joined = event(1, 'dataset.added', { version: 1, createdAt: at(-1) });
    commit(checkpoint, 'sub_2', [joined], 1, { version: 1 });
    commit(checkpoint, 'sub_1', [event(3, 'dataset.removed')], 1, { version: 1 });
    const [desiredState = desired()] = desiredStatesOf(checkpoint, 1);
    expect([...desiredState.members.keys()]).toEqual(['sub_2']);
    expect(announcedVersion(desiredState)).toBe(1);
    expect(desiredState.reloads).toMatchObject([{ subscriptionId: 'sub_1', eventNumber: 2n }]);
  });
});

describe('the cursor', () => {
  it('takes the highest event id of a page as the cursor, by number', () => {
    expect(cursorAfter([event(9, 'dataset.updated'), event(10, 'dataset.updated')], null)).toEqual(id(10));
    expect(cursorAfter([event(10, 'dataset.updated'), event(9, 'dataset.updated')], null)).toEqual(id(10));
    expect(cursorAfter([event(2, 'dataset.updated')], id(11))).toEqual(id(11));
  });

  it('counts unreadable events that have an id for the cursor', () => {
    expect(cursorAfter([unreadable({ id: id(12) }), unreadable({ id: null })], id(11))).toEqual(id(12));
  });

  it('keeps the cursor where the page is empty', () => {
    expect(cursorAfter([], null)).toBeNull();
    expect(cursorAfter([], id(3))).toEqual(id(3));
  });
});

describe('event ids', () => {
  it.each([
    ['evt_0', 0n],
    ['evt_9', 9n],
    ['evt_010', 10n],
    ['evt_9223372036854775807', 2n ** 63n - 1n],
  ])('reads %s as an event id', (text, number) => {
    expect(parseEventId(text)).toEqual({ text, number });
  });

  it.each([
    'evt_',
    'evt_-1',
    'evt_1.5',
    'evt_9223372036854775808',
    `evt_${'1'.repeat(5_000)}`,
    'EVT_1',
    'evt_1 ',
    '7',
    '',
  ])('does not read %s as an event id', (text) => {
    expect(parseEventId(text)).toBeNull();
  });
});

describe('F27 the replay of events', () => {
  const pages = fc
    .array(
      fc.record({
        type: fc.constantFrom(...EVENT_TYPES),
        dataset: fc.constantFrom('parcels', 'permits'),
        version: fc.option(fc.integer({ min: 1, max: 9 })),
      }),
      { minLength: 1, maxLength: 12 },
    )
    .map((made) =>
      made.map(({ type, dataset, version }, index) =>
        event(index + 1, type, { datasetId: dataset, version }),
      ),
    );

  const tables = fc.option(fc.record({ version: fc.integer({ min: 1, max: 9 }) }));

  it('a page that comes once more, in any order, changes nothing but metadata refreshes', async () => {
    const checkpoint = await openNew();
    let runs = 0;
    await fc.assert(
      fc.asyncProperty(pages, tables, fc.infiniteStream(fc.nat()), async (page, table, keys) => {
        runs += 1;
        const subscriptionId = `sub_${runs}`;
        commit(checkpoint, subscriptionId, page, runs, table);
        const desiredState = desiredStatesOf(checkpoint, runs);
        commit(checkpoint, subscriptionId, page, runs, table);
        expect(desiredStatesOf(checkpoint, runs)).toEqual(desiredState);
        const shuffled = page.map((one) => [keys.next().value, one] as const);
        shuffled.sort(([left], [right]) => left - right);
        commit(
          checkpoint,
          subscriptionId,
          shuffled.map(([, one]) => one),
          runs,
          table,
        );
        expect(desiredStatesOf(checkpoint, runs)).toEqual(desiredState);
      }),
      { seed: SEED, numRuns: 60 },
    );
    expect(runs).toBeGreaterThanOrEqual(60);
  });

  it('an old removal in a later page does not drop a member that came back', async () => {
    const checkpoint = await openNew();
    commit(checkpoint, 'sub_1', [event(5, 'dataset.removed'), event(6, 'dataset.added', { version: 2 })], 1);
    commit(checkpoint, 'sub_1', [event(5, 'dataset.removed')], 1);
    const joined = member({ eventNumber: 6n, since: NOW, announced: 2 });
    expect(desiredStatesOf(checkpoint, 1)).toMatchObject([
      { members: new Map([['sub_1', joined]]), formerMembers: new Map() },
    ]);
  });

  it('an update from before a reload does not raise the version that the reload lowered', async () => {
    const checkpoint = await openNew();
    commit(checkpoint, 'sub_1', [event(1, 'dataset.added', { version: 8 })], 1);
    commit(checkpoint, 'sub_1', [event(6, 'dataset.resync_required', { version: 2 })], 1);
    commit(checkpoint, 'sub_1', [event(5, 'dataset.updated', { version: 9 })], 1);
    expect(desiredStatesOf(checkpoint, 1).map(announcedVersion)).toEqual([2]);
  });
});

/** Each run has datasets of its own, so that one checkpoint serves them all. */
function commit(
  checkpoint: Checkpoint,
  subscriptionId: string,
  page: readonly FeedEvent[],
  run: number,
  table: ReturnType<CoalesceContext['tableOf']> = null,
): void {
  const events = page.map((one) => ({ ...one, datasetId: `${run} ${one.datasetId}` }));
  checkpoint.commitFollowStep({
    subscriptionId,
    subscriptionName: null,
    position: position(cursorAfter(events, null)),
    changes: coalesceEvents(events, {
      subscriptionId,
      logNumber: 1,
      readAt: NOW,
      coveredUntil: null,
      desiredStateOf: (one) => checkpoint.desired(one),
      tableOf: () => table,
    }),
  });
}

function desiredStatesOf(checkpoint: Checkpoint, run: number): readonly DesiredState[] {
  return [...checkpoint.desiredStates().values()]
    .filter((one) => one.datasetId.startsWith(`${run} `))
    .map((one) => ({ ...one, refreshesRequested: 0 }));
}
