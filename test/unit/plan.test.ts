/** The plan for a dataset, through the one public function: every state under every condition, and every rule. */

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ContractViolationError } from '../../src/model/errors.ts';
import type { ListedEntry, ManifestEntry } from '../../src/model/manifest.ts';
import type { Schema, Version } from '../../src/model/records.ts';
import { changesContentOf, contentOf, inapplicableContentOf } from '../../src/sync/plan/content.ts';
import type { Plan, PlanInput } from '../../src/sync/plan/step.ts';
import { MAX_VERSIONS_AT_ONCE } from '../../src/sync/plan/version-chain.ts';
import { ago, chain, HOUR_MS, planOf, reported, stepOf } from '../support/planning.ts';
import { SEED } from '../support/seed.ts';
import {
  announcing,
  column,
  desired,
  entry,
  failure,
  formerMember,
  listedEntry,
  membersAt,
  metadata,
  NOW,
  reload,
  schema,
  suspension,
  table,
  version,
} from '../support/sync-values.ts';

function kindOf(changed: Partial<PlanInput>): Plan['kind'] {
  return planOf(changed).kind;
}

/** The time of publication of every version in these lists. */
const PUBLISHED = version('parcels', 1).publishedAt;
const FAILED_SNAPSHOT = failure({ contents: [contentOf(listedEntry(6).entry, PUBLISHED)] });
const FAILED_CHANGES = failure({ contents: [changesContentOf(version('parcels', 6))] });
const UNRECORDED_9 = new Map([[9, 'they were not recorded']]);
const UNRECORDED = new Map([[6, 'they were not recorded']]);
const MANY_ROWS = { added: 0, changed: 5_000, removed: 0 };
const COUNTED_OTHERWISE = listedEntry(6, { entry: { ...entry('parcels', 6), rowCount: 11 } });
const BEHIND = { desired: desired(announcing(6)), metadata: metadata(chain(5, 6)) };

/** Each condition of a live table, and the step that is planned then. */
const OF_A_TABLE = {
  'a current table': [{ desired: desired(announcing(5)), listedEntries: [listedEntry(5)] }, 'keep'],
  'a table that the metadata shows as current': [
    { desired: desired({ refreshesRequested: 1 }), metadata: metadata(chain(4, 5)) },
    'keep',
  ],
  'unread metadata and a pending refresh': [{ desired: desired({ refreshesRequested: 1 }) }, 'read-metadata'],
  'unread metadata and an announced version': [{ desired: desired(announcing(6)) }, 'read-metadata'],
  'unread metadata and an entry for a reload': [
    { desired: desired({ reloads: [reload(50)] }), listedEntries: [listedEntry(5)] },
    'read-metadata',
  ],
  'unread manifests and an owed reload': [
    { desired: desired({ reloads: [reload(50)] }), listedEntries: null },
    'read-manifest',
  ],
  'unread manifests and inapplicable changes': [
    { ...BEHIND, inapplicable: UNRECORDED, listedEntries: null },
    'read-manifest',
  ],
  'unread manifests and a list that lags': [
    { desired: desired(announcing(6)), metadata: metadata(chain(4, 5)), listedEntries: null },
    'read-manifest',
  ],
  'unread manifests and changes that may be more work than a snapshot': [
    { ...BEHIND, metadata: metadata(chain(5, 6, { counts: MANY_ROWS })), listedEntries: null },
    'read-manifest',
  ],
  'unread manifests and changes that are less work than any snapshot': [
    { ...BEHIND, listedEntries: null },
    'apply 6',
  ],
  'unread manifests and a current table': [{ desired: desired(announcing(5)), listedEntries: null }, 'keep'],
  'unread manifests and a pending refresh': [
    { desired: desired({ refreshesRequested: 1 }), listedEntries: null },
    'read-metadata',
  ],
  'metadata from before an entry': [
    {
      ...BEHIND,
      metadata: { ...BEHIND.metadata, entriesBefore: new Set() },
      listedEntries: [listedEntry(6)],
    },
    'read-metadata',
  ],
  'metadata that begins after the version of the table': [
    { desired: desired({ refreshesRequested: 1 }), metadata: { ...metadata(chain(4, 4)), newerThan: 3 } },
    'read-metadata',
  ],
  'a withdrawn version without a reload': [
    {
      desired: desired({ refreshesRequested: 1 }),
      metadata: metadata(chain(1, 4)),
      absentSince: new Map([[5, ago(HOUR_MS)]]),
    },
    'ask-reload',
  ],
  'a version that was published again without a reload': [
    {
      observed: table(5, { publishedAt: ago(1) }),
      desired: desired({ refreshesRequested: 1 }),
      metadata: metadata(chain(4, 5)),
    },
    'ask-reload',
  ],
  'a reload that only a former member asked for': [
    { desired: desired({ reloads: [reload(50, { subscriptionId: 'sub_9' })] }) },
    'ask-reload',
  ],
  'a withdrawn announced version': [
    {
      desired: desired(announcing(6)),
      metadata: metadata(chain(4, 5)),
      absentSince: new Map([[6, ago(HOUR_MS)]]),
    },
    'void-announced',
  ],
  'lower entries and a listed version': [
    {
      desired: desired({ refreshesRequested: 1 }),
      metadata: metadata(chain(4, 5)),
      listedEntries: [listedEntry(4)],
    },
    'keep',
  ],
  'a reload without an entry': [{ desired: desired({ reloads: [reload(50)] }) }, 'wait: not-listed'],
  'inapplicable changes without an entry': [{ ...BEHIND, inapplicable: UNRECORDED }, 'wait: not-listed'],
  'an entry that lags': [
    { ...BEHIND, inapplicable: UNRECORDED, listedEntries: [listedEntry(5)] },
    'wait: manifest-lags',
  ],
  'an entry that differs from the list': [
    { ...BEHIND, inapplicable: UNRECORDED, listedEntries: [COUNTED_OTHERWISE] },
    'wait: entry-differs',
  ],
  'an entry that differs and another that lags': [
    { ...BEHIND, inapplicable: UNRECORDED, listedEntries: [COUNTED_OTHERWISE, listedEntry(5)] },
    'wait: manifest-lags',
  ],
  'an entry that differs and applicable changes': [
    { ...BEHIND, listedEntries: [COUNTED_OTHERWISE] },
    'apply 6',
  ],
  'an entry of an unlisted version': [
    { ...BEHIND, inapplicable: UNRECORDED, listedEntries: [listedEntry(7)] },
    'wait: entry-unlisted',
  ],
  'an entry of the announced version': [
    { ...BEHIND, inapplicable: UNRECORDED, listedEntries: [listedEntry(6)] },
    'load 6',
  ],
  'an entry that failed before': [
    { ...BEHIND, inapplicable: UNRECORDED, listedEntries: [listedEntry(6)], failure: FAILED_SNAPSHOT },
    'report-failure',
  ],
  'applicable changes': [BEHIND, 'apply 6'],
  'changes that failed before': [{ ...BEHIND, failure: FAILED_CHANGES }, 'report-failure'],
  'changes that failed before and a snapshot that is more work': [
    { ...BEHIND, failure: FAILED_CHANGES, listedEntries: [listedEntry(6)] },
    'report-failure',
  ],
  'changes that failed before and unread manifests': [
    { ...BEHIND, failure: FAILED_CHANGES, listedEntries: null },
    'read-manifest',
  ],
  'an entry later than the changes that failed before': [
    {
      ...BEHIND,
      metadata: metadata(chain(5, 7)),
      failure: FAILED_CHANGES,
      listedEntries: [listedEntry(6), listedEntry(7)],
    },
    'load 7',
  ],
  'a list that lags': [
    { desired: desired(announcing(6)), metadata: metadata(chain(4, 5)) },
    'wait: list-lags',
  ],
} satisfies Record<string, readonly [Partial<PlanInput>, string]>;

/** Each condition without a table, and the step that is planned then. */
const WITHOUT_A_TABLE = {
  'unread manifests': [{ listedEntries: null }, 'read-manifest'],
  'unread metadata': [{ listedEntries: [listedEntry(6)] }, 'read-metadata'],
  'no entry': [{ desired: desired(announcing(6)) }, 'wait: not-listed'],
  'an entry that lags': [
    {
      desired: desired({ reloads: [reload(101)] }),
      metadata: metadata(chain(6, 6)),
      listedEntries: [listedEntry(6)],
    },
    'wait: manifest-lags',
  ],
  'an entry that differs from the list': [
    { metadata: metadata(chain(6, 6)), listedEntries: [COUNTED_OTHERWISE] },
    'wait: entry-differs',
  ],
  'an entry of an unlisted version': [
    { metadata: metadata(chain(5, 5)), listedEntries: [listedEntry(6)] },
    'wait: entry-unlisted',
  ],
  'a listed entry': [{ metadata: metadata(chain(6, 6)), listedEntries: [listedEntry(6)] }, 'load 6'],
  'an entry that failed before': [
    { metadata: metadata(chain(6, 6)), listedEntries: [listedEntry(6)], failure: FAILED_SNAPSHOT },
    'report-failure',
  ],
} satisfies Record<string, readonly [Partial<PlanInput>, string]>;

describe('every state under every condition', () => {
  const other = failure({ contents: [contentOf(listedEntry(99).entry, PUBLISHED)] });
  const ofATable = Object.entries<readonly [Partial<PlanInput>, string]>(OF_A_TABLE);
  const withoutATable = Object.entries<readonly [Partial<PlanInput>, string]>(WITHOUT_A_TABLE);

  it.each(ofATable)('plans for a live or failed table: %s', (_, [given, expected]) => {
    expect(reported(planOf({ observed: table(5), ...given }))).toBe(expected);
    expect(reported(planOf({ observed: table(5), failure: other, ...given }))).toBe(expected);
  });

  it.each(withoutATable)(
    'plans for an absent or failed dataset without a table: %s',
    (_, [given, expected]) => {
      expect(reported(planOf(given))).toBe(expected);
      expect(reported(planOf({ failure: other, ...given }))).toBe(expected);
    },
  );

  it.each([...ofATable, ...withoutATable])(
    'reports the suspension of a suspended dataset: %s',
    (_, [given]) => {
      expect(planOf({ ...given, suspension: suspension() })).toEqual({
        kind: 'report-suspension',
        suspension: suspension(),
      });
      expect(planOf({ observed: table(5), ...given, suspension: suspension() })).toEqual({
        kind: 'report-suspension',
        suspension: suspension(),
      });
    },
  );

  describe('a dataset that is to be retired', () => {
    const left = desired({
      members: new Map(),
      formerMembers: new Map([['sub_1', formerMember({ eventNumber: 7n, reason: 'left_coverage' })]]),
    });
    const approval = suspension({ kind: 'retirement' });
    const ALLOWED = { kind: 'allowed', judgedAt: NOW } as const;
    const UNREAD = {
      kind: 'logs-unread',
      awaited: [{ subscriptionId: 'sub_2', reason: 'log-unread' }],
    } as const;

    it.each([
      [
        'that is allowed',
        ALLOWED,
        {
          kind: 'retire',
          reason: 'left subscription sub_1: left_coverage',
          isApproved: false,
          judgedAt: NOW,
        },
      ],
      ['that waits for unread logs', UNREAD, { kind: 'await-subscriptions', awaited: UNREAD.awaited }],
      [
        'that needs approval',
        { kind: 'needs-approval', suspension: approval },
        { kind: 'report-suspension', suspension: approval },
      ],
    ] as const)(
      'reports a retirement %s, though the dataset is suspended or failed',
      (_, retirement, expected) => {
        const retired = { desired: left, observed: table(5), retirement, listedEntries: [listedEntry(6)] };
        expect(planOf(retired)).toEqual(expected);
        // A retirement asks nothing of the service, so neither a refusal nor a failure prevents it.
        expect(planOf({ ...retired, suspension: suspension(), failure: other })).toEqual(expected);
      },
    );

    it("passes the operator's approval to the destination, so that the retirement is not counted", () => {
      const approved = { ...left, retirementApproved: true };
      expect(planOf({ desired: approved, observed: table(5) })).toMatchObject({
        kind: 'retire',
        isApproved: true,
      });
    });

    it.each([ALLOWED, UNREAD])('leaves a dataset without a table alone: $kind', (retirement) => {
      expect(kindOf({ desired: left, retirement })).toBe('leave');
    });
  });
});

describe('the metadata of a plan', () => {
  it('reads the metadata from the version of the table on', () => {
    const refreshing = { observed: table(5), desired: desired({ refreshesRequested: 1 }) };
    expect(planOf({ ...refreshing, listedEntries: [listedEntry(3)] })).toEqual({
      kind: 'read-metadata',
      newerThan: 4,
    });
    expect(planOf({ ...refreshing, observed: table(0) })).toEqual({ kind: 'read-metadata', newerThan: null });
  });

  it('reads the metadata from the oldest snapshot that may be loaded on', () => {
    const listedEntries = [listedEntry(3), listedEntry(7, { subscriptionId: 'sub_2' })];
    expect(planOf({ listedEntries })).toEqual({ kind: 'read-metadata', newerThan: 2 });
    const reloading = { observed: table(5), desired: desired({ reloads: [reload(50)] }) };
    expect(planOf({ ...reloading, listedEntries })).toEqual({ kind: 'read-metadata', newerThan: 2 });
  });

  it('reads the metadata again where it begins too late', () => {
    const late = { ...metadata(chain(5, 6)), newerThan: 4 };
    const given = { observed: table(5), desired: desired(announcing(6)), metadata: late };
    expect(reported(planOf(given))).toBe('apply 6');
    expect(planOf({ ...given, observed: table(4) })).toEqual({ kind: 'read-metadata', newerThan: 3 });
  });

  it('reads all metadata where the list may lack the version of the table', () => {
    const refreshing = { observed: table(5), desired: desired({ refreshesRequested: 1 }) };
    const none = { ...metadata([]), newerThan: 4 };
    expect(planOf({ ...refreshing, metadata: none })).toEqual({ kind: 'read-metadata', newerThan: null });
    const later = { ...metadata(chain(7, 8)), newerThan: 4 };
    expect(kindOf({ ...refreshing, metadata: later })).not.toBe('read-metadata');
  });

  it('reads the metadata after every entry that may be loaded', () => {
    const [read, unread] = [listedEntry(6), listedEntry(6, { subscriptionId: 'sub_2' })];
    const known = { ...metadata(chain(5, 6)), entriesBefore: new Set([read.entry]) };
    const given = { ...BEHIND, inapplicable: UNRECORDED, observed: table(5), metadata: known };
    expect(reported(planOf({ ...given, listedEntries: [read] }))).toBe('load 6');
    expect(planOf({ ...given, listedEntries: [read, unread] })).toEqual({
      kind: 'read-metadata',
      newerThan: 4,
    });
  });

  it('reads no metadata where the table is current, and where a snapshot is needed and none is listed', () => {
    expect(kindOf({ observed: table(5) })).toBe('keep');
    expect(kindOf({ observed: table(5), desired: desired({ resyncNumber: 1 }) })).toBe('wait');
    expect(kindOf({})).toBe('wait');
  });
});

describe('the path to a version', () => {
  const behind = (observed: number, last: number, changed: Partial<PlanInput> = {}): Partial<PlanInput> => ({
    observed: table(observed),
    desired: desired(announcing(last)),
    metadata: metadata(chain(observed, last)),
    ...changed,
  });

  it('applies one version at a time where each is to be a commit, also where a snapshot is less work', () => {
    const given = behind(8, 12, { commitsEveryVersion: true });
    expect(stepOf(given)).toBe('apply 9');
    const costly = { ...given, metadata: metadata(chain(8, 12, { counts: MANY_ROWS })) };
    expect(stepOf({ ...costly, commitsEveryVersion: false, listedEntries: [listedEntry(12)] })).toBe(
      'load 12',
    );
    expect(stepOf({ ...costly, listedEntries: [listedEntry(12)] })).toBe('apply 9');
    expect(stepOf({ ...costly, listedEntries: null })).toBe('apply 9');
    expect(stepOf({ ...given, inapplicable: UNRECORDED_9, listedEntries: [listedEntry(12)] })).toBe(
      'load 12',
    );
  });

  it('F69 reports the pin of a table, whatever was announced, asked for or published', () => {
    const observed = table(8, { pinnedSince: NOW });
    const pinned = { kind: 'report-pin', pinnedSince: NOW };
    expect(planOf(behind(8, 12, { observed }))).toEqual(pinned);
    const asked = desired({
      ...announcing(12),
      reloads: [reload(50)],
      resyncNumber: 3,
      refreshesRequested: 1,
    });
    expect(planOf(behind(8, 12, { observed, desired: asked, listedEntries: [listedEntry(12)] }))).toEqual(
      pinned,
    );
    expect(planOf(behind(8, 12, { observed, suspension: suspension() }))).toEqual(pinned);
    const left = desired({ members: new Map() });
    expect(kindOf({ observed, desired: left })).toBe('retire');
  });

  it('V1 V2 applies the listed versions oldest first, though the list is written newest first', () => {
    expect(planOf(behind(8, 12))).toEqual({
      kind: 'apply',
      versions: chain(9, 12),
      schema: schema('parcels'),
      addsColumns: false,
    });
  });

  it('applies changes up to the head, past the announced version', () => {
    const refreshing = { ...behind(8, 12), desired: desired({ refreshesRequested: 1 }) };
    expect(reported(planOf(refreshing))).toBe('apply 9,10,11,12');
    expect(reported(planOf({ ...refreshing, desired: desired(announcing(10)) }))).toBe('apply 9,10,11,12');
  });

  it('applies at most a fixed number of versions at once', () => {
    const decided = planOf(behind(0, MAX_VERSIONS_AT_ONCE + 1));
    expect(decided.kind === 'apply' && decided.versions.length).toBe(MAX_VERSIONS_AT_ONCE);
    expect(
      reported(planOf({ ...behind(0, MAX_VERSIONS_AT_ONCE + 1), observed: table(MAX_VERSIONS_AT_ONCE) })),
    ).toBe(`apply ${MAX_VERSIONS_AT_ONCE + 1}`);
  });

  /** Versions without row counts. */
  const uncounted = (first: number, last: number, changed: Partial<Version> = {}): readonly Version[] =>
    chain(first, last, { rowCount: null, ...changed });
  const later = (changed: Partial<Schema>): Partial<PlanInput> => {
    const change = { kind: 'additive', previousSchemaVersion: '1', keyColumnsChanged: false } as const;
    const next = schema('parcels', {
      schemaVersion: '2',
      firstVersion: 11,
      changeFromPrevious: change,
      ...changed,
    });
    const versions = [...uncounted(8, 10), ...uncounted(11, 12, { schemaVersion: '2' })];
    return { schemaChanges: 'alter', metadata: metadata(versions, [next, schema('parcels')]) };
  };
  const eleventh = (changed: Partial<Version>): Partial<PlanInput> => ({
    metadata: metadata([...uncounted(8, 10), ...uncounted(11, 11, changed), ...uncounted(12, 12)]),
  });
  const breaking = { kind: 'breaking', previousSchemaVersion: '1', keyColumnsChanged: false } as const;
  const otherKeys = { keyColumns: ['county'], columns: [column('id'), column('county')] };

  it.each<readonly [string, Partial<PlanInput>, string]>([
    [
      'a chain that is broken',
      eleventh({ previousVersion: 9 }),
      'version 11 follows version 9, not version 10',
    ],
    [
      'a version that asks for the snapshot',
      eleventh({ resyncRequired: true }),
      'version 11 asks for the snapshot',
    ],
    [
      'changes that are not recorded',
      { ...eleventh({}), inapplicable: new Map([[11, 'they were not recorded']]) },
      'the changes of version 11 cannot be used: they were not recorded',
    ],
    [
      'a schema change that is breaking',
      later({ changeFromPrevious: breaking }),
      'version 11 has another schema, "2", which does more than add columns',
    ],
    ['other key columns', later(otherKeys), 'version 11 has other key columns'],
  ])('V3 V4 applies changes up to %s, then waits for a snapshot at or past it', (_, given, why) => {
    const offering = (number: number): Partial<PlanInput> => ({
      listedEntries: [
        {
          ...listedEntry(number),
          entry: { ...entry('parcels', number), schemaVersion: null, rowCount: 1_000_000 },
        },
      ],
    });
    const stopped = behind(8, 12, given);
    expect(reported(planOf(stopped))).toBe('apply 9,10');
    expect(reported(planOf({ ...stopped, ...offering(10) }))).toBe('apply 9,10');
    const there = { ...stopped, observed: table(10) };
    expect(reported(planOf(there))).toBe('wait: not-listed');
    expect(reported(planOf({ ...there, ...offering(10) }))).toBe('wait: manifest-lags');
    for (const number of [11, 12]) {
      expect(reported(planOf({ ...stopped, ...offering(number) }))).toBe(`load ${number}`);
      expect(planOf({ ...there, ...offering(number) })).toMatchObject({ kind: 'load', why });
    }
  });

  it('loads a snapshot past a stop rather than apply the changes before it', () => {
    const counts = { added: 0, changed: 1, removed: 0 };
    const inapplicable = new Map([[11, 'they were not recorded']]);
    const stopped = behind(8, 12, { metadata: metadata(chain(8, 12, { counts })), inapplicable });
    expect(reported(planOf({ ...stopped, listedEntries: [listedEntry(11)] }))).toBe('load 11');
    expect(reported(planOf({ ...stopped, listedEntries: [listedEntry(10)] }))).toBe('apply 9,10');
  });

  it('applies the changes after a snapshot', () => {
    const loaded = behind(11, 12, { listedEntries: [listedEntry(11)] });
    expect(reported(planOf(loaded))).toBe('apply 12');
  });

  it('applies changes up to the end of the list, and uses no entry past it', () => {
    const announced = behind(8, 12, { desired: desired(announcing(13)) });
    expect(reported(planOf(announced))).toBe('apply 9,10,11,12');
    expect(reported(planOf({ ...announced, listedEntries: [listedEntry(13)] }))).toBe('apply 9,10,11,12');
    const there = { ...announced, observed: table(12) };
    expect(reported(planOf({ ...there, listedEntries: [listedEntry(12)] }))).toBe('wait: list-lags');
    expect(reported(planOf({ ...there, listedEntries: [listedEntry(13)] }))).toBe('wait: list-lags');
  });

  it('loads the snapshot of the subscription that leads furthest', () => {
    const listedEntries = [listedEntry(9), listedEntry(12, { subscriptionId: 'sub_2' })];
    const inapplicable = new Map([
      [9, 'they were not recorded'],
      [11, 'they were not recorded'],
    ]);
    const asked = behind(8, 12, {
      desired: desired(announcing(12, 'sub_1', 'sub_2')),
      listedEntries,
      inapplicable,
    });
    expect(reported(planOf(asked))).toBe('load 12');
    expect(reported(planOf({ ...asked, listedEntries: listedEntries.slice(0, 1) }))).toBe('load 9');
  });

  it('W14 keeps a table that is ahead of the list and of a manifest that may lag', () => {
    const asked = desired({ ...announcing(3), refreshesRequested: 1 });
    const ahead = { observed: table(12), metadata: metadata(chain(1, 3)), desired: asked };
    expect(kindOf({ ...ahead, listedEntries: [listedEntry(3)] })).toBe('keep');
    expect(
      kindOf({ ...ahead, listedEntries: [listedEntry(3, { watermark: { kind: 'time', through: NOW } })] }),
    ).toBe('keep');
  });

  it('reports an unlisted schema as a violation by the service, once no other path is left', () => {
    const versions = [...chain(8, 9), version('parcels', 10, { schemaVersion: '9' })];
    const unlisted = behind(8, 10, { metadata: metadata(versions) });
    expect(reported(planOf(unlisted))).toBe('apply 9');
    const there = { ...unlisted, observed: table(9) };
    expect(() => planOf(there)).toThrow(ContractViolationError);
    expect(() => planOf({ ...there, listedEntries: [listedEntry(9)] })).toThrow(
      'The schema "9" of version 10 of dataset parcels is not in the service\'s list of schemas.',
    );
    expect(reported(planOf({ ...there, listedEntries: [listedEntry(10)] }))).toBe('load 10');
  });
});

describe('changes and a snapshot that lead as far', () => {
  const large = (number: number, rowCount: number): ListedEntry => {
    const made = listedEntry(number);
    return { ...made, entry: { ...made.entry, rowCount } };
  };
  const behind = (rows: number, offering: ListedEntry): Partial<PlanInput> => ({
    observed: table(8),
    desired: desired(announcing(12)),
    metadata: metadata(chain(8, 12, { rowCount: null, counts: { added: 0, changed: rows, removed: 0 } })),
    listedEntries: [offering],
  });

  it('takes the path of less work', () => {
    expect(reported(planOf(behind(10, large(12, 100_000))))).toBe('apply 9,10,11,12');
    expect(planOf(behind(10_000, large(12, 100_000)))).toMatchObject({
      kind: 'load',
      why: 'it is less work than the changes of 4 versions',
    });
  });

  it('takes the rows of the version or the table where the snapshot states none', () => {
    const silent = { ...listedEntry(12), entry: { ...entry('parcels', 12), rowCount: null } };
    const counts = { added: 0, changed: 200, removed: 0 };
    const versions = (rowCount: number | null): PlanInput['metadata'] =>
      metadata([...chain(8, 8), ...chain(9, 12, { rowCount, counts })]);
    const given = { ...behind(200, silent), metadata: versions(100_000) };
    expect(reported(planOf(given))).toBe('apply 9,10,11,12');
    expect(reported(planOf({ ...given, metadata: versions(null) }))).toBe('load 12');
    const uncounted = metadata(chain(8, 12, { rowCount: null, counts }));
    expect(
      reported(planOf({ ...given, metadata: uncounted, observed: table(8, { rowCount: 100_000 }) })),
    ).toBe('apply 9,10,11,12');
  });

  it('counts the changes after the snapshot as its work', () => {
    expect(reported(planOf(behind(10_000, large(11, 100_000))))).toBe('load 11');
    expect(reported(planOf(behind(10_000, large(9, 100_000))))).toBe('apply 9,10,11,12');
  });
});

describe('a missing table', () => {
  it('loads a missing table from the newest entry', () => {
    const newest = listedEntry(7, { subscriptionId: 'sub_2' });
    const members = membersAt('sub_1', 'sub_2');
    expect(
      planOf({
        desired: desired({ members }),
        metadata: metadata(chain(6, 7)),
        listedEntries: [listedEntry(6), newest],
      }),
    ).toEqual({ kind: 'load', listedEntry: newest, reloads: new Map(), why: 'there is no table yet' });
  });

  it('loads a missing table below the announced version, then applies changes or waits', () => {
    const asked = { desired: desired(announcing(9)), listedEntries: [listedEntry(8)] };
    expect(reported(planOf({ ...asked, metadata: metadata(chain(8, 9)) }))).toBe('load 8');
    expect(reported(planOf({ ...asked, metadata: metadata(chain(8, 8)) }))).toBe('load 8');
    const loaded = { ...asked, observed: table(8) };
    expect(reported(planOf({ ...loaded, metadata: metadata(chain(8, 9)) }))).toBe('apply 9');
    expect(reported(planOf({ ...loaded, metadata: metadata(chain(8, 8)) }))).toBe('wait: list-lags');
  });

  it('loads a missing table from another entry where the content of the best one failed', () => {
    const listedEntries = [listedEntry(6), listedEntry(5, { subscriptionId: 'sub_2' })];
    const given = { listedEntries, metadata: metadata(chain(5, 6)), failure: FAILED_SNAPSHOT };
    expect(reported(planOf(given))).toBe('load 5');
  });
});

describe("the schema of the table's version", () => {
  const schemas = [
    schema('parcels', { schemaVersion: '2', firstVersion: 12 }),
    schema('parcels', { schemaVersion: '1', firstVersion: 1 }),
  ];
  const refreshing = { observed: table(12), desired: desired({ refreshesRequested: 1 }) };
  const offering = (schemaVersion: string | null): readonly ListedEntry[] => [
    { ...listedEntry(12), entry: { ...entry('parcels', 12), schemaVersion } },
  ];

  it.each([
    ['its record names', chain(12, 12, { schemaVersion: '2' })],
    ['began by then, where its record names none', chain(12, 12, { schemaVersion: null })],
  ])('loads a snapshot where the table lacks the schema that %s', (_, versions) => {
    const given = { ...refreshing, metadata: metadata(versions, schemas) };
    expect(planOf({ ...given, listedEntries: offering('2') })).toMatchObject({
      kind: 'load',
      why: 'the table has schema 1, and its version has schema 2',
    });
    expect(kindOf({ ...given, listedEntries: offering(null) })).toBe('load');
    expect(reported(planOf({ ...given, listedEntries: offering('1') }))).toBe('wait: manifest-lags');
    expect(reported(planOf({ ...given, listedEntries: [listedEntry(13)] }))).toBe('wait: entry-unlisted');
    expect(reported(planOf(given))).toBe('wait: not-listed');
    expect(kindOf({ ...given, observed: table(12, { schemaVersion: '2' }) })).toBe('keep');
  });

  it('keeps the table where the service does not state the schema of its version', () => {
    const unsaid = [schema('parcels', { schemaVersion: '2', firstVersion: null }), ...schemas.slice(1)];
    const given = { ...refreshing, listedEntries: offering('2') };
    expect(kindOf({ ...given, metadata: metadata(chain(12, 12, { schemaVersion: null }), unsaid) })).toBe(
      'keep',
    );
    expect(kindOf({ ...given, metadata: metadata([], schemas) })).toBe('keep');
  });

  it('W24 alters the table for a new schema only where that was configured', () => {
    const additive = { kind: 'additive', previousSchemaVersion: '1', keyColumnsChanged: false } as const;
    const added = schema('parcels', {
      schemaVersion: '2',
      firstVersion: 13,
      columns: [column('id', { nullable: false }), column('acreage', { type: 'number' })],
      changeFromPrevious: additive,
    });
    const versions = [...chain(12, 12), version('parcels', 13, { schemaVersion: '2' })];
    const given = { ...refreshing, metadata: metadata(versions, [added, ...schemas.slice(1)]) };
    expect(planOf({ ...given, schemaChanges: 'alter' })).toEqual({
      kind: 'apply',
      versions: versions.slice(1),
      schema: added,
      addsColumns: true,
    });
    expect(reported(planOf({ ...given, listedEntries: [listedEntry(12)] }))).toBe('wait: manifest-lags');
    expect(reported(planOf({ ...given, listedEntries: [listedEntry(13)] }))).toBe('load 13');
  });
});

describe('content that failed', () => {
  const failing = listedEntry(6);
  const failed = failure({ contents: [contentOf(failing.entry, PUBLISHED)] });
  const behind = {
    observed: table(5),
    desired: desired(announcing(6)),
    failure: failed,
    metadata: metadata(chain(5, 7)),
    inapplicable: UNRECORDED,
  };

  it('reports the failure of content until its retry is due', () => {
    expect(kindOf({ ...behind, listedEntries: [failing] })).toBe('report-failure');
    expect(kindOf({ ...behind, listedEntries: [failing], now: new Date(failed.retryAt.getTime() - 1) })).toBe(
      'report-failure',
    );
    expect(kindOf({ ...behind, listedEntries: [failing], now: failed.retryAt })).toBe('load');
  });

  it('F13 loads failed content again where it failed in the future, by a wrong clock', () => {
    const now = new Date(failed.failedAt.getTime() - 1);
    expect(kindOf({ ...behind, listedEntries: [failing], now })).toBe('load');
  });

  it('loads other content of the same version at once', () => {
    expect(kindOf({ ...behind, listedEntries: [listedEntry(6, { content: 'corrected' })] })).toBe('load');
  });

  it('loads a newer version though an older one failed', () => {
    expect(kindOf({ ...behind, listedEntries: [listedEntry(7)] })).toBe('load');
  });

  it('applies changes instead of a snapshot that failed', () => {
    expect(reported(planOf({ ...behind, inapplicable: new Map(), listedEntries: [failing] }))).toBe(
      'apply 6,7',
    );
  });

  it('identifies content by version, digest and statements about it, so that a corrected statement is tried', () => {
    const of = (named: ManifestEntry) => contentOf(named, PUBLISHED);
    expect(of(entry('a', 1, 'x'))).not.toBe(of(entry('a', 2, 'x')));
    expect(of(entry('a', 1, 'x'))).not.toBe(of(entry('a', 1, 'y')));
    expect(of({ ...entry('a', 1, 'x'), rowCount: 11 })).not.toBe(of(entry('a', 1, 'x')));
    expect(of(entry('a', 1, null))).not.toBe(of(entry('a', 1, 'x')));
    expect(of(entry('a', 1, null))).toBe(of(entry('a', 1, null)));
  });
});

describe('changes that failed', () => {
  const failed = failure({ contents: [changesContentOf(version('parcels', 6))] });
  const seventh = version('parcels', 7, { rowCount: null, counts: MANY_ROWS });
  const known = metadata([...chain(5, 6), seventh]);
  const behind = { observed: table(5), desired: desired(), failure: failed, metadata: known };
  const offering = (rowCount: number): readonly ListedEntry[] => [
    { ...listedEntry(7), entry: { ...listedEntry(7).entry, rowCount } },
  ];

  it('applies neither failed changes nor those beside them before their retry is due', () => {
    expect(kindOf(behind)).toBe('report-failure');
    expect(reported(planOf({ ...behind, now: failed.retryAt }))).toBe('apply 6,7');
    expect(reported(planOf({ ...behind, observed: table(6) }))).toBe('apply 7');
  });

  it("loads the snapshot of the failed changes' version only where it would be loaded anyway", () => {
    const last = {
      ...behind,
      observed: table(6),
      failure: failure({ contents: [changesContentOf(seventh)] }),
    };
    expect(kindOf({ ...last, listedEntries: offering(1_000_000) })).toBe('report-failure');
    expect(reported(planOf({ ...last, listedEntries: offering(1) }))).toBe('load 7');
    const resync = desired({ resyncNumber: 1 });
    expect(reported(planOf({ ...last, desired: resync, listedEntries: offering(1_000_000) }))).toBe('load 7');
  });

  it('F57 applies the versions before the failed changes, and stops there', () => {
    const given = { ...behind, observed: table(3), metadata: metadata(chain(3, 7)) };
    expect(reported(planOf(given))).toBe('apply 4,5');
    expect(reported(planOf({ ...given, listedEntries: [listedEntry(4)] }))).toBe('apply 4,5');
    expect(kindOf({ ...given, observed: table(5) })).toBe('report-failure');
  });

  it('C13 loads the snapshot of a later version around failed changes', () => {
    expect(planOf({ ...behind, listedEntries: offering(1_000_000) })).toMatchObject({
      kind: 'load',
      listedEntry: { entry: { version: 7 } },
      why: 'the changes of version 6 cannot be mirrored',
    });
    const later = offering(1_000_000).map(({ entry }) => contentOf(entry, PUBLISHED));
    const both = failure({ contents: [...failed.contents, ...later] });
    expect(kindOf({ ...behind, failure: both, listedEntries: offering(1_000_000) })).toBe('report-failure');
  });
});

describe('inapplicable changes whose snapshot failed', () => {
  const failing = listedEntry(6);
  const [, sixth = version('parcels', 6)] = chain(5, 6);
  const failed = failure({ contents: [contentOf(failing.entry, PUBLISHED), inapplicableContentOf(sixth)] });
  const behind = { observed: table(5), desired: desired(), failure: failed, metadata: metadata(chain(5, 6)) };

  it("applies the changes again no sooner than the snapshot's retry is due", () => {
    expect(kindOf({ ...behind, listedEntries: [failing] })).toBe('report-failure');
    expect(reported(planOf({ ...behind, listedEntries: [failing], now: failed.retryAt }))).toBe('apply 6');
  });

  it('applies the changes again where the service states other facts about them', () => {
    const corrected = metadata([...chain(5, 5), { ...sixth, rowCount: 11 }]);
    expect(reported(planOf({ ...behind, listedEntries: [failing], metadata: corrected }))).toBe('apply 6');
  });

  it('loads another snapshot than the failed one', () => {
    expect(reported(planOf({ ...behind, listedEntries: [listedEntry(6, { content: 'corrected' })] }))).toBe(
      'load 6',
    );
    const newer = { ...behind, metadata: metadata(chain(5, 7)), listedEntries: [listedEntry(7)] };
    expect(reported(planOf(newer))).toBe('load 7');
  });
});

describe('a suspended dataset', () => {
  it('reports the suspension, whatever else is true', () => {
    const anything = fc.record({
      observed: fc.option(fc.constantFrom(table(5), table(9))),
      failure: fc.option(fc.constant(failure())),
      metadata: fc.option(fc.constant(metadata(chain(5, 9)))),
      listedEntries: fc.subarray([listedEntry(4), listedEntry(9)]),
      desired: fc.constantFrom(desired(), desired(announcing(9)), desired({ resyncNumber: 1 })),
    });
    const property = fc.property(anything, (given) => {
      expect(planOf({ ...given, suspension: suspension() })).toEqual({
        kind: 'report-suspension',
        suspension: suspension(),
      });
    });
    fc.assert(property, { seed: SEED });
  });
});
