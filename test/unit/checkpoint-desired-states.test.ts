/**
 * A desired state is stored with the step that changes it, and read as it was stored. The rules of its changes are tested beside the
 * rules (desired-state-changes.test.ts); here, that they are asked and that what they decide is kept.
 */

import { describe, expect, it } from 'vitest';
import type { Checkpoint } from '../../src/checkpoint/checkpoint.ts';
import { MAX_ID_CHARACTERS, MAX_TEXT_CHARACTERS } from '../../src/checkpoint/sqlite/table.ts';
import {
  type DesiredState,
  type DesiredStateChange,
  emptyDesiredState,
  type FollowStep,
} from '../../src/model/desired-state.ts';
import { ContractViolationError } from '../../src/model/errors.ts';
import {
  commit,
  dropped,
  event,
  followedAt,
  joined,
  NOON,
  openAt,
  openNew,
  position,
  reloadAsked,
  temporaryPath,
} from '../support/checkpoint-files.ts';
import { formerMember, LONG_AGO, member, reload } from '../support/sync-values.ts';

const LARGEST = 2n ** 63n - 1n;
const refresh: DesiredStateChange = { kind: 'refresh', datasetId: 'd' };

function later(minutes: number): Date {
  return new Date(NOON.getTime() + minutes * 60_000);
}

function atLeast(version: number, eventNumber: bigint): DesiredStateChange {
  return { kind: 'at-least', datasetId: 'd', version, eventNumber };
}

function desiredOf(checkpoint: Checkpoint): DesiredState | null {
  return checkpoint.desired('d');
}

describe('a stored desired state', () => {
  it('reads a desired state in full as it was stored, also in another process', async () => {
    const path = temporaryPath('checkpoint.sqlite');
    const checkpoint = await openAt(path);
    commit(
      checkpoint,
      's',
      joined('d', { eventNumber: LARGEST - 1n, at: NOON, version: Number.MAX_SAFE_INTEGER }),
      reloadAsked('d', LARGEST, {
        logNumber: 3,
        createdAt: later(1),
        readAt: later(2),
        knownVersion: Number.MAX_SAFE_INTEGER,
        isWithdrawal: true,
      }),
      refresh,
    );
    commit(checkpoint, 't', joined('d'), reloadAsked('d', 9n), reloadAsked('d', 7n), reloadAsked('d', 8n));
    commit(checkpoint, 'u', dropped('d', { eventNumber: 5n, at: NOON, reason: "it's left" }));
    checkpoint.requestResync(['d']);
    const expected: DesiredState = {
      ...emptyDesiredState('d'),
      members: new Map([
        ['s', { eventNumber: LARGEST - 1n, since: NOON, announced: Number.MAX_SAFE_INTEGER }],
        ['t', member()],
      ]),
      formerMembers: new Map([['u', { eventNumber: 5n, at: NOON, reason: "it's left" }]]),
      reloads: [
        ...[7, 8, 9].map((number) => reload(number, { subscriptionId: 't' })),
        {
          subscriptionId: 's',
          logNumber: 3,
          eventNumber: LARGEST,
          createdAt: later(1),
          readAt: later(2),
          knownVersion: Number.MAX_SAFE_INTEGER,
          listedVersion: null,
          isWithdrawal: true,
        },
      ],
      resyncNumber: NOON.getTime(),
      refreshesRequested: 1,
    };
    expect(desiredOf(checkpoint)).toEqual(expected);
    expect(desiredOf(await openAt(path))).toEqual(expected);
    expect(checkpoint.desiredStates()).toEqual(new Map([['d', expected]]));
  });

  it('keeps the desired states of datasets apart', async () => {
    const checkpoint = await openNew();
    commit(checkpoint, 's', joined('d'), joined('e'), reloadAsked('e', 3n), dropped('f'));
    expect(checkpoint.desired('d')).toEqual({
      ...emptyDesiredState('d'),
      members: new Map([['s', member()]]),
    });
    expect(checkpoint.desired('f')?.formerMembers).toEqual(new Map([['s', formerMember()]]));
    expect(checkpoint.desired('g')).toBeNull();
    expect([...checkpoint.desiredStates().keys()]).toEqual(['d', 'e', 'f']);
  });

  it('cuts reasons to their limit', async () => {
    const checkpoint = await openNew();
    commit(checkpoint, 's', dropped('d', { reason: 'x'.repeat(MAX_TEXT_CHARACTERS + 1) }));
    expect(desiredOf(checkpoint)?.formerMembers.get('s')?.reason).toHaveLength(MAX_TEXT_CHARACTERS);
  });

  it('stores nothing for a table that no subscription is known to contain', async () => {
    const checkpoint = await openNew();
    commit(checkpoint, 's', refresh, atLeast(3, 1n), reloadAsked('d', 2n));
    checkpoint.noteListed('d', 3);
    checkpoint.voidAnnounced('d', 3);
    checkpoint.noteRetired('d', []);
    checkpoint.markSatisfied('d', () => true);
    checkpoint.markRefreshed('d', 1);
    expect(checkpoint.desiredStates().size).toBe(0);
  });
});

describe('announced versions and reloads', () => {
  async function asked(): Promise<Checkpoint> {
    const checkpoint = await openNew();
    commit(checkpoint, 's', joined('d', { version: 9 }), reloadAsked('d', 5n), reloadAsked('d', 6n));
    commit(checkpoint, 't', joined('d', { version: 4 }), reloadAsked('d', 2n));
    return checkpoint;
  }

  it('notes for each reload the newest version of the first list that was read after it', async () => {
    const checkpoint = await asked();
    checkpoint.noteListed('d', 7);
    commit(checkpoint, 's', reloadAsked('d', 8n));
    checkpoint.noteListed('d', 9);
    const listed = desiredOf(checkpoint)?.reloads.map(({ eventNumber, listedVersion }) => [
      eventNumber,
      listedVersion,
    ]);
    expect(listed).toEqual([
      [2n, 7],
      [5n, 7],
      [6n, 7],
      [8n, 9],
    ]);
  });

  it('F50 lowers what was announced above a void version to the version given', async () => {
    const checkpoint = await asked();
    checkpoint.voidAnnounced('d', 4);
    expect(desiredOf(checkpoint)?.members).toEqual(
      new Map([
        ['s', member({ announced: 4 })],
        ['t', member({ announced: 4 })],
      ]),
    );
  });

  it('keeps the newest satisfied reload of each subscription', async () => {
    const checkpoint = await asked();
    checkpoint.markSatisfied('d', () => true);
    expect(desiredOf(checkpoint)?.reloads).toEqual([
      reload(2, { subscriptionId: 't' }),
      reload(6, { subscriptionId: 's' }),
    ]);
  });

  it('owes only the given reloads once a table is retired, and still knows the former members', async () => {
    const checkpoint = await asked();
    for (const id of ['s', 't']) commit(checkpoint, id, dropped('d'));
    expect(desiredOf(checkpoint)?.reloads).toHaveLength(3);
    checkpoint.noteRetired('d', [reload(9)]);
    expect(desiredOf(checkpoint)).toMatchObject({
      reloads: [reload(9)],
      formerMembers: new Map([
        ['s', formerMember()],
        ['t', formerMember()],
      ]),
    });
  });
});

describe('metadata refreshes', () => {
  it('counts every metadata refresh that is requested, and as done those that were seen', async () => {
    const checkpoint = await openNew();
    commit(checkpoint, 's', joined('d'), refresh, refresh);
    checkpoint.markRefreshed('d', 1);
    expect(desiredOf(checkpoint)).toMatchObject({ refreshesRequested: 2, refreshesDone: 1 });
    checkpoint.markRefreshed('d', 2);
    checkpoint.markRefreshed('d', 1);
    expect(desiredOf(checkpoint)).toMatchObject({ refreshesRequested: 2, refreshesDone: 2 });
  });

  it('a metadata refresh cannot be done before it is requested', async () => {
    const checkpoint = await openNew();
    checkpoint.markRefreshed('d', 5);
    commit(checkpoint, 's', joined('d'), refresh);
    checkpoint.markRefreshed('d', 5);
    expect(desiredOf(checkpoint)).toMatchObject({ refreshesRequested: 1, refreshesDone: 1 });
  });
});

describe('a follow step', () => {
  const changes: readonly DesiredStateChange[] = [
    joined('d', { eventNumber: 1n }),
    atLeast(9, 2n),
    dropped('d', { eventNumber: 3n }),
    joined('d', { eventNumber: 4n, version: 2 }),
    reloadAsked('d', 4n, { version: 2 }),
    atLeast(3, 5n),
    refresh,
  ];

  it('a step that comes again changes nothing but refreshes, as a whole or an event at a time', async () => {
    const checkpoint = await openNew();
    commit(checkpoint, 's', ...changes);
    const once = desiredOf(checkpoint);
    expect(once).toEqual({
      ...emptyDesiredState('d'),
      members: new Map([['s', member({ eventNumber: 4n, announced: 3 })]]),
      reloads: [reload(4, { subscriptionId: 's' })],
      refreshesRequested: 1,
    });
    commit(checkpoint, 's', ...changes);
    for (const change of changes) commit(checkpoint, 's', change);
    expect(desiredOf(checkpoint)).toEqual({ ...once, refreshesRequested: 3 });
  });

  const step: FollowStep = {
    subscriptionId: 's',
    subscriptionName: 'Parcels',
    position: position(event(LARGEST)),
    changes: [],
  };

  it('stores the position as it is, and the service time at which it moved', async () => {
    const checkpoint = await openNew();
    const at = position(event(LARGEST), {
      logNumber: 2,
      cursorCreatedAt: LONG_AGO,
      coveredUntil: later(-15),
    });
    checkpoint.commitFollowStep({ ...step, position: at });
    const moved = followedAt(event(LARGEST), {
      name: 'Parcels',
      logNumber: 2,
      cursorCreatedAt: LONG_AGO,
      coveredUntil: later(-15),
    });
    expect(checkpoint.followed()).toEqual(new Map([['s', moved]]));

    checkpoint.commitFollowStep({ ...step, subscriptionName: null, position: { ...at, readAt: later(1) } });
    expect(checkpoint.followed().get('s')).toEqual({ ...moved, name: null });
    const padded = { text: 'evt_007', number: 7n };
    checkpoint.commitFollowStep({ ...step, position: position(padded, { readAt: later(2) }) });
    expect(checkpoint.followed().get('s')).toEqual(
      followedAt(padded, { name: 'Parcels', cursorAt: later(2) }),
    );
    checkpoint.commitFollowStep({ ...step, position: position(null) });
    expect(checkpoint.followed().get('s')?.cursor).toBeNull();
  });

  it('F81 moves the position also where a restarted log has the same event number', async () => {
    const checkpoint = await openNew();
    checkpoint.commitFollowStep({ ...step, position: position(event(5n)) });
    checkpoint.commitFollowStep({
      ...step,
      position: position(event(5n), { logNumber: 2, readAt: later(9) }),
    });
    expect(checkpoint.followed().get('s')).toMatchObject({ logNumber: 2, cursorAt: later(9) });
  });

  it('stores when a quiet log was last read from its start', async () => {
    const checkpoint = await openNew();
    const followed = () => checkpoint.followed().get('s');
    const quiet = (minutes: number, isExpiredCursorReplay: boolean) =>
      checkpoint.commitFollowStep({
        ...step,
        position: position(event(8n), { isExpiredCursorReplay, readAt: later(minutes) }),
      });
    quiet(0, true);
    quiet(1, true);
    expect(followed()).toMatchObject({ cursorAt: NOON, replayedAt: later(1) });
    quiet(2, false);
    expect(followed()).toMatchObject({ cursorAt: NOON, replayedAt: null });
  });

  it('a step keeps that a record has named its newest event', async () => {
    const checkpoint = await openNew();
    checkpoint.noteStatedLastEvent('unknown');
    checkpoint.commitFollowStep(step);
    checkpoint.noteStatedLastEvent('s');
    checkpoint.commitFollowStep({ ...step, position: position(event(3n)) });
    expect([...checkpoint.followed().values()]).toMatchObject([
      { subscriptionId: 's', statesLastEvent: true },
    ]);
  });

  it('stores that a record has named its newest event, in this log and in no other', async () => {
    const checkpoint = await openNew();
    const stated = () => checkpoint.followed().get('s')?.statesLastEvent;
    checkpoint.adopt([{ ...step, statesLastEvent: false }], []);
    expect(stated()).toBe(false);
    checkpoint.adopt([{ ...step, statesLastEvent: true }], []);
    expect(stated()).toBe(true);
    checkpoint.adopt([{ ...step, statesLastEvent: false }], []);
    expect(stated()).toBe(true);
    checkpoint.adopt(
      [{ ...step, position: position(event(5n), { logNumber: 2 }), statesLastEvent: false }],
      [],
    );
    expect(stated()).toBe(false);
  });

  it('F81 a step of a restarted log voids the numbers of the old one first', async () => {
    const checkpoint = await openNew();
    commit(checkpoint, 's', joined('d', { eventNumber: 90n, version: 9 }), reloadAsked('d', 91n));
    commit(
      checkpoint,
      's',
      joined('e', { eventNumber: 92n }),
      dropped('f', { eventNumber: 93n, reason: 'left' }),
    );
    commit(checkpoint, 't', joined('d', { eventNumber: 50n, version: 4 }), reloadAsked('d', 51n));
    checkpoint.commitFollowStep({
      ...step,
      voids: 'numbers',
      position: position(event(2n), { logNumber: 2, readAt: later(1) }),
      changes: [
        joined('d', { eventNumber: 2n, at: later(1), version: 1 }),
        reloadAsked('d', 2n, { logNumber: 2 }),
      ],
    });
    expect(desiredOf(checkpoint)).toEqual({
      ...emptyDesiredState('d'),
      members: new Map([
        ['s', { eventNumber: 2n, since: later(1), announced: 1 }],
        ['t', member({ eventNumber: 50n, announced: 4 })],
      ]),
      reloads: [reload(2, { subscriptionId: 's', logNumber: 2 }), reload(51, { subscriptionId: 't' })],
    });
    expect(checkpoint.desired('e')?.members).toEqual(new Map([['s', member()]]));
    expect(checkpoint.desired('f')?.formerMembers).toEqual(
      new Map([['s', formerMember({ reason: 'left' })]]),
    );
  });

  it.each([
    ['too long', 'd'.repeat(MAX_ID_CHARACTERS + 1)],
    ['half a character', 'd\ud800'],
  ])('stores nothing of a step where an id is %s', async (_, datasetId) => {
    const checkpoint = await openNew();
    for (const change of [joined(datasetId), { kind: 'refresh', datasetId } as const]) {
      expect(() => commit(checkpoint, 's', joined('d'), change)).toThrow(ContractViolationError);
    }
    expect(() => commit(checkpoint, datasetId, joined('d'))).toThrow(ContractViolationError);
    expect(checkpoint.desiredStates().size).toBe(0);
    expect(checkpoint.followed().size).toBe(0);
  });
});

describe('W43 the adoption of stored progress', () => {
  it('replaces everything of the adopted subscriptions, and nothing of others, as one', async () => {
    const checkpoint = await openNew();
    for (const id of ['s', 't'])
      commit(checkpoint, id, joined('old', { version: 9 }), reloadAsked('old', 5n));
    const taken = (subscriptionId: string, ...changes: DesiredStateChange[]): FollowStep => ({
      subscriptionId,
      subscriptionName: null,
      voids: 'everything',
      position: position(event(7n)),
      changes,
    });
    checkpoint.adopt([taken('s', joined('d'), reloadAsked('d', 7n)), taken('u', joined('d'))], []);
    expect(checkpoint.desired('old')).toEqual({
      ...emptyDesiredState('old'),
      members: new Map([['t', member({ announced: 9 })]]),
      reloads: [reload(5, { subscriptionId: 't' })],
    });
    expect(desiredOf(checkpoint)).toEqual({
      ...emptyDesiredState('d'),
      members: new Map([
        ['s', member()],
        ['u', member()],
      ]),
      reloads: [reload(7, { subscriptionId: 's' })],
    });
    expect(checkpoint.followed().get('s')?.cursor).toEqual(event(7n));
    expect(() => checkpoint.adopt([taken('v', joined('d')), taken('w', joined('\ud800'))], [])).toThrow(
      ContractViolationError,
    );
    expect([...checkpoint.followed().keys()]).toEqual(['s', 't', 'u']);
  });
});

it('keeps hostile ids apart and whole', async () => {
  const path = temporaryPath('checkpoint.sqlite');
  const ids = [
    '',
    "'; DROP TABLE wants; --",
    '"quoted"',
    '__proto__',
    'constructor',
    'a\0b',
    'a\0c',
    'a',
    'A',
    ' a ',
    'é',
    'e\u0301',
    '🌍\u202e',
    '%_',
    '\n\t\u0001',
    '0',
    '00',
    'x'.repeat(MAX_ID_CHARACTERS),
  ];
  const checkpoint = await openAt(path);
  for (const id of ids) commit(checkpoint, id, joined(id), reloadAsked(id, 1n));
  checkpoint.close();
  const again = await openAt(path);
  expect([...again.desiredStates().keys()].sort()).toEqual([...ids].sort());
  expect([...again.followed().keys()].sort()).toEqual([...ids].sort());
  for (const id of ids) {
    expect(again.desired(id)).toMatchObject({
      members: new Map([[id, member()]]),
      reloads: [reload(1, { subscriptionId: id })],
    });
  }
});
