/**
 * That something is gone without an event is believed of two complete reads far enough apart, with none in between that shows
 * it, in service time, whichever way that jumps; and what was noted of it goes with what it was noted of.
 */

import { describe, expect, it } from 'vitest';
import type { Checkpoint } from '../../src/checkpoint/checkpoint.ts';
import {
  type AbsenceSubject,
  absenceKey,
  absentSince,
  confirmedAt,
  isConfirmed,
} from '../../src/model/absence.ts';
import { noteAbsences } from '../../src/sync/follow/audit.ts';
import { commit, dropped, joined, openAt, openNew, temporaryPath } from '../support/checkpoint-files.ts';
import { elapse, kinds, oneSubscription } from '../support/small-world.ts';
import { NOW } from '../support/sync-values.ts';

const MEMBER = { kind: 'member', subscriptionId: 's', datasetId: 'd' } as const;
const SUBSCRIPTION = { kind: 'subscription', subscriptionId: 's' } as const;
const LOG = { kind: 'log', subscriptionId: 's' } as const;
const VERSION = { kind: 'version', datasetId: 'd', version: 3 } as const;
const TABLE = { kind: 'table', datasetId: 'd' } as const;
const SUBJECTS: readonly AbsenceSubject[] = [MEMBER, SUBSCRIPTION, LOG, VERSION, TABLE];

/** So many minutes after noon. */
function at(minutes: number): Date {
  return new Date(NOW.getTime() + minutes * 60_000);
}

/** A complete read that lacks the subject. Gives whether that confirms that it is gone. */
function lacks(checkpoint: Checkpoint, minutes: number, subject: AbsenceSubject = MEMBER): boolean {
  return noteAbsences([subject], [], at(minutes), { checkpoint }).length > 0;
}

/** A complete read that shows it. */
function shows(checkpoint: Checkpoint, minutes: number, subject: AbsenceSubject = MEMBER): void {
  expect(noteAbsences([], [subject], at(minutes), { checkpoint })).toEqual([]);
}

describe('the time after which an absence is confirmed', () => {
  it.each([
    [MEMBER, 10],
    [SUBSCRIPTION, 10],
    [LOG, 10],
    [TABLE, 10],
    [VERSION, 60],
  ] as const)('confirms the absence of %o after %i minutes', (subject, minutes) => {
    const absence = { subject, since: NOW };
    expect(confirmedAt(absence)).toEqual(at(minutes));
    expect(isConfirmed(absence, at(minutes - 0.001))).toBe(false);
    expect(isConfirmed(absence, at(minutes))).toBe(true);
    expect(isConfirmed(absence, at(minutes + 10_000))).toBe(true);
  });

  it('W44 F52 does not confirm an absence that was noted at a later service time', () => {
    expect(isConfirmed({ subject: MEMBER, since: at(30) }, NOW)).toBe(false);
    expect(absentSince(at(30), NOW)).toEqual(NOW);
    expect(absentSince(NOW, at(30))).toEqual(NOW);
    expect(absentSince(null, NOW)).toEqual(NOW);
  });
});

describe('F55 a subject that a complete reading lacks', () => {
  it('confirms an absence by a second reading ten minutes later, and no sooner', async () => {
    const checkpoint = await openNew();
    expect(lacks(checkpoint, 0)).toBe(false);
    expect(checkpoint.absences()).toEqual([{ subject: MEMBER, since: at(0) }]);
    expect(lacks(checkpoint, 0.001)).toBe(false);
    expect(lacks(checkpoint, 9)).toBe(false);
    expect(checkpoint.absences()).toEqual([{ subject: MEMBER, since: at(0) }]);
    expect(lacks(checkpoint, 10)).toBe(true);
  });

  it('drops an absence once a reading shows its subject, however long ago it was noted', async () => {
    const checkpoint = await openNew();
    expect(lacks(checkpoint, 0)).toBe(false);
    shows(checkpoint, 60 * 24);
    expect(checkpoint.absences()).toEqual([]);
  });

  it('measures an absence anew after a reading in between that shows its subject', async () => {
    const checkpoint = await openNew();
    lacks(checkpoint, 0);
    shows(checkpoint, 5);
    expect(lacks(checkpoint, 11)).toBe(false);
    expect(lacks(checkpoint, 20)).toBe(false);
    expect(lacks(checkpoint, 21)).toBe(true);
  });

  it('confirms an absence that an earlier run noted', async () => {
    const path = temporaryPath('checkpoint.sqlite');
    const before = await openAt(path);
    lacks(before, 0);
    before.close();
    expect(lacks(await openAt(path), 10)).toBe(true);
  });

  it('forgets a confirmed absence, and keeps it where the caller asks for that', async () => {
    const checkpoint = await openNew();
    lacks(checkpoint, 0);
    lacks(checkpoint, 10);
    expect(checkpoint.absences()).toEqual([]);
    expect(lacks(checkpoint, 11)).toBe(false);
    const keeping = (minutes: number) => noteAbsences([VERSION], [], at(minutes), { checkpoint }, 'keep');
    expect([keeping(0), keeping(60), keeping(61)]).toEqual([[], [VERSION], [VERSION]]);
    expect(checkpoint.absences()).toContainEqual({ subject: VERSION, since: at(0) });
  });

  it('stores each absence as it is, and distinguishes it from every other', async () => {
    const checkpoint = await openNew();
    const others: readonly AbsenceSubject[] = [
      ...SUBJECTS,
      { ...MEMBER, subscriptionId: 't' },
      { ...MEMBER, datasetId: 'e' },
      { kind: 'member', subscriptionId: 's","d', datasetId: '' },
      { ...SUBSCRIPTION, subscriptionId: 'd' },
      { ...VERSION, version: 4 },
      { ...VERSION, version: Number.MAX_SAFE_INTEGER },
      { ...TABLE, datasetId: '__proto__' },
    ];
    others.forEach((subject, nth) => void lacks(checkpoint, nth / 100, subject));
    const stored = others.map((subject, nth) => ({ subject, since: at(nth / 100) }));
    expect(checkpoint.absences()).toHaveLength(others.length);
    expect(checkpoint.absences()).toEqual(expect.arrayContaining(stored));
    expect(new Set(others.map(absenceKey)).size).toBe(others.length);
    shows(checkpoint, 5, MEMBER);
    expect(checkpoint.absences()).toHaveLength(others.length - 1);
  });

  it('writes nothing to the checkpoint where a reading changes no absence', async () => {
    const checkpoint = await openNew();
    lacks(checkpoint, 0);
    let writes = 0;
    const counting: Checkpoint = {
      ...checkpoint,
      noteAbsences: (absent, present) => {
        writes += absent.length + present.length;
      },
    };
    lacks(counting, 5);
    shows(counting, 6, TABLE);
    expect(noteAbsences([], [], at(7), { checkpoint: counting })).toEqual([]);
    expect(writes).toBe(0);
  });
});

describe('W44 F52 a service time that jumps', () => {
  it('confirms no absence that did not last where service time jumps ahead and back', async () => {
    const checkpoint = await openNew();
    lacks(checkpoint, 60);
    expect(lacks(checkpoint, 0)).toBe(false);
    expect(checkpoint.absences()).toEqual([{ subject: MEMBER, since: at(0) }]);
    expect(lacks(checkpoint, 9)).toBe(false);
    expect(lacks(checkpoint, 10)).toBe(true);
  });

  it('delays a confirmation by no more than its wait where service time jumps back by a day', async () => {
    const checkpoint = await openNew();
    lacks(checkpoint, 0);
    lacks(checkpoint, 9);
    expect(lacks(checkpoint, -60 * 24)).toBe(false);
    expect(lacks(checkpoint, -60 * 24 + 10)).toBe(true);
  });

  it('does not lengthen the wait of an absence where service time jumps back by less than the wait', async () => {
    const checkpoint = await openNew();
    lacks(checkpoint, 0);
    lacks(checkpoint, 8);
    lacks(checkpoint, 3);
    expect(lacks(checkpoint, 10)).toBe(true);
  });
});

describe('an earlier absence', () => {
  it('F55 drops the absence of a dataset that left by an event and joined again', async () => {
    const checkpoint = await openNew();
    commit(checkpoint, 's', joined('d', { eventNumber: 1n }), joined('e', { eventNumber: 2n }));
    lacks(checkpoint, 0);
    lacks(checkpoint, 0, { ...MEMBER, datasetId: 'e' });
    commit(checkpoint, 's', dropped('d', { eventNumber: 3n }));
    expect(checkpoint.absences()).toEqual([{ subject: { ...MEMBER, datasetId: 'e' }, since: at(0) }]);
    commit(checkpoint, 's', joined('d', { eventNumber: 4n }));
    expect(lacks(checkpoint, 60)).toBe(false);
  });

  it('drops the absence of a dataset that a later event added once more', async () => {
    const checkpoint = await openNew();
    commit(checkpoint, 's', joined('d', { eventNumber: 1n }));
    lacks(checkpoint, 0);
    commit(checkpoint, 's', joined('d', { eventNumber: 2n }));
    expect(lacks(checkpoint, 10)).toBe(false);
    expect(lacks(checkpoint, 20)).toBe(true);
  });

  it('keeps an absence after changes that do not decide the membership of its dataset', async () => {
    const checkpoint = await openNew();
    const added = joined('d', { eventNumber: 2n });
    commit(checkpoint, 's', added);
    lacks(checkpoint, 0);
    commit(checkpoint, 's', added, dropped('d', { eventNumber: 1n }), { kind: 'refresh', datasetId: 'd' });
    commit(checkpoint, 't', joined('d'));
    expect(checkpoint.absences()).toEqual([{ subject: MEMBER, since: at(0) }]);
  });

  it('drops the absences of a subscription that is given up', async () => {
    const checkpoint = await openNew();
    commit(checkpoint, 's', joined('d'));
    for (const subject of SUBJECTS) lacks(checkpoint, 0, subject);
    lacks(checkpoint, 0, { ...LOG, subscriptionId: 't' });
    checkpoint.forget('s');
    expect(checkpoint.absences().map(({ subject }) => subject)).toEqual(
      expect.arrayContaining([VERSION, TABLE, { ...LOG, subscriptionId: 't' }]),
    );
    expect(checkpoint.absences()).toHaveLength(3);
  });

  it('drops the absences of a table that is retired', async () => {
    const checkpoint = await openNew();
    for (const subject of SUBJECTS) lacks(checkpoint, 0, subject);
    lacks(checkpoint, 0, { ...VERSION, datasetId: 'e' });
    checkpoint.noteRetired('d', []);
    expect(
      checkpoint
        .absences()
        .map(({ subject }) => absenceKey(subject))
        .sort(),
    ).toEqual([MEMBER, SUBSCRIPTION, LOG, { ...VERSION, datasetId: 'e' }].map(absenceKey).sort());
  });
});

describe('W21 F51 a dataset that leaves a subscription without an event', () => {
  it('retires a dataset after two manifests that lack it, and loads it once a manifest lists it again', async () => {
    const world = await oneSubscription('parcels', 'permits');
    const caughtUpAfter = async (minutes: number) => {
      elapse(world, minutes * 60_000);
      return kinds(await world.catchUp());
    };
    expect(await caughtUpAfter(0)).toEqual({ parcels: 'loaded', permits: 'loaded' });
    world.service.members.set('sub_1', ['parcels']);
    expect(await caughtUpAfter(1)).toEqual({ parcels: 'current', permits: 'current' });
    expect(await caughtUpAfter(9)).toEqual({ parcels: 'current', permits: 'current' });
    expect(await caughtUpAfter(1)).toEqual({ parcels: 'current', permits: 'retired' });
    expect(await caughtUpAfter(60)).toEqual({ parcels: 'current' });
    world.service.members.set('sub_1', ['parcels', 'permits']);
    expect(await caughtUpAfter(1)).toEqual({ parcels: 'current', permits: 'loaded' });
  });

  it('F55 keeps a dataset that a manifest between two others lists', async () => {
    const world = await oneSubscription('parcels', 'permits');
    await world.catchUp();
    for (const listed of [['parcels'], ['parcels', 'permits'], ['parcels']]) {
      world.service.members.set('sub_1', listed);
      elapse(world, 9 * 60_000);
      expect(kinds(await world.catchUp())).toEqual({ parcels: 'current', permits: 'current' });
    }
  });
});
