/** The position and desired states that a manifest yields: at a first start, after a lost position, after a log restart. */

import { describe, expect, it } from 'vitest';
import type { Followed } from '../../src/checkpoint/checkpoint.ts';
import type { ObservedState } from '../../src/destination/destination.ts';
import {
  changedDesiredState,
  type DesiredState,
  type DesiredStateChange,
  emptyDesiredState,
  withoutLog,
} from '../../src/model/desired-state.ts';
import type { EventId } from '../../src/model/event.ts';
import { snapshotDigest } from '../../src/model/manifest.ts';
import type { ObservedTable } from '../../src/model/write-jobs.ts';
import {
  type Before,
  isLoadedFrom,
  type Source,
  stepFromManifest,
} from '../../src/sync/follow/from-manifest.ts';
import { pendingReloads } from '../../src/sync/plan/need.ts';
import { position } from '../support/checkpoint-files.ts';
import {
  desired,
  digestOf,
  entry,
  formerMember,
  id,
  LONG_AGO,
  member,
  NOW,
  reload,
  subscription,
  table,
} from '../support/sync-values.ts';

const datasetId = 'parcels';
const MINUTE_MS = 60_000;
/** Up to then a manifest that does not say how far it goes surely reflects what happened. */
const COVERED = new Date(NOW.getTime() - 15 * MINUTE_MS);
/** The newest event of the log was created then. */
const NEWEST_AT = new Date(NOW.getTime() - 5 * MINUTE_MS);

interface Given {
  readonly ofRecord: EventId | null;
  readonly ofManifest: EventId | null;
  readonly source?: Partial<Source>;
  readonly before?: Partial<Before>;
}

function observedWith(...tables: ObservedTable[]): ObservedState {
  const datasets = new Map(tables.map((observed) => [observed.datasetId, observed]));
  return { service: null, progress: null, datasets, retired: [] };
}

/** The step from a manifest of the subscription that lists the dataset at version 4. */
function stepOf({ ofRecord, ofManifest, source = {}, before = {} }: Given) {
  return stepFromManifest(
    {
      record: subscription({ lastEventId: ofRecord }),
      recordReadAt: NOW,
      watermarkCovers: ofManifest,
      coveredUntil: ofManifest === null ? COVERED : null,
      entries: [entry(datasetId, 4)],
      members: [datasetId],
      membersReflect: ofManifest,
      newestCreatedAt: NEWEST_AT,
      ...source,
    },
    { followed: null, isNewLog: false, desiredStates: new Map(), observed: observedWith(), ...before },
  );
}

/** A subscription that was followed up to `cursor`. */
function upTo(cursor: EventId | null, changed: Partial<Followed> = {}): Followed {
  return {
    subscriptionId: 'sub_1',
    name: 'Travis',
    logNumber: 1,
    cursor,
    cursorCreatedAt: LONG_AGO,
    cursorAt: LONG_AGO,
    replayedAt: null,
    coveredUntil: null,
    statesLastEvent: true,
    auditedAt: null,
    ...changed,
  };
}

/** The desired state of the dataset after the step. */
function desiredAfter(
  changes: readonly DesiredStateChange[],
  before: DesiredState = emptyDesiredState(datasetId),
): DesiredState {
  return changes
    .filter((change) => change.datasetId === before.datasetId)
    .reduce((changed, change) => changedDesiredState(changed, 'sub_1', change), before);
}

const joined = (eventNumber: bigint | null, at = NOW, of = datasetId) => ({
  kind: 'member',
  datasetId: of,
  eventNumber,
  at,
  version: null,
});
const nothingAnnounced = (of = datasetId) => ({ kind: 'nothing-announced', datasetId: of });
const asked = (eventNumber: bigint, knownVersion: number, of = datasetId) => ({
  kind: 'reload',
  datasetId: of,
  version: null,
  logNumber: 1,
  eventNumber,
  createdAt: NEWEST_AT,
  readAt: NOW,
  knownVersion,
  isWithdrawal: false,
});

describe('the position of a first start', () => {
  it.each([
    ['the smaller of the two, as numbers', id(10), id(9), id(9)],
    ['the smaller of the two, the other way round', id(9), id(10), id(9)],
    ["the manifest's where the subscription names none", null, id(9), id(9)],
  ])('W18 takes for the position of a first start %s', (_, ofRecord, ofManifest, cursor) => {
    const step = stepOf({ ofRecord, ofManifest });
    expect(step.position).toEqual(position(cursor, { readAt: NOW }));
  });

  it.each([
    ['and the subscription names one', id(10)],
    ['and the subscription names none', null],
  ])('W19 starts at the start of the log where the manifest names no position %s', (_, ofRecord) => {
    const { position } = stepOf({ ofRecord, ofManifest: null });
    expect(position).toMatchObject({ cursor: null, isExpiredCursorReplay: true, coveredUntil: COVERED });
  });
});

describe('the desired states of a first start', () => {
  it('desires every dataset of the manifest at a first start, as of its watermark', () => {
    expect(stepOf({ ofRecord: id(9), ofManifest: id(8) })).toMatchObject({
      subscriptionId: 'sub_1',
      subscriptionName: 'Travis',
      changes: [joined(8n), nothingAnnounced()],
    });
  });

  it('desires every dataset as of the time that a manifest without a watermark surely reflects', () => {
    const { changes } = stepOf({ ofRecord: id(9), ofManifest: null });
    expect(changes).toEqual([joined(null, COVERED), nothingAnnounced()]);
    const state = desiredAfter(changes);
    const drop = { kind: 'no-member', datasetId, eventNumber: 5n, reason: null } as const;
    // The manifest is ordered among the events by time: it overrules an older event, and a newer event overrules it.
    const isMemberAfter = (at: Date) =>
      changedDesiredState(state, 'sub_1', { ...drop, at }).members.has('sub_1');
    expect(isMemberAfter(new Date(COVERED.getTime() - 1))).toBe(true);
    expect(isMemberAfter(new Date(COVERED.getTime() + 1))).toBe(false);
  });

  it('W20 asks for no load where the table equals the listed snapshot', () => {
    const before = { observed: observedWith(table(4)) };
    expect(stepOf({ ofRecord: id(9), ofManifest: id(9), before }).changes).toEqual([
      joined(9n),
      nothingAnnounced(),
    ]);
  });

  it.each<readonly [string, ObservedTable, number]>([
    ['another version', table(3), 4],
    ['other content of the same version', table(4, { snapshotDigest: 'other' }), 4],
    ['the same snapshot with changes applied', table(4, { snapshotVersion: 3 }), 4],
    ['that very snapshot, moved on by changes to a later version', { ...table(4), version: 5 }, 5],
  ])('W20 asks for a reload by the newest event of the subscription where the table is %s', (_, observed) => {
    const before = { observed: observedWith(observed) };
    expect(stepOf({ ofRecord: id(10), ofManifest: id(9), before }).changes).toEqual([
      joined(9n),
      nothingAnnounced(),
      asked(10n, observed.version),
    ]);
  });

  it('asks for a reload also where no position is known', () => {
    const before = { observed: observedWith(table(3)) };
    expect(stepOf({ ofRecord: null, ofManifest: null, before }).changes).toContainEqual(asked(0n, 3));
  });

  it('asks for a load of an entry that states no digest, because its content may be another', () => {
    const before = { observed: observedWith(table(4)) };
    const source = { entries: [entry(datasetId, 4, null)] };
    expect(stepOf({ ofRecord: id(9), ofManifest: id(9), source, before }).changes).toContainEqual(
      asked(9n, 4),
    );
  });
});

describe('a lost position', () => {
  const followed = upTo(id(9));
  const behind = observedWith(table(4, { snapshotVersion: 3 }));

  it.each([
    ['the smaller of the two newer positions', id(20), id(21), id(20), false],
    ['the watermark of the manifest where the subscription names none', null, id(21), id(21), false],
    ['the old position, with a replay, where the manifest has no watermark', id(20), null, id(9), true],
    ['the old position, with a replay, where no newer event came', id(9), id(9), id(9), true],
    [
      'the old position, with a replay, where the manifest reflects nothing newer',
      id(20),
      id(9),
      id(9),
      true,
    ],
    ['the old position, with a replay, where neither names one', null, null, id(9), true],
    ['the old position rather than that of an older manifest', id(9), id(5), id(9), true],
    ['the old position rather than that of a service that counts anew', id(2), id(2), id(9), true],
  ])('F26 F83 takes for a lost position %s', (_, ofRecord, ofManifest, cursor, isExpiredCursorReplay) => {
    const { position } = stepOf({ ofRecord, ofManifest, before: { followed } });
    expect(position).toMatchObject({ logNumber: 1, cursor, isExpiredCursorReplay });
    expect(position.cursorCreatedAt).toEqual(isExpiredCursorReplay ? LONG_AGO : null);
  });

  it('makes the announced version unknown after a lost position, because the versions may have restarted', () => {
    const desiredStates = new Map([
      [datasetId, desired({ members: new Map([['sub_1', member({ announced: 9 })]]) })],
    ]);
    const { changes } = stepOf({ ofRecord: id(20), ofManifest: id(21), before: { followed, desiredStates } });
    expect(desiredAfter(changes, desiredStates.get(datasetId)).members.get('sub_1')?.announced).toBeNull();
  });

  it.each([
    ["the subscription's newest", id(22), id(21), 22n],
    ['the one that the manifest reflects, where the record was read before that', id(20), id(21), 21n],
    ['the lost one, where nothing newer has come', id(9), id(9), 9n],
    ['the lost one, where the record is older', id(5), id(5), 9n],
    ["the subscription's newest, where the manifest does not say how far it goes", id(20), null, 20n],
  ])('asks for reloads by the event number that is %s', (_, ofRecord, ofManifest, number) => {
    const desiredStates = new Map([[datasetId, desired()]]);
    const { changes } = stepOf({
      ofRecord,
      ofManifest,
      before: { followed, observed: behind, desiredStates },
    });
    expect(changes).toContainEqual(asked(number, 4));
    // The reload is owed: no change of members in the same step is later.
    expect(pendingReloads(table(4), desiredAfter(changes, desired()))).toHaveLength(1);
  });

  it('restores no member from a manifest older than the removal', () => {
    const dropped = desired({
      members: new Map(),
      formerMembers: new Map([['sub_1', formerMember({ eventNumber: 7n })]]),
    });
    const { changes } = stepOf({
      ofRecord: id(9),
      ofManifest: id(5),
      before: { followed, observed: behind },
    });
    expect(desiredAfter(changes, dropped)).toEqual(dropped);
  });

  it("restores a member that was removed before the manifest's watermark, or by that very event", () => {
    for (const number of [4n, 5n]) {
      const dropped = desired({
        members: new Map(),
        formerMembers: new Map([['sub_1', formerMember({ eventNumber: number })]]),
      });
      const { changes } = stepOf({ ofRecord: id(9), ofManifest: id(5), before: { followed } });
      expect(desiredAfter(changes, dropped).members.has('sub_1')).toBe(true);
    }
  });

  it('F87 asks for the load of a member whose entry the manifest lacks, and which a later one may name', () => {
    const desiredStates = new Map([['zoning', desired({ datasetId: 'zoning' })]]);
    const observed = observedWith(table(4), table(2, { datasetId: 'zoning' }));
    const { changes } = stepOf({
      ofRecord: id(20),
      ofManifest: id(21),
      before: { followed, desiredStates, observed },
    });
    expect(changes).toEqual([
      joined(21n),
      nothingAnnounced(),
      nothingAnnounced('zoning'),
      asked(21n, 2, 'zoning'),
    ]);
    // The audit has to confirm the absence of the member.
    expect(desiredAfter(changes, desired({ datasetId: 'zoning' })).members.has('sub_1')).toBe(true);
  });

  it('leaves datasets alone that only other subscriptions contain', () => {
    const desiredStates = new Map([
      ['roads', desired({ datasetId: 'roads', members: new Map([['sub_2', member()]]) })],
      [
        'plats',
        desired({
          datasetId: 'plats',
          members: new Map(),
          formerMembers: new Map([['sub_1', formerMember()]]),
        }),
      ],
    ]);
    const observed = observedWith(table(2, { datasetId: 'roads' }), table(2, { datasetId: 'plats' }));
    const { changes } = stepOf({
      ofRecord: id(20),
      ofManifest: id(21),
      before: { followed, desiredStates, observed },
    });
    expect(changes.map((change) => change.datasetId)).toEqual([datasetId, datasetId]);
  });
});

describe('a restarted log', () => {
  const followed = upTo(id(100), { logNumber: 3 });
  const owed = desired({
    members: new Map([['sub_1', member({ eventNumber: 90n, announced: 9 })]]),
    reloads: [reload(95, { logNumber: 3 }), reload(4, { subscriptionId: 'sub_2' })],
  });
  const desiredStates = new Map([[datasetId, owed]]);

  it('F54 F81 counts the restart, and takes a position of the new log', () => {
    const step = stepOf({
      ofRecord: id(3),
      ofManifest: id(2),
      before: { followed, isNewLog: true, desiredStates },
    });
    expect(step).toMatchObject({
      voids: 'numbers',
      position: { logNumber: 4, cursor: id(2), cursorCreatedAt: null, isExpiredCursorReplay: false },
    });
    const without = stepOf({
      ofRecord: id(3),
      ofManifest: null,
      before: { followed, isNewLog: true, desiredStates },
    });
    expect(without.position).toMatchObject({
      logNumber: 4,
      cursor: null,
      cursorCreatedAt: null,
      isExpiredCursorReplay: true,
      coveredUntil: COVERED,
    });
  });

  it('F81 voids every number of the old log, and reloads every table by a number of the new one', () => {
    const observed = observedWith(table(4, { snapshotDigest: 'other' }));
    const { changes } = stepOf({
      ofRecord: id(3),
      ofManifest: id(2),
      before: { followed, isNewLog: true, desiredStates, observed },
    });
    const state = desiredAfter(changes, withoutLog(owed, 'sub_1'));
    expect(state.members.get('sub_1')).toEqual({ eventNumber: 2n, since: NOW, announced: null });
    expect(state.reloads).toMatchObject([
      { subscriptionId: 'sub_2', eventNumber: 4n },
      { subscriptionId: 'sub_1', logNumber: 4, eventNumber: 3n },
    ]);
  });

  it("F81 takes no entry of an old log's manifest, and excepts no table from the reload", () => {
    const source = {
      watermarkCovers: null,
      coveredUntil: null,
      entries: [],
      members: [],
      membersReflect: null,
    };
    const { position, changes } = stepOf({
      ofRecord: id(3),
      ofManifest: null,
      source,
      before: { followed, isNewLog: true, desiredStates, observed: observedWith(table(4)) },
    });
    expect(position).toMatchObject({ cursor: null, isExpiredCursorReplay: true, coveredUntil: null });
    expect(changes).toEqual([nothingAnnounced(), { ...asked(3n, 9), logNumber: 4 }]);
  });
});

describe('a subscription without a manifest of its own', () => {
  const record = subscription({ datasetIds: ['parcels', 'permits'], lastEventId: id(9) });
  const desiredStates = new Map<string, DesiredState>([['zoning', desired({ datasetId: 'zoning' })]]);
  const ofRecord = (source: Partial<Source> = {}, before: Partial<Before> = {}) =>
    stepOf({
      ofRecord: id(9),
      ofManifest: null,
      source: {
        record,
        entries: [],
        members: record.datasetIds,
        membersReflect: record.lastEventId,
        ...source,
      },
      before: { desiredStates, ...before },
    });

  it('M12 M13 takes the members of the record as of its newest event, and the members that the log added', () => {
    expect(ofRecord().changes).toEqual([
      joined(9n, COVERED, 'parcels'),
      nothingAnnounced('parcels'),
      joined(9n, COVERED, 'permits'),
      nothingAnnounced('permits'),
      nothingAnnounced('zoning'),
    ]);
    expect(ofRecord().position).toMatchObject({
      cursor: null,
      isExpiredCursorReplay: true,
      coveredUntil: COVERED,
    });
  });

  it('keeps the lost position, from which events count', () => {
    expect(ofRecord({}, { followed: upTo(id(5)) }).position).toMatchObject({
      cursor: id(5),
      isExpiredCursorReplay: true,
    });
  });

  it.each([
    ['the newest event', id(9), id(5), 9n],
    ['the lost position, where the newest event is not known', null, id(5), 5n],
    ['nothing, where neither is known', null, null, 0n],
  ])('reloads a table that differs from its entry, as of %s', (_, lastEventId, lost, number) => {
    const observed = observedWith(table(4), table(4, { datasetId: 'zoning', snapshotVersion: 3 }));
    const { changes } = ofRecord(
      {
        record: { ...record, lastEventId },
        entries: [entry('parcels', 4), entry('zoning', 5)],
        membersReflect: lastEventId,
      },
      { observed, followed: lost === null ? null : upTo(lost) },
    );
    expect(changes.filter(({ kind }) => kind === 'reload')).toEqual([asked(number, 4, 'zoning')]);
  });

  it('reloads a table whose entry could not be read, above the announced version', () => {
    const announced = desired({
      datasetId: 'zoning',
      members: new Map([['sub_1', member({ announced: 6 })]]),
    });
    const observed = observedWith(table(4), table(4, { datasetId: 'zoning' }));
    const { changes } = ofRecord(
      { entries: [entry('parcels', 4)] },
      { observed, desiredStates: new Map([['zoning', announced]]) },
    );
    expect(changes.filter(({ kind }) => kind === 'reload')).toEqual([asked(9n, 6, 'zoning')]);
  });
});

describe('the digest of a snapshot', () => {
  const files = [{ sha256: digestOf('a') }, { sha256: digestOf('b') }];

  it('gives a snapshot the same digest in any order of its files', () => {
    expect(snapshotDigest(files)).toBe(snapshotDigest(files.toReversed()));
    expect(snapshotDigest(files)).toMatch(/^[0-9a-f]{64}$/);
  });

  it('gives snapshots with different files different digests', () => {
    expect(snapshotDigest(files)).not.toBe(snapshotDigest(files.slice(1)));
    expect(snapshotDigest(files)).not.toBe(snapshotDigest([...files, ...files.slice(1)]));
  });

  it('gives no digest to a snapshot where the digest of one file is unknown', () => {
    expect(snapshotDigest([...files, { sha256: null }])).toBeNull();
  });

  it('gives a digest to a snapshot without files', () => {
    expect(snapshotDigest([])).toMatch(/^[0-9a-f]{64}$/);
  });

  it('leaves the given list of files as it is', () => {
    const given = files.toReversed();
    snapshotDigest(given);
    expect(given).toEqual(files.toReversed());
  });

  it('finds no table loaded from an entry without a digest', () => {
    expect(isLoadedFrom(entry(datasetId, 4, null), table(4))).toBe(false);
    expect(isLoadedFrom(entry(datasetId, 4), table(4))).toBe(true);
  });
});
