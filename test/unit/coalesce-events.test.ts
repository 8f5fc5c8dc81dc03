/** Events become wants. Where it matters what the wants then are, a real checkpoint keeps them. */

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
  { desired: wanted = desired(), table = null, context = {} }: Given = {},
): readonly DesiredStateChange[] {
  return coalesceEvents(events, {
    subscriptionId: 'sub_1',
    logNumber: 1,
    readAt: NOW,
    coveredUntil: null,
    desiredStateOf: (asked) => (asked === wanted?.datasetId ? wanted : null),
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
const look = { kind: 'refresh', datasetId };
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

describe('each type of event about a member', () => {
  it.each<readonly [FeedEvent, readonly object[]]>([
    [event(7, 'dataset.added', { version: 3 }), [added(7n, 3)]],
    [event(7, 'dataset.added'), [added(7n)]],
    [
      event(7, 'dataset.updated', { version: 3 }),
      [{ kind: 'at-least', datasetId, version: 3, eventNumber: 7n }],
    ],
    [event(7, 'dataset.updated'), [look]],
    [event(7, 'dataset.schema_changed', { version: 3, schemaVersion: '2' }), [look]],
    [event(7, 'dataset.resync_required', { version: 3 }), [asked(7n, 3)]],
    [event(7, 'dataset.resync_required'), [asked(7n, null)]],
    [event(7, 'dataset.removed'), [removed(7n)]],
  ])('$type with version $version', (given, expected) => {
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
  ])('W6 F29 the reason %s decides nothing: a resync reloads, a removal carries it for people', (reason) => {
    expect(coalesce([event(7, 'dataset.resync_required', { reason })])).toEqual([asked(7n, null)]);
    expect(coalesce([event(7, 'dataset.removed', { reason })])).toEqual([removed(7n, reason)]);
  });

  it('one that cannot be read asks for a metadata refresh of the member that it names', () => {
    expect(coalesce([unreadable()])).toEqual([look]);
    expect(coalesce([unreadable({ id: null })])).toEqual([look]);
    expect(coalesce([unreadable({ datasetId: null })])).toEqual([]);
    expect(coalesce([unreadable()], { desired: null })).toEqual([]);
  });

  it('an update to a version that the table is at or past already asks for a metadata refresh, too', () => {
    const update = event(7, 'dataset.updated', { version: 3 });
    expect(kindsOf(coalesce([update], { table: 2 }))).toEqual(['at-least']);
    expect(kindsOf(coalesce([update], { table: 3 }))).toEqual(['at-least', 'refresh']);
    expect(kindsOf(coalesce([update], { table: 4 }))).toEqual(['at-least', 'refresh']);
  });

  it('a reload remembers the highest version that was known when it was read, when that was, and its log', () => {
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

  it('one that does not say when it was created counts as created when its page was read', () => {
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
    ['of which nobody has said anything', null],
    ['that was removed before', dropped(8n)],
    ['that an audit had found gone', dropped(null)],
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
    ['that another subscription dropped at that very moment', leftAnother(NOW)],
  ])('of a dataset %s is a reload where the table exists, and none where it does not', (_, wanted) => {
    expect(coalesce([addition], { desired: wanted, table: 1 })).toEqual([added(9n, 2), asked(9n, 2, 2)]);
    expect(coalesce([addition], { desired: wanted })).toEqual([added(9n, 2)]);
  });

  it.each<readonly [string, DesiredState]>([
    ['contains it since before', ofAnother(at(-1))],
    ['contains it since that moment', ofAnother(NOW)],
    ['contained it then, and dropped it later', leftAnother(at(1))],
  ])('is no reload where another subscription %s', (_, wanted) => {
    expect(coalesce([addition], { desired: wanted, table: 1 })).toEqual([added(9n, 2)]);
    const withoutVersion = event(9, 'dataset.added');
    expect(coalesce([withoutVersion], { desired: wanted, table: 1 })).toEqual([added(9n), look]);
  });

  it.each([9n, 10n])('that is reflected already by what decided at event %i is nothing', (number) => {
    expect(coalesce([addition], { desired: dropped(number), table: 1 })).toEqual([]);
    const contained = desired({ members: new Map([['sub_1', member({ eventNumber: number })]]) });
    expect(coalesce([addition], { desired: contained, table: 1 })).toEqual([]);
  });

  it('after the removal of another dataset is none of that one', () => {
    const page = [event(8, 'dataset.removed', { datasetId: 'permits' }), addition];
    expect(coalesce(page, { desired: ofAnother(LONG_AGO), table: 1 })).not.toContainEqual(asked(9n, 2, 2));
  });

  it('after a removal in one page is a reload, also where the page is out of order', () => {
    const page = [event(8, 'dataset.removed'), addition];
    for (const events of [page, page.toReversed()]) {
      expect(kindsOf(coalesce(events, { table: 1 }))).toEqual(['no-member', 'member', 'reload']);
    }
  });

  it('and each of several in one page is one', () => {
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
    ['later', at(-4)],
    ['at that very moment', at(-5)],
  ])(
    'is a reload where they all contain it only since %s: nobody told what happened in between',
    (_, since) => {
      expect(coalesce([removal], { desired: takenOver(since), table: 1 })).toEqual([gap, drop]);
    },
  );

  it.each<readonly [string, Given]>([
    ['where another contained it before the drop', { desired: takenOver(at(-6)), table: 1 }],
    ['where one of several did', { desired: takenOver(at(-4), ['sub_3', member()]), table: 1 }],
    [
      'where one did and has dropped it later',
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
  ])('is none %s', (_, given) => {
    expect(coalesce([removal], given)).toEqual([drop]);
  });

  it('owes the same reload as the addition does where that is read last', async () => {
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
      const [wanted] = wantsOf(checkpoint, 1);
      expect([...(wanted?.members.keys() ?? [])]).toEqual(['sub_2']);
      expect(wanted?.reloads).toHaveLength(1);
    }
  });
});

describe('events that the manifest reflects from which the tables were taken', () => {
  const context = { coveredUntil: NOW };

  it.each(EVENT_TYPES)('%s: it only changes who is a member', (type) => {
    const kinds = kindsOf(coalesce([event(9, type, { version: 2 })], { table: 1, context }));
    const expected = { 'dataset.added': ['member'], 'dataset.removed': ['no-member'] }[String(type)] ?? [];
    expect(kinds).toEqual(expected);
  });

  it('announce no version by an addition', () => {
    expect(coalesce([event(9, 'dataset.added', { version: 2 })], { desired: null, context })).toEqual([
      added(9n),
    ]);
  });

  it('end with the time up to which it surely does: later ones count in full', () => {
    const later = event(9, 'dataset.resync_required', { createdAt: at(1) });
    expect(coalesce([later], { table: 1, context })).toEqual([{ ...asked(9n, null, 1), createdAt: at(1) }]);
  });
});

/** Every type × with and without a version × what was wanted before, where the table is at version 3. */
describe('what an event asks for, whatever was wanted before', () => {
  const members = new Map([['sub_2', member()]]);
  const left = (eventNumber: bigint | null) => new Map([['sub_1', formerMember({ eventNumber })]]);
  const before: Readonly<Record<string, DesiredState | null>> = {
    'never heard of': null,
    'a member': desired(),
    'a member of another subscription': desired({ members }),
    'removed before': desired({ members: new Map(), formerMembers: left(6n) }),
    'removed before, and contained by another': desired({ members, formerMembers: left(6n) }),
    'absent for no event': desired({ members: new Map(), formerMembers: left(null) }),
    'removed later': desired({ members: new Map(), formerMembers: left(8n) }),
  };
  const cases = Object.entries(before).flatMap(([state, wanted]) =>
    EVENT_TYPES.flatMap((type) => [3, null].map((version) => ({ state, wanted, type, version }))),
  );

  const isMember = (state: string) => state === 'a member';
  const isDecided = (state: string) => state === 'removed later';
  const expectedOfAddition = (wanted: DesiredState | null, version: number | null): readonly string[] => {
    if (wanted?.members.has('sub_2') !== true) return ['member', 'reload'];
    return version === null ? ['member', 'refresh'] : ['member'];
  };

  it.each(cases)('W3 W4 W5 W6 W7 W8 $type, version $version: $state', ({ state, wanted, type, version }) => {
    const ofMember = {
      'dataset.updated': version === null ? ['refresh'] : ['at-least', 'refresh'],
      'dataset.schema_changed': ['refresh'],
      'dataset.resync_required': ['reload'],
    };
    const ofMembership = {
      'dataset.added': expectedOfAddition(wanted, version),
      'dataset.removed': ['no-member'],
    };
    const kinds = {
      ...(isMember(state) ? ofMember : {}),
      ...(isDecided(state) ? {} : ofMembership),
    };
    const changes = coalesce([event(7, type, { version })], { desired: wanted, table: 3 });
    expect(kindsOf(changes)).toEqual(new Map(Object.entries(kinds)).get(type) ?? []);
    for (const change of changes) expectFromEvent(change, version);
  });
});

function expectFromEvent(change: DesiredStateChange, version: number | null): void {
  expect(change.datasetId).toBe(datasetId);
  if (change.kind !== 'refresh' && change.kind !== 'nothing-announced') expect(change.eventNumber).toBe(7n);
  if ('version' in change) expect(change.version).toBe(version);
}

describe('F27 order', () => {
  it('W11 is that of the numbers, beyond what a double holds, too', () => {
    const large = 2n ** 53n;
    const page = [event(large + 1n, 'dataset.added'), event(large, 'dataset.removed')];
    expect(coalesce(page, { table: 1 })).toEqual([
      removed(large),
      added(large + 1n),
      asked(large + 1n, null, 1),
    ]);
    expect(cursorAfter(page, id(large))).toEqual(id(large + 1n));
  });

  it('W11 is not that of the texts: evt_9 comes before evt_10', () => {
    const page = [event(10, 'dataset.removed'), event(9, 'dataset.added')];
    expect(kindsOf(coalesce(page, { desired: null }))).toEqual(['member', 'no-member']);
  });

  it('W11 is of one subscription alone: the same numbers in another decide nothing here', async () => {
    const checkpoint = await openNew();
    commit(checkpoint, 'sub_1', [event(5, 'dataset.added', { version: 4 })], 1);
    commit(checkpoint, 'sub_2', [event(5, 'dataset.added', { version: 4 })], 1);
    commit(checkpoint, 'sub_1', [event(6, 'dataset.removed')], 1);
    commit(checkpoint, 'sub_2', [event(6, 'dataset.resync_required', { version: 3 })], 1);
    expect(wantsOf(checkpoint, 1)).toMatchObject([
      {
        members: new Map([['sub_2', member({ eventNumber: 5n, since: NOW, announced: 3 })]]),
        formerMembers: new Map([['sub_1', formerMember({ eventNumber: 6n, at: NOW })]]),
        reloads: [{ subscriptionId: 'sub_2', eventNumber: 6n }],
      },
    ]);
    expect([...checkpoint.followed().values()].map(({ cursor }) => cursor)).toEqual([id(6), id(6)]);
  });
});

describe('what a subscription announced', () => {
  const went = (number: number) => event(number, 'dataset.updated', { version: 5 });
  const returned = event(9, 'dataset.added', { version: 1 });

  it('F46 is void with its drop, in whatever order the logs are read', async () => {
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
      const [wanted = desired()] = wantsOf(checkpoint, 1);
      expect([...wanted.members.keys()]).toEqual(['sub_1']);
      expect(announcedVersion(wanted)).toBe(1);
    }
  });

  it('is its own: a reload in one log does not lower what another announced', async () => {
    const checkpoint = await openNew();
    commit(checkpoint, 'sub_1', [event(1, 'dataset.added', { version: 1 }), went(2)], 1);
    commit(
      checkpoint,
      'sub_2',
      [event(1, 'dataset.added', { version: 1 }), event(2, 'dataset.resync_required', { version: 2 })],
      1,
    );
    const [wanted = desired()] = wantsOf(checkpoint, 1);
    expect([...wanted.members.values()].map(({ announced }) => announced)).toEqual([5, 2]);
    expect(announcedVersion(wanted)).toBe(5);
  });

  it('F82 leaves the reload that it asked for owed when it drops the dataset, and its announcement void', async () => {
    const checkpoint = await openNew();
    const first = [
      event(1, 'dataset.added', { version: 1, createdAt: at(-2) }),
      event(2, 'dataset.resync_required', { version: 3 }),
    ];
    commit(checkpoint, 'sub_1', first, 1);
    const joined = event(1, 'dataset.added', { version: 1, createdAt: at(-1) });
    commit(checkpoint, 'sub_2', [joined], 1, { version: 1 });
    commit(checkpoint, 'sub_1', [event(3, 'dataset.removed')], 1, { version: 1 });
    const [wanted = desired()] = wantsOf(checkpoint, 1);
    expect([...wanted.members.keys()]).toEqual(['sub_2']);
    expect(announcedVersion(wanted)).toBe(1);
    expect(wanted.reloads).toMatchObject([{ subscriptionId: 'sub_1', eventNumber: 2n }]);
  });
});

describe('the cursor', () => {
  it("is the page's highest, as numbers", () => {
    expect(cursorAfter([event(9, 'dataset.updated'), event(10, 'dataset.updated')], null)).toEqual(id(10));
    expect(cursorAfter([event(10, 'dataset.updated'), event(9, 'dataset.updated')], null)).toEqual(id(10));
    expect(cursorAfter([event(2, 'dataset.updated')], id(11))).toEqual(id(11));
  });

  it('counts events that cannot be read, where they have an id', () => {
    expect(cursorAfter([unreadable({ id: id(12) }), unreadable({ id: null })], id(11))).toEqual(id(12));
  });

  it('stays where the page is empty', () => {
    expect(cursorAfter([], null)).toBeNull();
    expect(cursorAfter([], id(3))).toEqual(id(3));
  });
});

describe('ids of events', () => {
  it.each([
    ['evt_0', 0n],
    ['evt_9', 9n],
    ['evt_010', 10n],
    ['evt_9223372036854775807', 2n ** 63n - 1n],
  ])('%s is one', (text, number) => {
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
  ])('%s is none', (text) => {
    expect(parseEventId(text)).toBeNull();
  });
});

describe('F27 replaying', () => {
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

  it('any page, once more and in any order, changes nothing but the looks', async () => {
    const checkpoint = await openNew();
    let runs = 0;
    await fc.assert(
      fc.asyncProperty(pages, tables, fc.infiniteStream(fc.nat()), async (page, table, keys) => {
        runs += 1;
        const subscriptionId = `sub_${runs}`;
        commit(checkpoint, subscriptionId, page, runs, table);
        const wanted = wantsOf(checkpoint, runs);
        commit(checkpoint, subscriptionId, page, runs, table);
        expect(wantsOf(checkpoint, runs)).toEqual(wanted);
        const shuffled = page.map((one) => [keys.next().value, one] as const);
        shuffled.sort(([left], [right]) => left - right);
        commit(
          checkpoint,
          subscriptionId,
          shuffled.map(([, one]) => one),
          runs,
          table,
        );
        expect(wantsOf(checkpoint, runs)).toEqual(wanted);
      }),
      { seed: SEED, numRuns: 60 },
    );
    expect(runs).toBeGreaterThanOrEqual(60);
  });

  it('an old removal in a later page does not take a member away that came back', async () => {
    const checkpoint = await openNew();
    commit(checkpoint, 'sub_1', [event(5, 'dataset.removed'), event(6, 'dataset.added', { version: 2 })], 1);
    commit(checkpoint, 'sub_1', [event(5, 'dataset.removed')], 1);
    const joined = member({ eventNumber: 6n, since: NOW, announced: 2 });
    expect(wantsOf(checkpoint, 1)).toMatchObject([
      { members: new Map([['sub_1', joined]]), formerMembers: new Map() },
    ]);
  });

  it('an update from before a reload does not raise the version that the reload lowered', async () => {
    const checkpoint = await openNew();
    commit(checkpoint, 'sub_1', [event(1, 'dataset.added', { version: 8 })], 1);
    commit(checkpoint, 'sub_1', [event(6, 'dataset.resync_required', { version: 2 })], 1);
    commit(checkpoint, 'sub_1', [event(5, 'dataset.updated', { version: 9 })], 1);
    expect(wantsOf(checkpoint, 1).map(announcedVersion)).toEqual([2]);
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

function wantsOf(checkpoint: Checkpoint, run: number): readonly DesiredState[] {
  return [...checkpoint.desiredStates().values()]
    .filter((one) => one.datasetId.startsWith(`${run} `))
    .map((one) => ({ ...one, refreshesRequested: 0 }));
}
