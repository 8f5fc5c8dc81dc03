/** What a manifest or a record says that no event has announced, and what each manifest entry says of its table. */

import { describe, expect, it } from 'vitest';
import type { ObservedState } from '../../src/destination/destination.ts';
import type { DesiredState } from '../../src/model/desired-state.ts';
import type { ManifestEntry, Watermark } from '../../src/model/manifest.ts';
import type { ObservedTable } from '../../src/model/write-jobs.ts';
import { auditEntries, auditMembers, isCompleteRecord, type Listing } from '../../src/sync/follow/audit.ts';
import { reloadAt } from '../../src/sync/follow/reload-requests.ts';
import { reloadMarks } from '../support/reload-marks.ts';
import {
  desired,
  digestOf,
  entry,
  formerMember,
  LONG_AGO,
  member,
  membersAt,
  NOW,
  reload,
  subscription,
  table,
} from '../support/sync-values.ts';

const datasetId = 'parcels';
const MINUTE_MS = 60_000;
const ago = (minutes: number): Date => new Date(NOW.getTime() - minutes * MINUTE_MS);
const through = (number: bigint): Watermark => ({ kind: 'number', through: number });
/** The manifest does not say how far it goes: it surely reflects what is older than a quarter of an hour. */
const BY_TIME: Watermark = { kind: 'time', through: ago(15) };

interface Given {
  readonly desired?: DesiredState | null;
  readonly table?: ObservedTable | null;
}

function auditedOf({ desired: desiredState = null, table: observed = null }: Given) {
  const destination: ObservedState = {
    service: null,
    progress: null,
    datasets: new Map(observed === null ? [] : [[datasetId, observed]]),
    retired: [],
  };
  return {
    desiredStates: new Map(desiredState === null ? [] : [[datasetId, desiredState]]),
    observed: destination,
  };
}

/** Lists the dataset as of event 9, unless the test says otherwise. */
function members(given: Given, changed: Partial<Listing> = {}) {
  const listing = {
    subscriptionId: 'sub_1',
    watermark: through(9n),
    readAt: NOW,
    datasetIds: [datasetId],
    isComplete: true,
    ...changed,
  };
  return auditMembers(listing, auditedOf(given));
}

const subject = { kind: 'member', subscriptionId: 'sub_1', datasetId };
const joined = (eventNumber: bigint | null, at = NOW) => ({
  kind: 'member',
  datasetId,
  eventNumber,
  at,
  version: null,
});
const former = (eventNumber: bigint | null, at = LONG_AGO, others: readonly string[] = []): DesiredState =>
  desired({
    members: new Map(others.map((id) => [id, member()])),
    formerMembers: new Map([['sub_1', formerMember({ eventNumber, at })]]),
  });
const since = (eventNumber: bigint | null, at = LONG_AGO): DesiredState =>
  desired({ members: new Map([['sub_1', member({ eventNumber, since: at })]]) });

describe('a dataset that a listing shows', () => {
  it.each<readonly [string, DesiredState | null]>([
    ['where no event named it', null],
    ['where only another subscription contains it', desired({ members: new Map([['sub_2', member()]]) })],
    ['where an earlier audit found it gone', former(null)],
  ])('makes a listed dataset a member as of the watermark %s', (_, desiredState) => {
    expect(members({ desired: desiredState })).toEqual({
      changes: [joined(9n)],
      reloads: [],
      absent: [],
      present: [],
    });
    expect(members({ desired: desiredState }, { watermark: BY_TIME }).changes).toEqual([
      joined(null, ago(15)),
    ]);
  });

  it.each<readonly [string, DesiredState | null]>([
    ['no event named it', null],
    ['an event removed it before', former(7n)],
    ['another subscription contains it', former(7n, LONG_AGO, ['sub_2'])],
  ])('W45 reloads the existing table of a dataset that a listing brings back where %s', (_, desiredState) => {
    expect(members({ desired: desiredState, table: table(4) }).reloads).toEqual([datasetId]);
    expect(members({ desired: desiredState }).reloads).toEqual([]);
  });

  it.each<readonly [string, DesiredState, Partial<Listing>]>([
    ['later number', former(8n), { watermark: through(9n) }],
    ['number of that very event', former(9n), { watermark: through(9n) }],
    ['later time', former(9n, ago(16)), { watermark: BY_TIME }],
    ['time of that very event', former(9n, ago(15)), { watermark: BY_TIME }],
  ])('adds a dropped dataset again where the listing covers its drop by a %s', (_, desiredState, listing) => {
    expect(members({ desired: desiredState }, listing).changes).toHaveLength(1);
  });

  it.each<readonly [string, DesiredState, Partial<Listing>]>([
    ['number', former(10n), { watermark: through(9n) }],
    ['time', former(9n, ago(14)), { watermark: BY_TIME }],
  ])(
    'does not add a dropped dataset again where the listing may not know of the drop yet, by its %s',
    (_, desiredState, listing) => {
      const nothing = { changes: [], reloads: [], absent: [], present: [] };
      expect(members({ desired: desiredState, table: table(4) }, listing)).toEqual(nothing);
    },
  );

  it('reports a listed member as present, and changes nothing', () => {
    const shown = { changes: [], reloads: [], absent: [], present: [subject] };
    expect(members({ desired: desired(), table: table(4) })).toEqual(shown);
    expect(members({ desired: desired() }, { watermark: BY_TIME })).toEqual(shown);
    expect(members({ desired: desired() }, { isComplete: false })).toEqual(shown);
  });

  it('changes nothing for a member that another subscription dropped', () => {
    const desiredState = desired({ formerMembers: new Map([['sub_2', formerMember({ eventNumber: 9n })]]) });
    expect(members({ desired: desiredState }).changes).toEqual([]);
  });
});

describe('a member that a listing lacks', () => {
  const lacking = { datasetIds: ['permits'] };

  it.each<readonly [string, DesiredState, Partial<Listing>]>([
    ['where the event that added it is covered by number', since(9n), {}],
    ['where the event that added it is covered by time', since(12n, ago(15)), { watermark: BY_TIME }],
    ['where no event added it', since(null), {}],
  ])('finds a member absent that the listing lacks %s', (_, desiredState, listing) => {
    expect(members({ desired: desiredState }, { ...lacking, ...listing })).toMatchObject({
      absent: [subject],
      present: [],
    });
  });

  it.each<readonly [string, DesiredState, Partial<Listing>]>([
    ['where the event that added it may not be reflected, by its number', since(10n), {}],
    [
      'where the event that added it may not be reflected, by its time',
      since(9n, ago(14)),
      { watermark: BY_TIME },
    ],
    ['where the record is not complete', since(9n), { isComplete: false }],
    ['where it is no member any more', former(7n), {}],
    ['where only another subscription contains it', desired({ members: new Map([['sub_2', member()]]) }), {}],
  ])('does not find a dataset absent that the listing lacks %s', (_, desiredState, listing) => {
    expect(members({ desired: desiredState }, { ...lacking, ...listing })).toMatchObject({
      absent: [],
      present: [],
    });
  });
});

describe('the completeness of a record', () => {
  it.each([
    ['counts as many datasets as it lists', 2, ['parcels', 'permits'], true],
    ['lists a dataset twice and counts it once', 1, ['parcels', 'parcels'], true],
    ['counts none and lists none', 0, [], true],
    ['counts more than it lists', 3, ['parcels', 'permits'], false],
    ['counts fewer than it lists', 1, ['parcels', 'permits'], false],
    ['does not count', null, ['parcels', 'permits'], false],
  ])('judges the completeness of a record that %s', (_, datasetCount, datasetIds, isComplete) => {
    expect(isCompleteRecord(subscription({ datasetCount, datasetIds }))).toBe(isComplete);
  });
});

describe('an entry of the manifest', () => {
  const refresh = { kind: 'refresh', datasetId };
  const nothing = { changes: [], reloads: [] };
  const inEntry = (given: Given, listed: ManifestEntry, ofManifest: string | null = 'sub_1') =>
    auditEntries([listed], 'sub_1', ofManifest, auditedOf(given));
  const loaded = { desired: desired(), table: table(4, { loadedThrough: 'sub_1' }) };

  it('asks for nothing where a manifest entry states what the table has', () => {
    expect(inEntry(loaded, entry(datasetId, 4))).toEqual(nothing);
  });

  it.each<readonly [string, ManifestEntry]>([
    ['W23 an entry with another schema at the same version', { ...entry(datasetId, 4), schemaVersion: '2' }],
    ['W32 an entry with a lower version', entry(datasetId, 3)],
    ['an entry with a higher version', entry(datasetId, 5)],
    ['an entry with another number of rows', { ...entry(datasetId, 4), rowCount: 11 }],
  ])('%s asks for a metadata refresh, and for no reload', (_, listed) => {
    expect(inEntry(loaded, listed)).toEqual({ changes: [refresh], reloads: [] });
    expect(inEntry(loaded, listed, null)).toEqual({ changes: [refresh], reloads: [] });
  });

  it.each<readonly [string, Given, ManifestEntry]>([
    ['where there is no table yet', { desired: desired() }, entry(datasetId, 5)],
    ['where the dataset is no member', { ...loaded, desired: former(7n) }, entry(datasetId, 5)],
    ['where the dataset has no desired state', { ...loaded, desired: null }, entry(datasetId, 5)],
    ['where the entry states no schema version', loaded, { ...entry(datasetId, 4), schemaVersion: null }],
    ['where the entry states no row count', loaded, { ...entry(datasetId, 4), rowCount: null }],
    [
      'where the table does not know its schema',
      { ...loaded, table: table(4, { schemaVersion: null }) },
      { ...entry(datasetId, 4), schemaVersion: '2' },
    ],
    [
      'where a metadata refresh is pending already',
      { ...loaded, desired: desired({ refreshesRequested: 1 }) },
      entry(datasetId, 5),
    ],
    [
      'where an announced version has the versions read anyway',
      { ...loaded, desired: desired({ members: new Map([['sub_1', member({ announced: 5 })]]) }) },
      entry(datasetId, 5),
    ],
  ])('a manifest entry asks for nothing %s', (_, given, listed) => {
    expect(inEntry(given, listed)).toEqual(nothing);
  });

  describe('an entry with another stated digest', () => {
    const other = entry(datasetId, 4, 'anew');

    it('reloads a table where the manifest of its load states another digest for the loaded version', () => {
      expect(inEntry(loaded, other)).toEqual({ changes: [], reloads: [datasetId] });
      const byDataset = { ...loaded, table: table(4, { loadedThrough: null }) };
      expect(inEntry(byDataset, other, null)).toEqual({ changes: [], reloads: [datasetId] });
    });

    it('W23 reloads a table by another manifest where that of its load lists the dataset no more', () => {
      const left = { ...loaded, table: table(4, { loadedThrough: 'sub_2' }) };
      expect(inEntry(left, other)).toEqual({ changes: [], reloads: [datasetId] });
    });

    it('reloads a table that changes led on where the loaded version has another stated digest', () => {
      const ledOn = { ...loaded, table: { ...loaded.table, version: 6 } };
      expect(inEntry(ledOn, other).reloads).toEqual([datasetId]);
    });

    it.each<readonly [string, Given]>([
      [
        'in another manifest than that of the load',
        {
          desired: desired({ members: membersAt('sub_1', 'sub_2') }),
          table: table(4, { loadedThrough: 'sub_2' }),
        },
      ],
      ['where a reload is owed already', { ...loaded, desired: desired({ reloads: [reload(9)] }) }],
    ])('asks only for a metadata refresh on another stated digest %s', (_, given) => {
      expect(inEntry(given, other)).toEqual({ changes: [refresh], reloads: [] });
    });

    it.each<readonly [string, Given, ManifestEntry]>([
      [
        'where that of the table was only computed',
        { ...loaded, table: table(4, { loadedThrough: 'sub_1', digestKind: 'computed' }) },
        other,
      ],
      ['where the entry states none', loaded, entry(datasetId, 4, null)],
      [
        'for another version than the table was loaded from',
        {
          ...loaded,
          table: table(4, { loadedThrough: 'sub_1', snapshotVersion: 3, snapshotDigest: digestOf('v3') }),
        },
        entry(datasetId, 4),
      ],
    ])('ignores the digest of an entry %s', (_, given, listed) => {
      expect(inEntry(given, listed)).toEqual(nothing);
    });
  });
});

describe('the timestamp of a reload', () => {
  const timestamp = { subscriptionId: 'sub_1', logNumber: 1, newest: 9n, readAt: NOW };
  /** Service time has whole seconds: what happened in that one may be as late as its end. */
  const END_OF_SECOND = new Date(NOW.getTime() + 1_000);

  it('W40 dates a reload at the newest event, at the end of that second, and above every known version', () => {
    const announced = desired({ members: new Map([['sub_2', member({ announced: 7 })]]) });
    expect(reloadAt(timestamp, announced, table(4))).toEqual({
      kind: 'reload',
      datasetId,
      version: null,
      logNumber: 1,
      eventNumber: 9n,
      createdAt: END_OF_SECOND,
      readAt: NOW,
      knownVersion: 7,
      isWithdrawal: false,
    });
    expect(reloadAt(timestamp, desired(), table(4), true)).toMatchObject({
      knownVersion: 4,
      isWithdrawal: true,
    });
  });

  it('dates a reload before the first event where the log has none', () => {
    expect(reloadAt({ ...timestamp, newest: null }, desired(), null)).toMatchObject({ eventNumber: 0n });
  });

  it('dates a reload after every reload of the same log that the table satisfies or owes', () => {
    const later = new Date(NOW.getTime() + 5_000);
    const satisfied = table(4, {
      reloads: new Map([['sub_1', { logNumber: 1, eventNumber: 12n, createdAt: later }]]),
    });
    const next = { eventNumber: 12n, createdAt: new Date(later.getTime() + 1) };
    expect(reloadAt(timestamp, desired(), satisfied)).toMatchObject(next);
    const owed = desired({ reloads: [reload(12, { createdAt: later })] });
    expect(reloadAt(timestamp, owed, table(4))).toMatchObject(next);
  });

  it.each([
    ['of another log', { logNumber: 2 }],
    ['of another subscription', { subscriptionId: 'sub_2' }],
  ])('does not date a reload after one %s', (_, changed) => {
    const later = reload(12, { createdAt: new Date(NOW.getTime() + 5_000), ...changed });
    const owed = desired({ members: membersAt('sub_1', 'sub_2'), reloads: [later] });
    expect(reloadAt(timestamp, owed, table(4, { reloads: reloadMarks([['sub_2', 20n]]) }))).toMatchObject({
      eventNumber: 9n,
      createdAt: END_OF_SECOND,
    });
  });
});
