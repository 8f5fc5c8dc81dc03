/** How the changes of a step make wants grow, and that a change that comes again changes nothing. */

import { describe, expect, it } from 'vitest';
import type { Checkpoint } from '../../src/checkpoint/checkpoint.ts';
import { MAX_ID_CHARACTERS, MAX_TEXT_CHARACTERS } from '../../src/checkpoint/sqlite/limits.ts';
import { ContractViolationError } from '../../src/model/errors.ts';
import type { Want, WantChange } from '../../src/model/want.ts';
import {
  commit,
  event,
  NOON,
  NOON_CLOCK,
  openAt,
  openNew,
  temporaryPath,
} from '../support/checkpoint-files.ts';

const NEW_WANT: Want = {
  datasetId: 'd',
  members: new Set(),
  formerMembers: new Map(),
  removalReasons: new Map(),
  atLeastVersion: null,
  reloadAfter: new Map(),
  reloadAskedAt: new Map(),
  resyncsAsked: 0,
  resyncsDone: 0,
  looksAsked: 0,
  looksDone: 0,
  retirementApproved: false,
};

const member: WantChange = { kind: 'member', datasetId: 'd' };
const noMember: WantChange = { kind: 'no-member', datasetId: 'd' };
const look: WantChange = { kind: 'look', datasetId: 'd' };

function atLeast(version: number, eventNumber?: bigint): WantChange {
  return { kind: 'at-least', datasetId: 'd', version, ...(eventNumber === undefined ? {} : { eventNumber }) };
}

function reload(eventNumber: bigint, version: number | null): WantChange {
  return { kind: 'reload', datasetId: 'd', eventNumber, version };
}

function later(minutes: number): Date {
  return new Date(NOON.getTime() + minutes * 60_000);
}

/** The want after the changes, all made by one subscription in one step. */
async function wantAfter(...changes: WantChange[]): Promise<Want | undefined> {
  const checkpoint = await openNew();
  commit(checkpoint, 's', ...changes);
  return checkpoint.wants().get('d');
}

function wanted(checkpoint: Checkpoint): Want | undefined {
  return checkpoint.wants().get('d');
}

describe('members', () => {
  it('are counted per subscription', async () => {
    const checkpoint = await openNew();
    commit(checkpoint, 's', member);
    commit(checkpoint, 't', member);
    expect(wanted(checkpoint)).toEqual({ ...NEW_WANT, members: new Set(['s', 't']) });
  });

  it('become former ones, and members again', async () => {
    const checkpoint = await openNew();
    commit(checkpoint, 's', member, noMember);
    expect(wanted(checkpoint)).toEqual({ ...NEW_WANT, formerMembers: new Map([['s', null]]) });
    commit(checkpoint, 's', member);
    expect(wanted(checkpoint)).toEqual({ ...NEW_WANT, members: new Set(['s']) });
  });

  it('stay as the latest event decided when an earlier one comes again', async () => {
    const checkpoint = await openNew();
    const added: WantChange = { ...member, eventNumber: 9n };
    const removed: WantChange = { ...noMember, eventNumber: 10n };
    commit(checkpoint, 's', added, removed);
    commit(checkpoint, 's', added);
    expect(wanted(checkpoint)?.formerMembers).toEqual(new Map([['s', 10n]]));
    commit(checkpoint, 's', { ...member, eventNumber: 11n }, removed);
    expect(wanted(checkpoint)?.members).toEqual(new Set(['s']));
  });

  it('compare events within one subscription only', async () => {
    const checkpoint = await openNew();
    commit(checkpoint, 's', { ...member, eventNumber: 100n });
    commit(checkpoint, 't', { ...member, eventNumber: 5n }, { ...noMember, eventNumber: 6n });
    expect(wanted(checkpoint)).toMatchObject({
      members: new Set(['s']),
      formerMembers: new Map([['t', 6n]]),
    });
  });

  it('follow the manifest whatever event came before, and events after it', async () => {
    const checkpoint = await openNew();
    commit(checkpoint, 's', { ...noMember, eventNumber: 10n }, member, { ...noMember, eventNumber: 10n });
    expect(wanted(checkpoint)?.members).toEqual(new Set(['s']));
    commit(checkpoint, 's', { ...noMember, eventNumber: 12n });
    expect(wanted(checkpoint)?.members).toEqual(new Set());
  });

  it('that no event took away are told from those that one did, whatever event had added them', async () => {
    const checkpoint = await openNew();
    commit(checkpoint, 's', { ...member, eventNumber: 9n }, noMember);
    expect(wanted(checkpoint)?.formerMembers).toEqual(new Map([['s', null]]));
    commit(checkpoint, 's', member, { ...noMember, eventNumber: 10n });
    expect(wanted(checkpoint)?.formerMembers).toEqual(new Map([['s', 10n]]));
  });
});

describe('removals', () => {
  const dropped = (eventNumber: bigint, reason?: string): WantChange => ({
    ...noMember,
    eventNumber,
    ...(reason === undefined ? {} : { reason }),
  });

  it('say why, by subscription, until the dataset is held again', async () => {
    const checkpoint = await openNew();
    commit(checkpoint, 's', member, dropped(3n, 'left_coverage'));
    commit(checkpoint, 't', dropped(9n, 'withdrawn'));
    const reasons = new Map([
      ['s', 'left_coverage'],
      ['t', 'withdrawn'],
    ]);
    expect(wanted(checkpoint)?.removalReasons).toEqual(reasons);
    commit(checkpoint, 's', member);
    expect(wanted(checkpoint)?.removalReasons).toEqual(new Map([['t', 'withdrawn']]));
  });

  it('keep the reason when they are told again without one, and take a newer one', async () => {
    const checkpoint = await openNew();
    const reason = () => wanted(checkpoint)?.removalReasons.get('s');
    commit(checkpoint, 's', dropped(3n, 'left_coverage'), noMember, dropped(4n));
    expect(reason()).toBe('left_coverage');
    commit(checkpoint, 's', dropped(4n, 'repeated'));
    expect(reason()).toBe('left_coverage');
    commit(checkpoint, 's', dropped(5n, 'x'.repeat(MAX_TEXT_CHARACTERS + 1)));
    expect(reason()).toHaveLength(MAX_TEXT_CHARACTERS);
  });
});

describe('versions', () => {
  it('only rise', async () => {
    expect(await wantAfter(atLeast(3), atLeast(7), atLeast(5))).toEqual({ ...NEW_WANT, atLeastVersion: 7 });
  });

  it('are exact up to the largest safe number', async () => {
    expect((await wantAfter(atLeast(Number.MAX_SAFE_INTEGER)))?.atLeastVersion).toBe(Number.MAX_SAFE_INTEGER);
  });

  it('fall to that of a reload', async () => {
    expect(await wantAfter(atLeast(9), reload(5n, 3))).toEqual({
      ...NEW_WANT,
      atLeastVersion: 3,
      reloadAfter: new Map([['s', 5n]]),
      reloadAskedAt: new Map([['s', NOON]]),
    });
  });

  it('are unknown after a reload that names none', async () => {
    expect((await wantAfter(atLeast(9), reload(5n, null)))?.atLeastVersion).toBeNull();
  });

  it('rise again after a reload', async () => {
    expect((await wantAfter(reload(5n, 3), atLeast(4, 6n)))?.atLeastVersion).toBe(4);
  });

  it('are not raised by an event from before the reload of the same subscription', async () => {
    const checkpoint = await openNew();
    commit(checkpoint, 's', reload(5n, 3), atLeast(9, 4n));
    expect(wanted(checkpoint)?.atLeastVersion).toBe(3);
    commit(checkpoint, 't', atLeast(9, 4n));
    expect(wanted(checkpoint)?.atLeastVersion).toBe(9);
  });
});

describe('the versions of what is held no more', () => {
  it('say nothing of what comes in its place', async () => {
    const checkpoint = await openNew();
    commit(checkpoint, 's', member, atLeast(7, 3n));
    commit(checkpoint, 't', member, noMember);
    expect(wanted(checkpoint)?.atLeastVersion).toBe(7);
    commit(checkpoint, 's', { ...noMember, eventNumber: 5n });
    expect(wanted(checkpoint)?.atLeastVersion).toBeNull();
    commit(checkpoint, 't', member, atLeast(2));
    expect(wanted(checkpoint)?.atLeastVersion).toBe(2);
  });

  it('are not raised by an event from before the removal', async () => {
    const checkpoint = await openNew();
    commit(checkpoint, 's', member, atLeast(7, 3n), { ...noMember, eventNumber: 5n }, atLeast(7, 3n));
    expect(wanted(checkpoint)?.atLeastVersion).toBeNull();
    commit(checkpoint, 's', { ...member, eventNumber: 6n }, atLeast(2, 6n));
    expect(wanted(checkpoint)?.atLeastVersion).toBe(2);
  });
});

describe('the versions of what a manifest lacked', () => {
  it('are not raised by an event that comes again', async () => {
    const checkpoint = await openNew();
    commit(checkpoint, 's', member, atLeast(7, 3n), noMember, atLeast(7, 3n));
    expect(wanted(checkpoint)?.atLeastVersion).toBeNull();
    commit(checkpoint, 's', member, atLeast(2));
    expect(wanted(checkpoint)?.atLeastVersion).toBe(2);
  });
});

describe('the version that a position was taken with', () => {
  it('replaces what was announced before, whatever it was', async () => {
    const announced: WantChange = { kind: 'announced', datasetId: 'd', version: 2 };
    expect(await wantAfter(member, atLeast(7), announced)).toMatchObject({ atLeastVersion: 2 });
    expect(await wantAfter(member, announced, atLeast(3, 9n))).toMatchObject({ atLeastVersion: 3 });
  });
});

describe('reloads', () => {
  it('keep the newest event of each subscription', async () => {
    const checkpoint = await openNew();
    commit(checkpoint, 's', reload(10n, 4), reload(9n, 8));
    commit(checkpoint, 't', reload(2n, 4));
    expect(wanted(checkpoint)).toEqual({
      ...NEW_WANT,
      atLeastVersion: 4,
      reloadAfter: new Map([
        ['s', 10n],
        ['t', 2n],
      ]),
      reloadAskedAt: new Map([
        ['s', NOON],
        ['t', NOON],
      ]),
    });
  });

  it('change nothing when they come again', async () => {
    expect((await wantAfter(reload(5n, 3), atLeast(8, 6n), reload(5n, 3)))?.atLeastVersion).toBe(8);
  });

  it('remember when their event was first read', async () => {
    let now = NOON;
    const checkpoint = await openAt(temporaryPath('checkpoint.sqlite'), undefined, {
      ...NOON_CLOCK,
      now: () => now,
    });
    const askedAt = () => wanted(checkpoint)?.reloadAskedAt.get('s');
    commit(checkpoint, 's', reload(5n, 3));
    now = later(1);
    commit(checkpoint, 's', reload(5n, 3), reload(4n, 3));
    expect(askedAt()).toEqual(NOON);
    commit(checkpoint, 't', reload(6n, 3));
    expect(askedAt()).toEqual(NOON);
    commit(checkpoint, 's', reload(6n, 3));
    expect(askedAt()).toEqual(later(1));
  });

  it('hold 64-bit numbers exactly', async () => {
    const largest = 2n ** 63n - 1n;
    const checkpoint = await openNew();
    commit(checkpoint, 's', reload(largest - 1n, 1));
    commit(checkpoint, 's', reload(largest, 2));
    expect(wanted(checkpoint)).toMatchObject({ atLeastVersion: 2, reloadAfter: new Map([['s', largest]]) });
  });
});

describe('looks', () => {
  it('are owed each time one is asked for, and done up to those that were seen', async () => {
    const checkpoint = await openNew();
    commit(checkpoint, 's', look, look);
    checkpoint.markLooked('d', 1);
    expect(wanted(checkpoint)).toMatchObject({ looksAsked: 2, looksDone: 1 });
    checkpoint.markLooked('d', 2);
    checkpoint.markLooked('d', 1);
    expect(wanted(checkpoint)).toMatchObject({ looksAsked: 2, looksDone: 2 });
  });

  it('cannot be done before they are asked for', async () => {
    const checkpoint = await openNew();
    checkpoint.markLooked('d', 5);
    commit(checkpoint, 's', look);
    checkpoint.markLooked('d', 5);
    expect(wanted(checkpoint)).toMatchObject({ looksAsked: 1, looksDone: 1 });
  });
});

describe('a step', () => {
  const changes: readonly WantChange[] = [
    { ...member, eventNumber: 1n },
    atLeast(9, 2n),
    { ...noMember, eventNumber: 3n },
    { ...member, eventNumber: 4n },
    reload(4n, 2),
    atLeast(3, 5n),
    look,
  ];

  it('changes nothing but looks when it comes again, as a whole or an event at a time', async () => {
    const checkpoint = await openNew();
    commit(checkpoint, 's', ...changes);
    const once = wanted(checkpoint);
    expect(once).toEqual({
      ...NEW_WANT,
      members: new Set(['s']),
      atLeastVersion: 3,
      reloadAfter: new Map([['s', 4n]]),
      reloadAskedAt: new Map([['s', NOON]]),
      looksAsked: 1,
    });
    commit(checkpoint, 's', ...changes);
    for (const change of changes) commit(checkpoint, 's', change);
    expect(wanted(checkpoint)).toEqual({ ...once, looksAsked: 3 });
  });

  it('stores the cursor as it is, and the moment it moved', async () => {
    const path = temporaryPath('checkpoint.sqlite');
    let now = new Date('2026-01-01T00:00:00Z');
    const checkpoint = await openAt(path, undefined, { ...NOON_CLOCK, now: () => now });
    const step = { subscriptionId: 's', subscriptionName: 'Parcels', isQuiet: false, changes: [] };
    const largest = event(2n ** 63n - 1n);
    checkpoint.commitFollowStep({ ...step, cursor: largest });
    const moved = { subscriptionId: 's', name: 'Parcels', cursor: largest, cursorAt: now, quietReadAt: null };
    expect(checkpoint.followed()).toEqual(new Map([['s', moved]]));

    now = new Date('2026-01-02T00:00:00Z');
    checkpoint.commitFollowStep({ ...step, cursor: largest, subscriptionName: null });
    expect(checkpoint.followed().get('s')).toEqual({ ...moved, name: null });
    checkpoint.commitFollowStep({ ...step, cursor: { text: 'evt_007', number: 7n } });
    expect(checkpoint.followed().get('s')).toMatchObject({
      cursor: { text: 'evt_007', number: 7n },
      cursorAt: now,
    });
    checkpoint.commitFollowStep({ ...step, cursor: null });
    expect(checkpoint.followed().get('s')?.cursor).toBeNull();
  });

  it('says since when a log is read from its start because it is quiet', async () => {
    let now = NOON;
    const checkpoint = await openAt(temporaryPath('checkpoint.sqlite'), undefined, {
      ...NOON_CLOCK,
      now: () => now,
    });
    const step = { subscriptionId: 's', subscriptionName: null, cursor: event(8n), changes: [] };
    const followed = () => checkpoint.followed().get('s');
    checkpoint.commitFollowStep({ ...step, isQuiet: true });
    now = later(1);
    checkpoint.commitFollowStep({ ...step, isQuiet: true });
    expect(followed()).toMatchObject({ cursorAt: NOON, quietReadAt: later(1) });
    checkpoint.commitFollowStep({ ...step, isQuiet: false });
    expect(followed()).toMatchObject({ cursorAt: NOON, quietReadAt: null });
  });

  it.each([
    ['too long', 'd'.repeat(MAX_ID_CHARACTERS + 1)],
    ['half a character', 'd\ud800'],
  ])('stores nothing of itself where an id is %s', async (_, datasetId) => {
    const checkpoint = await openNew();
    expect(() => commit(checkpoint, 's', member, { kind: 'look', datasetId })).toThrow(
      ContractViolationError,
    );
    expect(() => commit(checkpoint, datasetId, member)).toThrow(ContractViolationError);
    expect(checkpoint.wants().size).toBe(0);
    expect(checkpoint.followed().size).toBe(0);
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
  for (const id of ids) {
    const change = { datasetId: id, eventNumber: 1n } as const;
    commit(checkpoint, id, { ...change, kind: 'member' }, { ...change, kind: 'reload', version: 1 });
  }
  checkpoint.close();
  const again = await openAt(path);
  expect([...again.wants().keys()].sort()).toEqual([...ids].sort());
  expect([...again.followed().keys()].sort()).toEqual([...ids].sort());
  for (const id of ids) {
    expect(again.wants().get(id)).toMatchObject({ members: new Set([id]), reloadAfter: new Map([[id, 1n]]) });
  }
});
