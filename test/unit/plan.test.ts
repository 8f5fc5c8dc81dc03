/** What is decided for a dataset, through the one public function: every state in every situation, and every rule. */

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ContractViolationError } from '../../src/model/errors.ts';
import type { ListedEntry, ManifestEntry } from '../../src/model/manifest.ts';
import type { Schema, Version } from '../../src/model/records.ts';
import { changesContentOf, contentOf, inapplicableContentOf } from '../../src/sync/plan/content.ts';
import type { Plan, PlanInput } from '../../src/sync/plan/step.ts';
import { MAX_VERSIONS_AT_ONCE } from '../../src/sync/plan/version-chain.ts';
import { ago, chain, HOUR_MS, planOf, reported, toldOf } from '../support/planning.ts';
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

/** Of every version in the lists here. */
const PUBLISHED = version('parcels', 1).publishedAt;
const FAILED_SNAPSHOT = failure({ contents: [contentOf(listedEntry(6).entry, PUBLISHED)] });
const FAILED_CHANGES = failure({ contents: [changesContentOf(version('parcels', 6))] });
const UNRECORDED_9 = new Map([[9, 'they were not recorded']]);
const UNRECORDED = new Map([[6, 'they were not recorded']]);
const MANY_ROWS = { added: 0, changed: 5_000, removed: 0 };
const COUNTED_OTHERWISE = listedEntry(6, { entry: { ...entry('parcels', 6), rowCount: 11 } });
const BEHIND = { desired: desired(announcing(6)), metadata: metadata(chain(5, 6)) };

/** What makes a live table be in each situation, and what is then done. */
const OF_A_TABLE = {
  'nothing needed': [{ desired: desired(announcing(5)), listedEntries: [listedEntry(5)] }, 'keep'],
  'nothing needed, as the metadata says': [
    { desired: desired({ refreshesRequested: 1 }), metadata: metadata(chain(4, 5)) },
    'keep',
  ],
  'metadata unread, where a look is owed': [{ desired: desired({ refreshesRequested: 1 }) }, 'read-metadata'],
  'metadata unread, where a version was announced': [{ desired: desired(announcing(6)) }, 'read-metadata'],
  'metadata unread, where a reload is offered': [
    { desired: desired({ reloads: [reload(50)] }), listedEntries: [listedEntry(5)] },
    'read-metadata',
  ],
  'offers unread, where a reload was asked for': [
    { desired: desired({ reloads: [reload(50)] }), listedEntries: null },
    'read-manifest',
  ],
  'offers unread, and changes do not lead on': [
    { ...BEHIND, inapplicable: UNRECORDED, listedEntries: null },
    'read-manifest',
  ],
  'offers unread, and the list lags': [
    { desired: desired(announcing(6)), metadata: metadata(chain(4, 5)), listedEntries: null },
    'read-manifest',
  ],
  'offers unread, and changes may be more work than a snapshot': [
    { ...BEHIND, metadata: metadata(chain(5, 6, { counts: MANY_ROWS })), listedEntries: null },
    'read-manifest',
  ],
  'offers unread, and changes lead on for less work than any snapshot': [
    { ...BEHIND, listedEntries: null },
    'apply 6',
  ],
  'offers unread, and nothing needed': [{ desired: desired(announcing(5)), listedEntries: null }, 'keep'],
  'offers unread, and a look is owed': [
    { desired: desired({ refreshesRequested: 1 }), listedEntries: null },
    'read-metadata',
  ],
  'metadata unread since an entry was offered': [
    {
      ...BEHIND,
      metadata: { ...BEHIND.metadata, entriesBefore: new Set() },
      listedEntries: [listedEntry(6)],
    },
    'read-metadata',
  ],
  'metadata unread before the version of the table, which may be absent': [
    { desired: desired({ refreshesRequested: 1 }), metadata: { ...metadata(chain(4, 4)), newerThan: 3 } },
    'read-metadata',
  ],
  'reload unasked, where the version of the table was withdrawn': [
    {
      desired: desired({ refreshesRequested: 1 }),
      metadata: metadata(chain(1, 4)),
      absentSince: new Map([[5, ago(HOUR_MS)]]),
    },
    'ask-reload',
  ],
  'reload unasked, where the version of the table was published anew': [
    {
      observed: table(5, { publishedAt: ago(1) }),
      desired: desired({ refreshesRequested: 1 }),
      metadata: metadata(chain(4, 5)),
    },
    'ask-reload',
  ],
  'reload unasked, where a subscription that left asked for one': [
    { desired: desired({ reloads: [reload(50, { subscriptionId: 'sub_9' })] }) },
    'ask-reload',
  ],
  'announced version withdrawn': [
    {
      desired: desired(announcing(6)),
      metadata: metadata(chain(4, 5)),
      absentSince: new Map([[6, ago(HOUR_MS)]]),
    },
    'void-announced',
  ],
  'lower offers of a table that is listed': [
    {
      desired: desired({ refreshesRequested: 1 }),
      metadata: metadata(chain(4, 5)),
      listedEntries: [listedEntry(4)],
    },
    'keep',
  ],
  'not offered': [{ desired: desired({ reloads: [reload(50)] }) }, 'wait: not-listed'],
  'not offered, and changes do not lead on': [{ ...BEHIND, inapplicable: UNRECORDED }, 'wait: not-listed'],
  'offer lags': [
    { ...BEHIND, inapplicable: UNRECORDED, listedEntries: [listedEntry(5)] },
    'wait: manifest-lags',
  ],
  'offer differs': [
    { ...BEHIND, inapplicable: UNRECORDED, listedEntries: [COUNTED_OTHERWISE] },
    'wait: entry-differs',
  ],
  'offer differs, and another lags': [
    { ...BEHIND, inapplicable: UNRECORDED, listedEntries: [COUNTED_OTHERWISE, listedEntry(5)] },
    'wait: manifest-lags',
  ],
  'offer differs, and changes lead on': [{ ...BEHIND, listedEntries: [COUNTED_OTHERWISE] }, 'apply 6'],
  'offer unlisted': [
    { ...BEHIND, inapplicable: UNRECORDED, listedEntries: [listedEntry(7)] },
    'wait: entry-unlisted',
  ],
  'offer answers': [{ ...BEHIND, inapplicable: UNRECORDED, listedEntries: [listedEntry(6)] }, 'load 6'],
  'offer failed before': [
    { ...BEHIND, inapplicable: UNRECORDED, listedEntries: [listedEntry(6)], failure: FAILED_SNAPSHOT },
    'report-failure',
  ],
  'changes lead on': [BEHIND, 'apply 6'],
  'changes failed before': [{ ...BEHIND, failure: FAILED_CHANGES }, 'report-failure'],
  'changes failed before, and the snapshot of the same version is more work': [
    { ...BEHIND, failure: FAILED_CHANGES, listedEntries: [listedEntry(6)] },
    'report-failure',
  ],
  'changes failed before, and offers unread': [
    { ...BEHIND, failure: FAILED_CHANGES, listedEntries: null },
    'read-manifest',
  ],
  'offer answers, of a later version than that whose changes failed before': [
    {
      ...BEHIND,
      metadata: metadata(chain(5, 7)),
      failure: FAILED_CHANGES,
      listedEntries: [listedEntry(6), listedEntry(7)],
    },
    'load 7',
  ],
  'list lags': [{ desired: desired(announcing(6)), metadata: metadata(chain(4, 5)) }, 'wait: list-lags'],
} satisfies Record<string, readonly [Partial<PlanInput>, string]>;

/** The same where there is no table yet. */
const WITHOUT_A_TABLE = {
  'offers unread': [{ listedEntries: null }, 'read-manifest'],
  'metadata unread': [{ listedEntries: [listedEntry(6)] }, 'read-metadata'],
  'not offered': [{ desired: desired(announcing(6)) }, 'wait: not-listed'],
  'offer lags': [
    {
      desired: desired({ reloads: [reload(101)] }),
      metadata: metadata(chain(6, 6)),
      listedEntries: [listedEntry(6)],
    },
    'wait: manifest-lags',
  ],
  'offer differs': [
    { metadata: metadata(chain(6, 6)), listedEntries: [COUNTED_OTHERWISE] },
    'wait: entry-differs',
  ],
  'offer unlisted': [
    { metadata: metadata(chain(5, 5)), listedEntries: [listedEntry(6)] },
    'wait: entry-unlisted',
  ],
  'offer answers': [{ metadata: metadata(chain(6, 6)), listedEntries: [listedEntry(6)] }, 'load 6'],
  'offer failed before': [
    { metadata: metadata(chain(6, 6)), listedEntries: [listedEntry(6)], failure: FAILED_SNAPSHOT },
    'report-failure',
  ],
} satisfies Record<string, readonly [Partial<PlanInput>, string]>;

describe('every state in every situation', () => {
  const other = failure({ contents: [contentOf(listedEntry(99).entry, PUBLISHED)] });
  const ofATable = Object.entries<readonly [Partial<PlanInput>, string]>(OF_A_TABLE);
  const withoutATable = Object.entries<readonly [Partial<PlanInput>, string]>(WITHOUT_A_TABLE);

  it.each(ofATable)('live or failed, %s: as planned', (_, [given, expected]) => {
    expect(reported(planOf({ observed: table(5), ...given }))).toBe(expected);
    expect(reported(planOf({ observed: table(5), failure: other, ...given }))).toBe(expected);
  });

  it.each(withoutATable)('absent, or failed without a table, %s: as planned', (_, [given, expected]) => {
    expect(reported(planOf(given))).toBe(expected);
    expect(reported(planOf({ failure: other, ...given }))).toBe(expected);
  });

  it.each([...ofATable, ...withoutATable])('held, %s: the hold is reported', (_, [given]) => {
    expect(planOf({ ...given, suspension: suspension() })).toEqual({
      kind: 'report-suspension',
      suspension: suspension(),
    });
    expect(planOf({ observed: table(5), ...given, suspension: suspension() })).toEqual({
      kind: 'report-suspension',
      suspension: suspension(),
    });
  });

  describe('retired', () => {
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
        'allowed',
        ALLOWED,
        {
          kind: 'retire',
          reason: 'left subscription sub_1: left_coverage',
          isApproved: false,
          judgedAt: NOW,
        },
      ],
      ['logs unread', UNREAD, { kind: 'await-subscriptions', awaited: UNREAD.awaited }],
      [
        'needs approval',
        { kind: 'needs-approval', suspension: approval },
        { kind: 'report-suspension', suspension: approval },
      ],
    ] as const)('with a table, %s', (_, retirement, expected) => {
      const retired = { desired: left, observed: table(5), retirement, listedEntries: [listedEntry(6)] };
      expect(planOf(retired)).toEqual(expected);
      // Nothing is asked of the service for it, so neither a refusal nor a failure stands in the way.
      expect(planOf({ ...retired, suspension: suspension(), failure: other })).toEqual(expected);
    });

    it('tells the destination where a person has agreed: such a retirement counts no more', () => {
      const agreed = { ...left, retirementApproved: true };
      expect(planOf({ desired: agreed, observed: table(5) })).toMatchObject({
        kind: 'retire',
        isApproved: true,
      });
    });

    it.each([ALLOWED, UNREAD])('without a table, $kind: left alone', (retirement) => {
      expect(kindOf({ desired: left, retirement })).toBe('leave');
    });
  });
});

describe('the metadata', () => {
  it('is read from the record of the version that the table has', () => {
    const looking = { observed: table(5), desired: desired({ refreshesRequested: 1 }) };
    expect(planOf({ ...looking, listedEntries: [listedEntry(3)] })).toEqual({
      kind: 'read-metadata',
      newerThan: 4,
    });
    expect(planOf({ ...looking, observed: table(0) })).toEqual({ kind: 'read-metadata', newerThan: null });
  });

  it('and from that of the oldest snapshot that may be loaded', () => {
    const listedEntries = [listedEntry(3), listedEntry(7, { subscriptionId: 'sub_2' })];
    expect(planOf({ listedEntries })).toEqual({ kind: 'read-metadata', newerThan: 2 });
    const reloading = { observed: table(5), desired: desired({ reloads: [reload(50)] }) };
    expect(planOf({ ...reloading, listedEntries })).toEqual({ kind: 'read-metadata', newerThan: 2 });
  });

  it('that does not reach back far enough is read again', () => {
    const late = { ...metadata(chain(5, 6)), newerThan: 4 };
    const given = { observed: table(5), desired: desired(announcing(6)), metadata: late };
    expect(reported(planOf(given))).toBe('apply 6');
    expect(planOf({ ...given, observed: table(4) })).toEqual({ kind: 'read-metadata', newerThan: 3 });
  });

  it('is read as a whole where the list may lack the version of the table: none that follow it are named', () => {
    const looking = { observed: table(5), desired: desired({ refreshesRequested: 1 }) };
    const none = { ...metadata([]), newerThan: 4 };
    expect(planOf({ ...looking, metadata: none })).toEqual({ kind: 'read-metadata', newerThan: null });
    const later = { ...metadata(chain(7, 8)), newerThan: 4 };
    expect(kindOf({ ...looking, metadata: later })).not.toBe('read-metadata');
  });

  it('is read after every entry that may be loaded: of others the list of versions says nothing', () => {
    const [read, unread] = [listedEntry(6), listedEntry(6, { subscriptionId: 'sub_2' })];
    const known = { ...metadata(chain(5, 6)), entriesBefore: new Set([read.entry]) };
    const given = { ...BEHIND, inapplicable: UNRECORDED, observed: table(5), metadata: known };
    expect(reported(planOf({ ...given, listedEntries: [read] }))).toBe('load 6');
    expect(planOf({ ...given, listedEntries: [read, unread] })).toEqual({
      kind: 'read-metadata',
      newerThan: 4,
    });
  });

  it('costs nothing where nothing is needed, nor where only a snapshot helps and none is offered', () => {
    expect(kindOf({ observed: table(5) })).toBe('keep');
    expect(kindOf({ observed: table(5), desired: desired({ resyncNumber: 1 }) })).toBe('wait');
    expect(kindOf({})).toBe('wait');
  });
});

describe('the way to a version', () => {
  const behind = (observed: number, last: number, changed: Partial<PlanInput> = {}): Partial<PlanInput> => ({
    observed: table(observed),
    desired: desired(announcing(last)),
    metadata: metadata(chain(observed, last)),
    ...changed,
  });

  it('is one version at a time where each is to be a commit of its own, also where a snapshot is less work', () => {
    const given = behind(8, 12, { commitsEveryVersion: true });
    expect(toldOf(given)).toBe('apply 9');
    const costly = { ...given, metadata: metadata(chain(8, 12, { counts: MANY_ROWS })) };
    expect(toldOf({ ...costly, commitsEveryVersion: false, listedEntries: [listedEntry(12)] })).toBe(
      'load 12',
    );
    expect(toldOf({ ...costly, listedEntries: [listedEntry(12)] })).toBe('apply 9');
    expect(toldOf({ ...costly, listedEntries: null })).toBe('apply 9');
    expect(toldOf({ ...given, inapplicable: UNRECORDED_9, listedEntries: [listedEntry(12)] })).toBe(
      'load 12',
    );
  });

  it('F69 is none where a rollback keeps the table, whatever was announced, asked for or published', () => {
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

  it('V1 V2 is the list of versions, oldest first, though it is written newest first', () => {
    expect(planOf(behind(8, 12))).toEqual({
      kind: 'apply',
      versions: chain(9, 12),
      schema: schema('parcels'),
      addsColumns: false,
    });
  });

  it('leads to the head, past what was announced', () => {
    const looking = { ...behind(8, 12), desired: desired({ refreshesRequested: 1 }) };
    expect(reported(planOf(looking))).toBe('apply 9,10,11,12');
    expect(reported(planOf({ ...looking, desired: desired(announcing(10)) }))).toBe('apply 9,10,11,12');
  });

  it('is gone in steps of a limited number of versions', () => {
    const decided = planOf(behind(0, MAX_VERSIONS_AT_ONCE + 1));
    expect(decided.kind === 'apply' && decided.versions.length).toBe(MAX_VERSIONS_AT_ONCE);
    expect(
      reported(planOf({ ...behind(0, MAX_VERSIONS_AT_ONCE + 1), observed: table(MAX_VERSIONS_AT_ONCE) })),
    ).toBe(`apply ${MAX_VERSIONS_AT_ONCE + 1}`);
  });

  /** They do not say how many rows they have. */
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
  ])(
    'V3 V4 over %s is gone as far as it leads; then a snapshot at or past it is waited for',
    (_, given, why) => {
      const offered = (number: number): Partial<PlanInput> => ({
        listedEntries: [
          {
            ...listedEntry(number),
            entry: { ...entry('parcels', number), schemaVersion: null, rowCount: 1_000_000 },
          },
        ],
      });
      const stopped = behind(8, 12, given);
      expect(reported(planOf(stopped))).toBe('apply 9,10');
      expect(reported(planOf({ ...stopped, ...offered(10) }))).toBe('apply 9,10');
      const there = { ...stopped, observed: table(10) };
      expect(reported(planOf(there))).toBe('wait: not-listed');
      expect(reported(planOf({ ...there, ...offered(10) }))).toBe('wait: manifest-lags');
      for (const number of [11, 12]) {
        expect(reported(planOf({ ...stopped, ...offered(number) }))).toBe(`load ${number}`);
        expect(planOf({ ...there, ...offered(number) })).toMatchObject({ kind: 'load', why });
      }
    },
  );

  it('over a stop is not begun where a snapshot past it is offered', () => {
    const counts = { added: 0, changed: 1, removed: 0 };
    const inapplicable = new Map([[11, 'they were not recorded']]);
    const stopped = behind(8, 12, { metadata: metadata(chain(8, 12, { counts })), inapplicable });
    expect(reported(planOf({ ...stopped, listedEntries: [listedEntry(11)] }))).toBe('load 11');
    expect(reported(planOf({ ...stopped, listedEntries: [listedEntry(10)] }))).toBe('apply 9,10');
  });

  it('goes on after a snapshot with the changes past it', () => {
    const loaded = behind(11, 12, { listedEntries: [listedEntry(11)] });
    expect(reported(planOf(loaded))).toBe('apply 12');
  });

  it('ends before what was announced where the list does, also where a manifest knows more: it does not count', () => {
    const announced = behind(8, 12, { desired: desired(announcing(13)) });
    expect(reported(planOf(announced))).toBe('apply 9,10,11,12');
    expect(reported(planOf({ ...announced, listedEntries: [listedEntry(13)] }))).toBe('apply 9,10,11,12');
    const there = { ...announced, observed: table(12) };
    expect(reported(planOf({ ...there, listedEntries: [listedEntry(12)] }))).toBe('wait: list-lags');
    expect(reported(planOf({ ...there, listedEntries: [listedEntry(13)] }))).toBe('wait: list-lags');
  });

  it('is the snapshot of the subscription that leads furthest', () => {
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

  it('W14 never leads back: a table ahead of the list and of a manifest that may lag stays', () => {
    const asked = desired({ ...announcing(3), refreshesRequested: 1 });
    const ahead = { observed: table(12), metadata: metadata(chain(1, 3)), desired: asked };
    expect(kindOf({ ...ahead, listedEntries: [listedEntry(3)] })).toBe('keep');
    expect(
      kindOf({ ...ahead, listedEntries: [listedEntry(3, { watermark: { kind: 'time', through: NOW } })] }),
    ).toBe('keep');
  });

  it('over a version whose schema the service does not list is its fault, once there is no other', () => {
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

describe('where changes and a snapshot lead as far', () => {
  const large = (number: number, rowCount: number): ListedEntry => {
    const made = listedEntry(number);
    return { ...made, entry: { ...made.entry, rowCount } };
  };
  const behind = (rows: number, offered: ListedEntry): Partial<PlanInput> => ({
    observed: table(8),
    desired: desired(announcing(12)),
    metadata: metadata(chain(8, 12, { rowCount: null, counts: { added: 0, changed: rows, removed: 0 } })),
    listedEntries: [offered],
  });

  it('the one of less work is taken', () => {
    expect(reported(planOf(behind(10, large(12, 100_000))))).toBe('apply 9,10,11,12');
    expect(planOf(behind(10_000, large(12, 100_000)))).toMatchObject({
      kind: 'load',
      why: 'it is less work than the changes of 4 versions',
    });
  });

  it('a snapshot that does not say how many rows it has is taken to have as many as its version, or the table', () => {
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

  it('the changes after the snapshot count as its work', () => {
    expect(reported(planOf(behind(10_000, large(11, 100_000))))).toBe('load 11');
    expect(reported(planOf(behind(10_000, large(9, 100_000))))).toBe('apply 9,10,11,12');
  });
});

describe('a table that is absent', () => {
  it('is loaded from the newest offer', () => {
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

  it('is loaded from what there is, though more was announced: changes lead on from it, or it is waited for', () => {
    const asked = { desired: desired(announcing(9)), listedEntries: [listedEntry(8)] };
    expect(reported(planOf({ ...asked, metadata: metadata(chain(8, 9)) }))).toBe('load 8');
    expect(reported(planOf({ ...asked, metadata: metadata(chain(8, 8)) }))).toBe('load 8');
    const loaded = { ...asked, observed: table(8) };
    expect(reported(planOf({ ...loaded, metadata: metadata(chain(8, 9)) }))).toBe('apply 9');
    expect(reported(planOf({ ...loaded, metadata: metadata(chain(8, 8)) }))).toBe('wait: list-lags');
  });

  it('is loaded from another offer where the content of the best one failed', () => {
    const listedEntries = [listedEntry(6), listedEntry(5, { subscriptionId: 'sub_2' })];
    const given = { listedEntries, metadata: metadata(chain(5, 6)), failure: FAILED_SNAPSHOT };
    expect(reported(planOf(given))).toBe('load 5');
  });
});

describe('the schema of the version that the table has', () => {
  const schemas = [
    schema('parcels', { schemaVersion: '2', firstVersion: 12 }),
    schema('parcels', { schemaVersion: '1', firstVersion: 1 }),
  ];
  const looking = { observed: table(12), desired: desired({ refreshesRequested: 1 }) };
  const offering = (schemaVersion: string | null): readonly ListedEntry[] => [
    { ...listedEntry(12), entry: { ...entry('parcels', 12), schemaVersion } },
  ];

  it.each([
    ['its record names', chain(12, 12, { schemaVersion: '2' })],
    ['began by then, where its record names none', chain(12, 12, { schemaVersion: null })],
  ])('is the one that %s: another needs the snapshot', (_, versions) => {
    const given = { ...looking, metadata: metadata(versions, schemas) };
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

  it('is not asked about where the service does not say', () => {
    const unsaid = [schema('parcels', { schemaVersion: '2', firstVersion: null }), ...schemas.slice(1)];
    const given = { ...looking, listedEntries: offering('2') };
    expect(kindOf({ ...given, metadata: metadata(chain(12, 12, { schemaVersion: null }), unsaid) })).toBe(
      'keep',
    );
    expect(kindOf({ ...given, metadata: metadata([], schemas) })).toBe('keep');
  });

  it('W24 that changes on the way is altered only where that was chosen', () => {
    const additive = { kind: 'additive', previousSchemaVersion: '1', keyColumnsChanged: false } as const;
    const added = schema('parcels', {
      schemaVersion: '2',
      firstVersion: 13,
      columns: [column('id', { nullable: false }), column('acreage', { type: 'number' })],
      changeFromPrevious: additive,
    });
    const versions = [...chain(12, 12), version('parcels', 13, { schemaVersion: '2' })];
    const given = { ...looking, metadata: metadata(versions, [added, ...schemas.slice(1)]) };
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

  it('is not fetched again before its time', () => {
    expect(kindOf({ ...behind, listedEntries: [failing] })).toBe('report-failure');
    expect(kindOf({ ...behind, listedEntries: [failing], now: new Date(failed.retryAt.getTime() - 1) })).toBe(
      'report-failure',
    );
    expect(kindOf({ ...behind, listedEntries: [failing], now: failed.retryAt })).toBe('load');
  });

  it('F13 is fetched again where it failed in the future: the clock was wrong then', () => {
    const now = new Date(failed.failedAt.getTime() - 1);
    expect(kindOf({ ...behind, listedEntries: [failing], now })).toBe('load');
  });

  it('is fetched at once where the service names other content of the same version', () => {
    expect(kindOf({ ...behind, listedEntries: [listedEntry(6, { content: 'corrected' })] })).toBe('load');
  });

  it('does not hold a newer version up', () => {
    expect(kindOf({ ...behind, listedEntries: [listedEntry(7)] })).toBe('load');
  });

  it('gives way to changes that lead on', () => {
    expect(reported(planOf({ ...behind, inapplicable: new Map(), listedEntries: [failing] }))).toBe(
      'apply 6,7',
    );
  });

  it('is told by version and digest, and by what is stated of it: a wrong statement may be corrected', () => {
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
  const offered = (rowCount: number): readonly ListedEntry[] => [
    { ...listedEntry(7), entry: { ...listedEntry(7).entry, rowCount } },
  ];

  it('are not fetched again before their time, nor are those beside them', () => {
    expect(kindOf(behind)).toBe('report-failure');
    expect(reported(planOf({ ...behind, now: failed.retryAt }))).toBe('apply 6,7');
    expect(reported(planOf({ ...behind, observed: table(6) }))).toBe('apply 7');
  });

  it('give way to the snapshot of their own version only where that would be loaded anyway', () => {
    const last = {
      ...behind,
      observed: table(6),
      failure: failure({ contents: [changesContentOf(seventh)] }),
    };
    expect(kindOf({ ...last, listedEntries: offered(1_000_000) })).toBe('report-failure');
    expect(reported(planOf({ ...last, listedEntries: offered(1) }))).toBe('load 7');
    const resync = desired({ resyncNumber: 1 });
    expect(reported(planOf({ ...last, desired: resync, listedEntries: offered(1_000_000) }))).toBe('load 7');
  });

  it('F57 hold up none of the versions before them: the table moves up to there, and stops', () => {
    const given = { ...behind, observed: table(3), metadata: metadata(chain(3, 7)) };
    expect(reported(planOf(given))).toBe('apply 4,5');
    expect(reported(planOf({ ...given, listedEntries: [listedEntry(4)] }))).toBe('apply 4,5');
    expect(kindOf({ ...given, observed: table(5) })).toBe('report-failure');
  });

  it('C13 are led around by the snapshot of a later version, which is other content', () => {
    expect(planOf({ ...behind, listedEntries: offered(1_000_000) })).toMatchObject({
      kind: 'load',
      listedEntry: { entry: { version: 7 } },
      why: 'the changes of version 6 cannot be mirrored',
    });
    const later = offered(1_000_000).map(({ entry }) => contentOf(entry, PUBLISHED));
    const both = failure({ contents: [...failed.contents, ...later] });
    expect(kindOf({ ...behind, failure: both, listedEntries: offered(1_000_000) })).toBe('report-failure');
  });
});

describe('changes that gave way to a snapshot that failed', () => {
  const failing = listedEntry(6);
  const [, sixth = version('parcels', 6)] = chain(5, 6);
  const failed = failure({ contents: [contentOf(failing.entry, PUBLISHED), inapplicableContentOf(sixth)] });
  const behind = { observed: table(5), desired: desired(), failure: failed, metadata: metadata(chain(5, 6)) };

  it('are fetched again no sooner than it', () => {
    expect(kindOf({ ...behind, listedEntries: [failing] })).toBe('report-failure');
    expect(reported(planOf({ ...behind, listedEntries: [failing], now: failed.retryAt }))).toBe('apply 6');
  });

  it('are fetched again where the service says other things of them', () => {
    const corrected = metadata([...chain(5, 5), { ...sixth, rowCount: 11 }]);
    expect(reported(planOf({ ...behind, listedEntries: [failing], metadata: corrected }))).toBe('apply 6');
  });

  it('give way to another snapshot', () => {
    expect(reported(planOf({ ...behind, listedEntries: [listedEntry(6, { content: 'corrected' })] }))).toBe(
      'load 6',
    );
    const newer = { ...behind, metadata: metadata(chain(5, 7)), listedEntries: [listedEntry(7)] };
    expect(reported(planOf(newer))).toBe('load 7');
  });
});

describe('a hold', () => {
  it('is reported, whatever else is true', () => {
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
