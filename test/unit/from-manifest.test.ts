/** What is wanted at a first start, and what a manifest adds later. */

import { describe, expect, it } from 'vitest';
import type { Held, HeldDataset } from '../../src/destination/destination.ts';
import type { EventId } from '../../src/model/event.ts';
import { type ManifestEntry, snapshotDigest } from '../../src/model/manifest.ts';
import type { Want } from '../../src/model/want.ts';
import { auditChanges } from '../../src/sync/audit.ts';
import { isLoadedFrom, stepFromManifest, stepFromMembers } from '../../src/sync/from-manifest.ts';
import { digestOf, entry, id, subscription, table, want } from '../support/sync-values.ts';

const datasetId = 'parcels';

function holding(...tables: HeldDataset[]): Held {
  return { service: null, datasets: new Map(tables.map((held) => [held.datasetId, held])) };
}

function stepOf(ofSubscription: EventId | null, ofManifest: EventId | null, held = holding()) {
  const manifest = { subscriptionId: 'sub_1', lastEventId: ofManifest, datasets: [entry(datasetId, 4)] };
  return stepFromManifest(subscription({ lastEventId: ofSubscription }), manifest, held);
}

const loaded = [
  { kind: 'member', datasetId },
  { kind: 'at-least', datasetId, version: 4 },
];

describe('the position of a first start', () => {
  it.each([
    ['the smaller of the two, as numbers', id(10), id(9), id(9)],
    ['the smaller of the two, the other way round', id(9), id(10), id(9)],
    ["the manifest's where the subscription names none", null, id(9), id(9)],
    ["the subscription's where the manifest names none", id(10), null, id(10)],
    ['the start of the log where neither names one', null, null, null],
  ])('is %s', (_, ofSubscription, ofManifest, cursor) => {
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

  it('is a look too, where the manifest does not say how far it goes', () => {
    expect(stepOf(id(9), null).changes).toEqual([...loaded, { kind: 'look', datasetId }]);
  });

  it('is nothing more where the table is this very snapshot', () => {
    expect(stepOf(id(9), id(9), holding(table(4))).changes).toEqual(loaded);
  });

  it.each([
    ['another version', table(3)],
    ['other content of the same version', table(4, { snapshotDigest: 'other' })],
    ['the same snapshot with changes applied', table(4, { snapshotVersion: 3 })],
  ])('is a reload where the table is %s', (_, held) => {
    const reload = { kind: 'reload', datasetId, eventNumber: 9n, version: 4 };
    expect(stepOf(id(9), id(10), holding(held)).changes).toEqual([...loaded, reload]);
  });

  it('is a reload too where nobody knows a position', () => {
    const reload = { kind: 'reload', datasetId, eventNumber: 0n, version: 4 };
    expect(stepOf(null, null, holding(table(3))).changes).toContainEqual(reload);
  });
});

describe('the members of a subscription without a manifest of its own', () => {
  const record = subscription({ datasetIds: ['parcels', 'permits'] });
  const wants = new Map<string, Want>([
    ['permits', want({ datasetId: 'permits', members: new Set(), formerMembers: new Map([['sub_1', 7n]]) })],
    ['zoning', want({ datasetId: 'zoning' })],
    ['roads', want({ datasetId: 'roads', members: new Set(['sub_2']) })],
  ]);

  it('are those of its record and of its log, without those its log has removed; all are looked at', () => {
    expect(stepFromMembers(record, wants)).toMatchObject({
      cursor: null,
      changes: [
        { kind: 'member', datasetId: 'parcels' },
        { kind: 'look', datasetId: 'parcels' },
        { kind: 'member', datasetId: 'zoning' },
        { kind: 'look', datasetId: 'zoning' },
      ],
    });
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

describe('an audit', () => {
  const audit = (
    reflects: EventId | null,
    wanted: Want | null,
    held = holding(),
    listed = entry(datasetId, 4),
  ) => {
    const entries: readonly ManifestEntry[] = [listed];
    const wants = new Map(wanted === null ? [] : [[datasetId, wanted]]);
    return auditChanges({ subscriptionId: 'sub_1', reflects, entries }, wants, held);
  };
  const former = want({ members: new Set(), formerMembers: new Map([['sub_1', 7n]]), atLeastVersion: 4 });
  const reloading = want({ atLeastVersion: 2, reloadAfter: new Map([['sub_1', 7n]]) });

  it('finds nothing where the manifest lists what is wanted, or less', () => {
    expect(audit(id(9), want({ atLeastVersion: 4 }))).toEqual([]);
    expect(audit(id(9), want({ atLeastVersion: 5 }))).toEqual([]);
  });

  it('wants a dataset that no event named, as of what the manifest reflects', () => {
    expect(audit(id(9), null)).toEqual([
      { kind: 'member', datasetId, eventNumber: 9n },
      { kind: 'at-least', datasetId, version: 4, eventNumber: 9n },
    ]);
    expect(audit(null, null)).toEqual(loaded);
  });

  it('leaves it to the event numbers whether a removal came after the manifest', () => {
    expect(audit(id(9), former)).toEqual([{ kind: 'member', datasetId, eventNumber: 9n }]);
  });

  it('does not bring back what was removed, where the manifest does not say how far it goes', () => {
    expect(audit(null, former)).toEqual([]);
  });

  it('does not raise the version under a reload, where the manifest does not say how far it goes', () => {
    expect(audit(null, reloading, holding(table(9)))).toEqual([]);
    const satisfied = table(2, { reloads: new Map([['sub_1', 7n]]) });
    expect(audit(null, reloading, holding(satisfied))).toEqual([{ kind: 'at-least', datasetId, version: 4 }]);
    expect(audit(id(9), reloading)).toEqual([{ kind: 'at-least', datasetId, version: 4, eventNumber: 9n }]);
  });
});
