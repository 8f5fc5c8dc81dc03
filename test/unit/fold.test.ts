/** Events become wants. Where it matters what the wants then are, a real checkpoint keeps them. */

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Checkpoint } from '../../src/checkpoint/checkpoint.ts';
import { EVENT_TYPES, type FeedEvent, parseEventId } from '../../src/model/event.ts';
import type { Want, WantChange } from '../../src/model/want.ts';
import { cursorAfter, foldEvents } from '../../src/sync/follow/fold.ts';
import { openNew } from '../support/checkpoint-files.ts';
import { SEED } from '../support/seed.ts';
import { event, id, unreadable, want } from '../support/sync-values.ts';

const noWants: ReadonlyMap<string, Want> = new Map();
const datasetId = 'parcels';

describe('each type of event', () => {
  it.each([
    [
      event(7, 'dataset.added', { version: 3 }),
      [
        { kind: 'member', datasetId, eventNumber: 7n },
        { kind: 'at-least', datasetId, version: 3, eventNumber: 7n },
      ],
    ],
    [
      event(7, 'dataset.added'),
      [
        { kind: 'member', datasetId, eventNumber: 7n },
        { kind: 'look', datasetId },
      ],
    ],
    [
      event(7, 'dataset.updated', { version: 3 }),
      [{ kind: 'at-least', datasetId, version: 3, eventNumber: 7n }],
    ],
    [event(7, 'dataset.updated'), [{ kind: 'look', datasetId }]],
    [event(7, 'dataset.schema_changed', { version: 3, schemaVersion: '2' }), [{ kind: 'look', datasetId }]],
    [
      event(7, 'dataset.resync_required', { version: 3 }),
      [{ kind: 'reload', datasetId, eventNumber: 7n, version: 3 }],
    ],
    [event(7, 'dataset.resync_required'), [{ kind: 'reload', datasetId, eventNumber: 7n, version: null }]],
    [event(7, 'dataset.removed'), [{ kind: 'no-member', datasetId, eventNumber: 7n }]],
  ])('$type with version $version', (given, expected) => {
    expect(foldEvents([given], 'sub_1', noWants)).toEqual(expected);
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
    expect(foldEvents([event(7, 'dataset.resync_required', { reason })], 'sub_1', noWants)).toEqual([
      { kind: 'reload', datasetId, eventNumber: 7n, version: null },
    ]);
    expect(foldEvents([event(7, 'dataset.removed', { reason })], 'sub_1', noWants)).toEqual([
      { kind: 'no-member', datasetId, eventNumber: 7n, ...(reason === null ? {} : { reason }) },
    ]);
  });

  it('one that cannot be read makes the dataset it names be looked at', () => {
    expect(foldEvents([unreadable()], 'sub_1', noWants)).toEqual([{ kind: 'look', datasetId }]);
    expect(foldEvents([unreadable({ id: null })], 'sub_1', noWants)).toEqual([{ kind: 'look', datasetId }]);
    expect(foldEvents([unreadable({ datasetId: null })], 'sub_1', noWants)).toEqual([]);
  });
});

describe('an addition after a removal is a reload', () => {
  const added = event(9, 'dataset.added', { version: 2 });
  const reload = { kind: 'reload', datasetId, eventNumber: 9n, version: 2 };

  it('in one page', () => {
    expect(foldEvents([event(8, 'dataset.removed'), added], 'sub_1', noWants)).toContainEqual(reload);
  });

  it('in one page that is out of order', () => {
    const page = [added, event(8, 'dataset.removed')];
    expect(foldEvents(page, 'sub_1', noWants).map(({ kind }) => kind)).toEqual([
      'no-member',
      'member',
      'reload',
    ]);
  });

  it('across pages', () => {
    const wants = new Map([
      [datasetId, want({ members: new Set(), formerMembers: new Map([['sub_1', 8n]]) })],
    ]);
    expect(foldEvents([added], 'sub_1', wants)).toContainEqual(reload);
  });

  it('also where what removed it was no event', () => {
    const wants = new Map([
      [datasetId, want({ members: new Set(), formerMembers: new Map([['sub_1', null]]) })],
    ]);
    expect(foldEvents([added], 'sub_1', wants)).toContainEqual(reload);
  });

  it('but not one from before the removal', () => {
    const wants = new Map([
      [datasetId, want({ members: new Set(), formerMembers: new Map([['sub_1', 10n]]) })],
    ]);
    expect(foldEvents([added], 'sub_1', wants)).not.toContainEqual(reload);
  });

  it('nor after the removal from another subscription', () => {
    const wants = new Map([[datasetId, want({ formerMembers: new Map([['sub_2', 8n]]) })]]);
    expect(foldEvents([added], 'sub_1', wants)).not.toContainEqual(reload);
  });

  it('nor after the removal of another dataset', () => {
    const page = [event(8, 'dataset.removed', { datasetId: 'permits' }), added];
    expect(foldEvents(page, 'sub_1', noWants)).not.toContainEqual(reload);
  });

  it('and each of several in one page is one', () => {
    const page = [
      event(1, 'dataset.removed'),
      event(2, 'dataset.added'),
      event(3, 'dataset.removed'),
      event(4, 'dataset.added'),
    ];
    const reloads = foldEvents(page, 'sub_1', noWants).filter(({ kind }) => kind === 'reload');
    expect(reloads).toMatchObject([{ eventNumber: 2n }, { eventNumber: 4n }]);
  });
});

/**
 * Every type × with and without a version × what was wanted before. `added` alone depends on what came before it; a
 * member that is added again only asks for its version.
 */
describe('what an event asks for, whatever was wanted before', () => {
  const before: Readonly<Record<string, Want | null>> = {
    'never heard of': null,
    'a member': want(),
    'a member of another subscription': want({ members: new Set(['sub_2']) }),
    'removed before': want({ members: new Set(), formerMembers: new Map([['sub_1', 6n]]) }),
    'removed before, and held by another': want({
      members: new Set(['sub_2']),
      formerMembers: new Map([['sub_1', 6n]]),
    }),
    'absent for no event': want({ members: new Set(), formerMembers: new Map([['sub_1', null]]) }),
    'removed later': want({ members: new Set(), formerMembers: new Map([['sub_1', 8n]]) }),
  };
  const wasRemoved = ['removed before', 'removed before, and held by another', 'absent for no event'];
  const cases = Object.entries(before).flatMap(([state, wanted]) =>
    EVENT_TYPES.flatMap((type) => [3, null].map((version) => ({ state, wanted, type, version }))),
  );

  it.each(cases)('W3 W4 W5 W6 W7 W8 $type, version $version: $state', ({ state, wanted, type, version }) => {
    const wants = new Map(wanted === null ? [] : [[datasetId, wanted]]);
    const kindOfVersion = version === null ? 'look' : 'at-least';
    const kinds = {
      'dataset.added': ['member', wasRemoved.includes(state) ? 'reload' : kindOfVersion],
      'dataset.updated': [kindOfVersion],
      'dataset.schema_changed': ['look'],
      'dataset.resync_required': ['reload'],
      'dataset.removed': ['no-member'],
    }[type];
    const changes = foldEvents([event(7, type, { version })], 'sub_1', wants);
    expect(changes.map(({ kind }) => kind)).toEqual(kinds);
    for (const change of changes) expectFromEvent(change, version);
  });
});

function expectFromEvent(change: WantChange, version: number | null): void {
  expect(change.datasetId).toBe(datasetId);
  if (change.kind !== 'look' && change.kind !== 'announced') expect(change.eventNumber).toBe(7n);
  if (change.kind === 'at-least' || change.kind === 'reload') expect(change.version).toBe(version);
}

describe('F27 order', () => {
  it('W11 is that of the numbers, beyond what a double holds, too', () => {
    const large = 2n ** 53n;
    const page = [event(large + 1n, 'dataset.added'), event(large, 'dataset.removed')];
    expect(foldEvents(page, 'sub_1', noWants)).toEqual([
      { kind: 'no-member', datasetId, eventNumber: large },
      { kind: 'member', datasetId, eventNumber: large + 1n },
      { kind: 'reload', datasetId, eventNumber: large + 1n, version: null },
    ]);
    expect(cursorAfter(page, id(large))).toEqual(id(large + 1n));
  });

  it('W11 is not that of the texts: evt_9 comes before evt_10', () => {
    const page = [event(10, 'dataset.removed'), event(9, 'dataset.added')];
    expect(foldEvents(page, 'sub_1', noWants).map(({ kind }) => kind)).toEqual([
      'member',
      'look',
      'no-member',
    ]);
  });

  it('W11 is of one subscription alone: the same numbers in another decide nothing here', async () => {
    const checkpoint = await openNew();
    commit(checkpoint, 'sub_1', [event(5, 'dataset.added', { version: 4 })], 1);
    commit(checkpoint, 'sub_2', [event(5, 'dataset.added', { version: 4 })], 1);
    commit(checkpoint, 'sub_1', [event(6, 'dataset.removed')], 1);
    commit(checkpoint, 'sub_2', [event(6, 'dataset.resync_required', { version: 3 })], 1);
    expect(wantsOf(checkpoint, 1)).toMatchObject([
      {
        members: new Set(['sub_2']),
        formerMembers: new Map([['sub_1', 6n]]),
        reloadAfter: new Map([['sub_2', 6n]]),
        atLeastVersion: 3,
      },
    ]);
    expect([...checkpoint.followed().values()].map(({ cursor }) => cursor)).toEqual([id(6), id(6)]);
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

  it('any page, once more and in any order, changes nothing but the looks', async () => {
    const checkpoint = await openNew();
    let runs = 0;
    await fc.assert(
      fc.asyncProperty(pages, fc.infiniteStream(fc.nat()), async (page, keys) => {
        runs += 1;
        const subscriptionId = `sub_${runs}`;
        commit(checkpoint, subscriptionId, page, runs);
        const wanted = wantsOf(checkpoint, runs);
        commit(checkpoint, subscriptionId, page, runs);
        expect(wantsOf(checkpoint, runs)).toEqual(wanted);
        const shuffled = page.map((one) => [keys.next().value, one] as const);
        shuffled.sort(([left], [right]) => left - right);
        commit(
          checkpoint,
          subscriptionId,
          shuffled.map(([, one]) => one),
          runs,
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
    expect(wantsOf(checkpoint, 1)).toMatchObject([{ members: new Set(['sub_1']), formerMembers: new Map() }]);
  });

  it('an update from before a reload does not raise the version that the reload lowered', async () => {
    const checkpoint = await openNew();
    commit(checkpoint, 'sub_1', [event(6, 'dataset.resync_required', { version: 2 })], 1);
    commit(checkpoint, 'sub_1', [event(5, 'dataset.updated', { version: 9 })], 1);
    expect(wantsOf(checkpoint, 1)).toMatchObject([{ atLeastVersion: 2 }]);
  });
});

/** Each run has datasets of its own, so that one checkpoint serves them all. */
function commit(
  checkpoint: Checkpoint,
  subscriptionId: string,
  page: readonly FeedEvent[],
  run: number,
): void {
  const events = page.map((one) => ({ ...one, datasetId: `${run} ${one.datasetId}` }));
  checkpoint.commitFollowStep({
    subscriptionId,
    subscriptionName: null,
    cursor: cursorAfter(events, null),
    isQuiet: false,
    changes: foldEvents(events, subscriptionId, checkpoint.wants()),
  });
}

function wantsOf(checkpoint: Checkpoint, run: number): readonly Omit<Want, 'looksAsked'>[] {
  return [...checkpoint.wants().values()]
    .filter((one) => one.datasetId.startsWith(`${run} `))
    .map(({ looksAsked: _, ...rest }) => rest);
}
