/** Confirmed absence: what two complete reads lack that are far enough apart, with none in between that shows it. */

import { describe, expect, it } from 'vitest';
import type { Checkpoint } from '../../src/checkpoint/checkpoint.ts';
import { type AbsenceSubject, absenceKey, confirmedAt } from '../../src/model/absence.ts';
import { noteAbsences } from '../../src/sync/follow/audit.ts';
import { openAt, openNew, temporaryPath } from '../support/checkpoint-files.ts';
import { NOW } from '../support/sync-values.ts';

const MINUTE_MS = 60_000;
const at = (minutes: number): Date => new Date(NOW.getTime() + minutes * MINUTE_MS);

const parcels: AbsenceSubject = { kind: 'member', subscriptionId: 'sub_1', datasetId: 'parcels' };
const permits: AbsenceSubject = { kind: 'member', subscriptionId: 'sub_1', datasetId: 'permits' };

const lacks = (checkpoint: Checkpoint, minutes: number, ...absent: readonly AbsenceSubject[]) =>
  noteAbsences(absent, [], at(minutes), { checkpoint });
const shows = (checkpoint: Checkpoint, minutes: number, ...present: readonly AbsenceSubject[]) =>
  noteAbsences([], present, at(minutes), { checkpoint });

describe('an absence', () => {
  it.each<readonly [AbsenceSubject['kind'], number, AbsenceSubject]>([
    ['member', 10, parcels],
    ['subscription', 10, { kind: 'subscription', subscriptionId: 'sub_1' }],
    ['log', 10, { kind: 'log', subscriptionId: 'sub_1' }],
    ['table', 10, { kind: 'table', datasetId: 'parcels' }],
    ['version', 60, { kind: 'version', datasetId: 'parcels', version: 3 }],
  ])(
    'confirms the absence of a %s by a second reading %i minutes later, and no sooner',
    async (_, minutes, subject) => {
      const checkpoint = await openNew();
      const aMillisecond = 1 / MINUTE_MS;
      expect(lacks(checkpoint, 0, subject)).toEqual([]);
      expect(confirmedAt({ subject, since: at(0) })).toEqual(at(minutes));
      expect(lacks(checkpoint, minutes - aMillisecond, subject)).toEqual([]);
      expect(checkpoint.absences()).toEqual([{ subject, since: at(0) }]);
      expect(lacks(checkpoint, minutes, subject)).toEqual([subject]);
    },
  );

  it('forgets a confirmed absence, so that the next one is measured anew', async () => {
    const checkpoint = await openNew();
    lacks(checkpoint, 0, parcels);
    expect(lacks(checkpoint, 10, parcels)).toEqual([parcels]);
    expect(checkpoint.absences()).toEqual([]);
    expect(lacks(checkpoint, 11, parcels)).toEqual([]);
  });

  it('confirms an absence at every reading where the caller keeps it until its subject is shown', async () => {
    const checkpoint = await openNew();
    const keep = (minutes: number) => noteAbsences([parcels], [], at(minutes), { checkpoint }, 'keep');
    expect([keep(0), keep(10), keep(20)]).toEqual([[], [parcels], [parcels]]);
    expect(checkpoint.absences()).toEqual([{ subject: parcels, since: at(0) }]);
    shows(checkpoint, 21, parcels);
    expect(keep(22)).toEqual([]);
  });

  it('measures an absence anew after a reading that shows its subject, and on after one that leaves it out', async () => {
    const checkpoint = await openNew();
    lacks(checkpoint, 0, parcels, permits);
    shows(checkpoint, 5, parcels);
    expect(lacks(checkpoint, 10, parcels, permits)).toEqual([permits]);
    expect(lacks(checkpoint, 15, parcels)).toEqual([]);
    expect(lacks(checkpoint, 20, parcels)).toEqual([parcels]);
  });

  it('F52 measures an absence anew where it was first seen later than the newest answer', async () => {
    const checkpoint = await openNew();
    lacks(checkpoint, 60, parcels);
    expect(lacks(checkpoint, 0, parcels)).toEqual([]);
    expect(checkpoint.absences()).toEqual([{ subject: parcels, since: at(0) }]);
    expect(lacks(checkpoint, 10, parcels)).toEqual([parcels]);
  });

  it('confirms an absence that an earlier run noted', async () => {
    const path = temporaryPath('checkpoint.sqlite');
    const first = await openAt(path);
    lacks(first, 0, parcels);
    first.close();
    expect(lacks(await openAt(path), 10, parcels)).toEqual([parcels]);
  });

  it('distinguishes absences by kind, subscription, dataset and version', () => {
    const subjects: readonly AbsenceSubject[] = [
      parcels,
      permits,
      { ...parcels, subscriptionId: 'sub_2' },
      { kind: 'subscription', subscriptionId: 'sub_1' },
      { kind: 'log', subscriptionId: 'sub_1' },
      { kind: 'table', datasetId: 'parcels' },
      { kind: 'version', datasetId: 'parcels', version: 3 },
      { kind: 'version', datasetId: 'parcels', version: 4 },
    ];
    expect(new Set(subjects.map(absenceKey)).size).toBe(subjects.length);
  });
});
