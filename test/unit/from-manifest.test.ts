/** Where a subscription is taken from, and what is wanted then: at a first start, and when its position is lost. */

import { describe, expect, it } from 'vitest';
import type { Held, HeldDataset } from '../../src/destination/destination.ts';
import type { EventId } from '../../src/model/event.ts';
import { snapshotDigest } from '../../src/model/manifest.ts';
import type { Want } from '../../src/model/want.ts';
import {
  isLoadedFrom,
  membersOf,
  stepFromManifest,
  stepFromMembers,
} from '../../src/sync/follow/from-manifest.ts';
import { digestOf, entry, id, subscription, table, want } from '../support/sync-values.ts';

const datasetId = 'parcels';

function holding(...tables: HeldDataset[]): Held {
  return { service: null, datasets: new Map(tables.map((held) => [held.datasetId, held])) };
}

function stepOf(
  ofSubscription: EventId | null,
  ofManifest: EventId | null,
  held = holding(),
  lost: EventId | null = null,
  lacked: readonly string[] = [],
) {
  const manifest = { subscriptionId: 'sub_1', lastEventId: ofManifest, datasets: [entry(datasetId, 4)] };
  return stepFromManifest(subscription({ lastEventId: ofSubscription }), { manifest, lacked }, lost, held);
}

const loaded = [
  { kind: 'member', datasetId },
  { kind: 'announced', datasetId, version: 4 },
];

describe('the position of a first start', () => {
  it.each([
    ['the smaller of the two, as numbers', id(10), id(9), id(9)],
    ['the smaller of the two, the other way round', id(9), id(10), id(9)],
    ["the manifest's where the subscription names none", null, id(9), id(9)],
    ["the subscription's where the manifest names none", id(10), null, id(10)],
    ['the start of the log where neither names one', null, null, null],
  ])('W18 is %s', (_, ofSubscription, ofManifest, cursor) => {
    expect(stepOf(ofSubscription, ofManifest).cursor).toEqual(cursor);
  });
});

describe('what a first start wants', () => {
  it('is every dataset of the manifest', () => {
    expect(stepOf(id(9), id(9))).toMatchObject({
      subscriptionId: 'sub_1',
      subscriptionName: 'Travis',
      changes: loaded,
    });
  });

  it('W19 is a look too, where the manifest does not say how far it goes', () => {
    const unknown = { kind: 'announced', datasetId, version: null };
    const look = { kind: 'look', datasetId };
    expect(stepOf(id(9), null).changes).toEqual([{ kind: 'member', datasetId }, unknown, look]);
  });

  it('W20 is nothing more where the table is this very snapshot', () => {
    expect(stepOf(id(9), id(9), holding(table(4))).changes).toEqual(loaded);
  });

  it.each([
    ['another version', table(3)],
    ['other content of the same version', table(4, { snapshotDigest: 'other' })],
    ['the same snapshot with changes applied', table(4, { snapshotVersion: 3 })],
    ['that very snapshot, moved on by changes to a later version', { ...table(4), version: 5 }],
  ])('W20 is a reload where the table is %s', (_, held) => {
    const reload = { kind: 'reload', datasetId, eventNumber: 9n, version: 4 };
    expect(stepOf(id(9), id(10), holding(held)).changes).toEqual([...loaded, reload]);
  });

  it('is a reload too where nobody knows a position', () => {
    const reload = { kind: 'reload', datasetId, eventNumber: 0n, version: 4 };
    expect(stepOf(null, null, holding(table(3))).changes).toContainEqual(reload);
  });
});

describe('a lost position', () => {
  const behind = holding(table(4, { snapshotVersion: 3 }));
  const reload = (eventNumber: bigint, version: number | null) => ({
    kind: 'reload',
    datasetId,
    eventNumber,
    version,
  });

  it.each([
    ['leads to the smaller of the two newer ones', id(20), id(21), id(20), false],
    ['leads to what the manifest reflects, where the subscription names none', null, id(21), id(21), false],
    ["leads to the subscription's, where the manifest says nothing", id(20), null, id(20), false],
    ['stays, quiet, where nothing newer has come', id(9), id(9), id(9), true],
    ['stays, quiet, where the manifest reflects nothing newer', id(20), id(9), id(9), true],
    ['stays, quiet, where nobody names one', null, null, id(9), true],
    ['never goes back, not to a manifest from before it', id(9), id(5), id(9), true],
    ['never goes back, not to a service that counts anew', id(2), id(2), id(9), true],
  ])('F26 %s', (_, ofSubscription, ofManifest, cursor, isQuiet) => {
    expect(stepOf(ofSubscription, ofManifest, holding(), id(9))).toMatchObject({ cursor, isQuiet });
  });

  it('F26 W14 is no reason to believe the versions of a manifest from before it: they may have begun anew since', () => {
    const announced = (version: number | null) => ({ kind: 'announced', datasetId, version });
    const look = { kind: 'look', datasetId };
    const ofOlder = stepOf(id(20), id(5), holding(), id(9)).changes;
    expect(ofOlder).toContainEqual(announced(null));
    expect(ofOlder).toContainEqual(look);
    const ofNewer = stepOf(id(20), id(21), holding(), id(9)).changes;
    expect(ofNewer).toContainEqual(announced(4));
    expect(ofNewer).not.toContainEqual(look);
  });

  it('F26 is no quiet log at a first start, unless there is no position at all', () => {
    expect(stepOf(id(9), id(9)).isQuiet).toBe(false);
    expect(stepOf(null, null)).toMatchObject({ cursor: null, isQuiet: true });
  });

  it.each([
    ['of the new position', id(20), id(21), reload(20n, 4)],
    ['of the lost one, where nothing newer has come', id(9), id(9), reload(9n, 4)],
    ['of the lost one at an unknown version, for a manifest from before it', id(9), id(5), reload(9n, null)],
    ['of the position, where the manifest does not say how far it goes', id(20), null, reload(20n, 4)],
  ])('asks for reloads by the number %s', (_, ofSubscription, ofManifest, asked) => {
    expect(stepOf(ofSubscription, ofManifest, behind, id(9)).changes).toContainEqual(asked);
  });

  it.each([
    ['by then', id(20), id(20), {}],
    ['by what the manifest reflects, where that is older', id(9), id(5), { eventNumber: 5n }],
  ])('W21 tells that what the manifest lacks has left %s', (_, ofSubscription, ofManifest, standing) => {
    expect(stepOf(ofSubscription, ofManifest, holding(), id(9), ['zoning']).changes).toContainEqual({
      kind: 'no-member',
      datasetId: 'zoning',
      ...standing,
    });
  });

  it('does not let a manifest from before it bring back what was removed meanwhile', () => {
    expect(stepOf(id(9), id(5), holding(), id(9)).changes).toContainEqual({
      kind: 'member',
      datasetId,
      eventNumber: 5n,
    });
  });
});

describe('a subscription without a manifest of its own', () => {
  const record = subscription({ datasetIds: ['parcels', 'permits'], lastEventId: id(9) });
  const wants = new Map<string, Want>([
    ['permits', want({ datasetId: 'permits', members: new Set(), formerMembers: new Map([['sub_1', 7n]]) })],
    ['zoning', want({ datasetId: 'zoning', atLeastVersion: 6 })],
    ['roads', want({ datasetId: 'roads', members: new Set(['sub_2']) })],
  ]);
  const wanted = [
    { kind: 'member', datasetId: 'parcels' },
    { kind: 'look', datasetId: 'parcels' },
    { kind: 'member', datasetId: 'zoning' },
    { kind: 'look', datasetId: 'zoning' },
  ];

  it('has the members of its record and of its log, without those its log has removed', () => {
    expect(membersOf(record, wants)).toEqual(['parcels', 'zoning']);
  });

  it('has them all looked at, and its log read from the start', () => {
    expect(stepFromMembers(record, [], null, wants, holding())).toEqual({
      subscriptionId: 'sub_1',
      subscriptionName: 'Travis',
      cursor: null,
      isQuiet: true,
      changes: wanted,
    });
  });

  it('keeps its lost position, from which on events count', () => {
    expect(stepFromMembers(record, [], id(5), wants, holding())).toMatchObject({
      cursor: id(5),
      isQuiet: true,
    });
  });

  it.each([
    ['the newest event', id(9), id(5), 9n],
    ['the lost position, where the newest event is not known', null, id(5), 5n],
    ['nothing, where neither is known', null, null, 0n],
  ])('has a table loaded again that is not its entry, as of %s', (_, lastEventId, lost, eventNumber) => {
    const held = holding(table(4), table(4, { datasetId: 'zoning', snapshotVersion: 3 }));
    const entries = [entry('parcels', 4), entry('zoning', 5)];
    const { changes } = stepFromMembers({ ...record, lastEventId }, entries, lost, wants, held);
    expect(changes).toEqual([...wanted, { kind: 'reload', datasetId: 'zoning', eventNumber, version: 5 }]);
  });

  it('has a table loaded again whose entry could not be read, at the version it is wanted at', () => {
    const held = holding(table(4), table(4, { datasetId: 'zoning' }));
    expect(stepFromMembers(record, [entry('parcels', 4)], null, wants, held).changes).toEqual([
      ...wanted,
      { kind: 'reload', datasetId: 'zoning', eventNumber: 9n, version: 6 },
    ]);
  });
});

describe('the identity of a snapshot', () => {
  const files = [{ sha256: digestOf('a') }, { sha256: digestOf('b') }];

  it('does not depend on the order of its files', () => {
    expect(snapshotDigest(files)).toBe(snapshotDigest(files.toReversed()));
    expect(snapshotDigest(files)).toMatch(/^[0-9a-f]{64}$/);
  });

  it('depends on each of them', () => {
    expect(snapshotDigest(files)).not.toBe(snapshotDigest(files.slice(1)));
    expect(snapshotDigest(files)).not.toBe(snapshotDigest([...files, ...files.slice(1)]));
  });

  it('is unknown where the digest of one file is', () => {
    expect(snapshotDigest([...files, { sha256: null }])).toBeNull();
  });

  it('is known of a snapshot without files', () => {
    expect(snapshotDigest([])).toMatch(/^[0-9a-f]{64}$/);
  });

  it('leaves the given list as it is', () => {
    const given = files.toReversed();
    snapshotDigest(given);
    expect(given).toEqual(files.toReversed());
  });

  it('unknown is never that of a table', () => {
    expect(isLoadedFrom(entry(datasetId, 4, null), table(4))).toBe(false);
    expect(isLoadedFrom(entry(datasetId, 4), table(4))).toBe(true);
  });
});
