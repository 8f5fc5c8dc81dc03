/**
 * Planning reloads: which load answers which of them, and the steps of a table until one is possible. Each rule
 * keeps older content from being loaded as the answer.
 */

import { describe, expect, it } from 'vitest';
import type { ListedEntry, Watermark } from '../../src/model/manifest.ts';
import type { ObservedTable } from '../../src/model/write-jobs.ts';
import { OPERATOR, pendingReloads } from '../../src/sync/plan/need.ts';
import type { PlanInput } from '../../src/sync/plan/step.ts';
import { ago, chain, LAG_MS, MINUTE_MS, planOf, stepOf } from '../support/planning.ts';
import { reloadMarks } from '../support/reload-marks.ts';
import {
  announcing,
  desired,
  entry,
  LONG_AGO,
  listedEntry,
  membersAt,
  metadata,
  NOW,
  reload,
  table,
  version,
} from '../support/sync-values.ts';

/** Reflects the events up to this number. */
function upTo(number: number): Pick<ListedEntry, 'watermark'> {
  return { watermark: { kind: 'number', through: BigInt(number) } };
}

/** The watermark of a manifest that states none, read `durationMs` before `NOW`. */
function silent(durationMs = 0): Pick<ListedEntry, 'watermark' | 'readAt'> {
  const readAt = ago(durationMs);
  return { readAt, watermark: lagging(readAt) };
}

function lagging(readAt: Date): Watermark {
  return { kind: 'time', through: new Date(readAt.getTime() - LAG_MS) };
}

/** The mark of a table on which the reload of `sub_1` with this number was answered. */
function satisfying(number: number, createdAt = LONG_AGO): Pick<ObservedTable, 'reloads'> {
  return { reloads: new Map([['sub_1', { logNumber: 1, eventNumber: BigInt(number), createdAt }]]) };
}

/** A table at 12, of which event 50 asked for a reload, and all versions up to its own. */
const asked = {
  observed: table(12),
  desired: desired({ reloads: [reload(50)] }),
  metadata: metadata(chain(1, 12)),
};

/** The input `asked`, whose reload was asked for `durationMs` before `NOW`. */
function askedAgo(durationMs: number, changed: Parameters<typeof reload>[1] = {}): Partial<PlanInput> {
  const at = ago(durationMs);
  return { ...asked, desired: desired({ reloads: [reload(50, { createdAt: at, readAt: at, ...changed })] }) };
}

describe('a reload and the watermark of a manifest', () => {
  it('M17 F32 answers a reload by its event number where the manifest has a watermark', () => {
    expect(stepOf({ ...asked, listedEntries: [listedEntry(12, upTo(49))] })).toBe('wait: manifest-lags');
    expect(planOf({ ...asked, listedEntries: [listedEntry(12, upTo(50))] })).toMatchObject({
      kind: 'load',
      reloads: new Map([['sub_1', { logNumber: 1, eventNumber: 50n, createdAt: LONG_AGO }]]),
      why: 'the service asked for it (sub_1 at event 50)',
    });
  });

  it('W33 F47 answers a reload by the time of its event where a manifest without watermark is 15 minutes younger', () => {
    const listedEntries = [listedEntry(12, silent())];
    expect(planOf({ ...askedAgo(LAG_MS - 1), listedEntries })).toEqual({
      kind: 'wait',
      why: 'manifest-lags',
      until: new Date(NOW.getTime() + 1),
    });
    expect(stepOf({ ...askedAgo(LAG_MS), listedEntries })).toBe('load 12');
    const earlier = {
      metadata: metadata(chain(12, 12).map((one) => ({ ...one, publishedAt: ago(LAG_MS) }))),
    };
    expect(
      stepOf({ ...askedAgo(LAG_MS), ...earlier, listedEntries: [listedEntry(12, silent(MINUTE_MS))] }),
    ).toBe('wait: manifest-lags');
  });

  it('F47 answers no reload by an entry that repeats the same content without a digest', () => {
    const listedEntries = [listedEntry(12, { ...silent(), content: null })];
    expect(stepOf({ ...askedAgo(MINUTE_MS, { knownVersion: 11, listedVersion: 12 }), listedEntries })).toBe(
      'wait: manifest-lags',
    );
  });

  it('F81 answers no reload by a number of another log', () => {
    const ofSecondLog = { ...asked, desired: desired({ reloads: [reload(5, { logNumber: 2 })] }) };
    expect(stepOf({ ...ofSecondLog, listedEntries: [listedEntry(12, upTo(120))] })).toBe(
      'wait: manifest-lags',
    );
    expect(stepOf({ ...ofSecondLog, listedEntries: [listedEntry(12, { ...upTo(5), logNumber: 2 })] })).toBe(
      'load 12',
    );
    expect(stepOf({ ...ofSecondLog, listedEntries: [listedEntry(12, silent())] })).toBe('load 12');
  });

  it('keeps a table that satisfies the event of the reload', () => {
    const observed = table(12, { reloads: reloadMarks([['sub_1', 50n]]) });
    expect(stepOf({ ...asked, observed, listedEntries: [listedEntry(12)] })).toBe('keep');
  });

  it('answers a reload without an event by time only where the manifest reflects that time', () => {
    const manifestReadAt = (readAt: Date) => ({
      ...asked,
      listedEntries: [listedEntry(12, { readAt, watermark: lagging(readAt) })],
    });
    const state = desired({ reloads: [reload(50), reload(50, { createdAt: NOW, readAt: NOW })] });
    const observed = table(12, satisfying(50));
    const later = (durationMs: number) => new Date(NOW.getTime() + durationMs);
    expect(stepOf({ ...manifestReadAt(later(LAG_MS - 1)), observed, desired: state })).toBe(
      'wait: manifest-lags',
    );
    expect(stepOf({ ...manifestReadAt(later(LAG_MS)), observed, desired: state })).toBe('load 12');
  });
});

describe('a reload and the versions known when it was read', () => {
  const known = (changed: Parameters<typeof reload>[1]): Partial<PlanInput> => ({
    ...askedAgo(MINUTE_MS, changed),
    metadata: metadata(chain(1, 14)),
  });
  const listedEntries = [listedEntry(13, silent())];

  it("W34 answers a reload by a version above that of the table, the announced one and the next list's newest", () => {
    expect(stepOf({ ...known({ knownVersion: 12, listedVersion: 12 }), listedEntries })).toBe('load 13');
    expect(stepOf({ ...known({ knownVersion: 13, listedVersion: 12 }), listedEntries })).toBe(
      'wait: manifest-lags',
    );
    expect(stepOf({ ...known({ knownVersion: 12, listedVersion: 13 }), listedEntries })).toBe(
      'wait: manifest-lags',
    );
  });

  it('answers no reload by a version before a list was read, or where the known version is missing', () => {
    expect(stepOf({ ...known({ knownVersion: 12 }), listedEntries })).toBe('wait: manifest-lags');
    expect(stepOf({ ...known({ listedVersion: 12 }), listedEntries })).toBe('wait: manifest-lags');
  });

  it('F85 answers no reload of a missing table by a version from before the versions restarted', () => {
    const first = (changed: Parameters<typeof reload>[1]): Partial<PlanInput> => ({
      ...askedAgo(MINUTE_MS, changed),
      observed: null,
      metadata: metadata(chain(1, 2)),
      listedEntries: [listedEntry(2, { ...silent(), content: 'before' })],
    });
    expect(stepOf(first({ knownVersion: 2, listedVersion: 1 }))).toBe('wait: manifest-lags');
    expect(stepOf(first({ knownVersion: 1, listedVersion: 2 }))).toBe('wait: manifest-lags');
    // The versions before the first start are unknown, so no version is surely above them.
    expect(stepOf(first({ knownVersion: 1, listedVersion: 1 }))).toBe('wait: manifest-lags');
  });

  it('F47 answers a reload by a higher version only while the list still names that of the table', () => {
    const changed = { knownVersion: 12, listedVersion: 12 };
    const restarted = chain(1, 14).map((one) => ({ ...one, publishedAt: NOW }));
    const given = {
      ...known(changed),
      observed: table(12, { publishedAt: ago(1) }),
      metadata: metadata(restarted),
      listedEntries,
    };
    expect(stepOf(given)).toBe('ask-reload');
    const owed = desired({
      reloads: [
        reload(50, { createdAt: ago(MINUTE_MS), ...changed }),
        reload(50, { createdAt: NOW, ...changed, isWithdrawal: true }),
      ],
    });
    expect(stepOf({ ...given, desired: owed })).toBe('wait: manifest-lags');
    expect(stepOf({ ...given, desired: owed, observed: table(12, { publishedAt: NOW }) })).toBe('load 13');
    const gap = metadata(chain(13, 14));
    expect(stepOf({ ...known(changed), metadata: gap, listedEntries })).toBe('wait: manifest-lags');
  });
});

describe('a reload and other content of the loaded version', () => {
  const through = { loadedThrough: 'sub_1', loadedAt: ago(5 * MINUTE_MS) };
  const loaded = { ...askedAgo(MINUTE_MS), observed: table(12, through) };
  const other = listedEntry(12, { ...silent(), content: 'other' });

  it('W35 answers a reload by another digest of the same version in the same manifest, without a watermark', () => {
    expect(stepOf({ ...loaded, listedEntries: [other] })).toBe('load 12');
    expect(stepOf({ ...loaded, listedEntries: [listedEntry(12, silent())] })).toBe('wait: manifest-lags');
    const own = { ...loaded, observed: table(12, { ...through, loadedThrough: null }) };
    expect(stepOf({ ...own, listedEntries: [{ ...other, through: null }] })).toBe('load 12');
  });

  it.each<readonly [string, Partial<PlanInput>]>([
    [
      'another manifest than that of the load states it',
      { observed: table(12, { ...through, loadedThrough: 'sub_2' }) },
    ],
    [
      'each dataset has its own manifest, and the table came from another',
      { observed: table(12, { ...through, loadedThrough: null }) },
    ],
    [
      'the table was loaded since the reload was read',
      { observed: table(12, { ...through, loadedAt: ago(MINUTE_MS) }) },
    ],
    ['the time of the load is unknown', { observed: table(12, { ...through, loadedAt: null }) }],
    ['the digest of the table was computed', { observed: table(12, { ...through, digestKind: 'computed' }) }],
    [
      'the kind of the digest of the table is unknown',
      { observed: table(12, { ...through, digestKind: null }) },
    ],
    ['the entry states no digest', { listedEntries: [listedEntry(12, { ...silent(), content: null })] }],
    [
      'the list names another version under the number of the table',
      {
        observed: table(12, { ...through, publishedAt: ago(1) }),
        desired: desired({ reloads: [reload(50, { createdAt: NOW, readAt: NOW, isWithdrawal: true })] }),
      },
    ],
  ])('F47 answers no reload by other content where %s', (_, changed) => {
    expect(stepOf({ ...loaded, listedEntries: [other], ...changed })).toBe('wait: manifest-lags');
  });

  it('F47 answers no reload by other content where changes have led the table on since the load', () => {
    const moved = { ...loaded, observed: table(12, { ...through, snapshotVersion: 3 }) };
    expect(stepOf({ ...moved, listedEntries: [other] })).toBe('wait: manifest-lags');
    expect(stepOf({ ...moved, listedEntries: [listedEntry(3, { ...silent(), content: 'other' })] })).toBe(
      'wait: manifest-lags',
    );
  });

  it('F80 answers no reload by other content where another reload was asked for since the load', () => {
    const twice = desired({
      reloads: [50, 51].map((number) =>
        reload(number, { createdAt: ago(MINUTE_MS), readAt: ago(MINUTE_MS) }),
      ),
    });
    expect(stepOf({ ...loaded, desired: twice, listedEntries: [other] })).toBe('wait: manifest-lags');
    const byAnother = reload(7, {
      subscriptionId: 'sub_2',
      createdAt: ago(MINUTE_MS),
      readAt: ago(MINUTE_MS),
    });
    const members = membersAt('sub_1', 'sub_2');
    const both = desired({ members, reloads: [...asked.desired.reloads, byAnother] });
    expect(
      stepOf({
        ...loaded,
        desired: both,
        observed: table(12, { ...through, ...satisfying(50) }),
        listedEntries: [other],
      }),
    ).toBe('wait: manifest-lags');
    const before = reload(49, { createdAt: ago(16 * MINUTE_MS), readAt: ago(16 * MINUTE_MS) });
    const once = { ...loaded, desired: desired({ reloads: [before, ...twice.reloads.slice(0, 1)] }) };
    const observed = table(12, { ...through, ...satisfying(49, ago(16 * MINUTE_MS)) });
    expect(stepOf({ ...once, observed, listedEntries: [other] })).toBe('load 12');
  });

  it('F80 answers no reload by the old content of the subscription that lags behind another', () => {
    const at = ago(MINUTE_MS);
    const owed = (...ids: readonly string[]) =>
      desired({
        members: membersAt('sub_1', 'sub_2'),
        reloads: ids.map((subscriptionId) => reload(50, { subscriptionId, createdAt: at, readAt: at })),
      });
    const marks = { logNumber: 1, eventNumber: 20n, createdAt: LONG_AGO };
    const observed = table(12, {
      loadedThrough: 'sub_2',
      loadedAt: ago(5 * MINUTE_MS),
      snapshotDigest: 'of the new content',
      reloads: new Map([
        ['sub_1', marks],
        ['sub_2', marks],
      ]),
    });
    const frozen = listedEntry(12, { ...silent(), content: 'before' });
    expect(stepOf({ ...asked, observed, desired: owed('sub_1'), listedEntries: [frozen] })).toBe(
      'wait: manifest-lags',
    );
    expect(stepOf({ ...asked, observed, desired: owed('sub_1', 'sub_2'), listedEntries: [frozen] })).toBe(
      'wait: manifest-lags',
    );
  });
});

describe('a reload that an operator asked for', () => {
  const operator = {
    observed: table(12, { reloads: reloadMarks([[OPERATOR, 1n]]) }),
    desired: desired({ resyncNumber: 2 }),
    metadata: metadata(chain(12, 12)),
  };

  it("answers an operator's reload by any load, also of the same content and from a manifest that may lag", () => {
    const decided = planOf({ ...operator, listedEntries: [listedEntry(12, silent())] });
    expect(decided).toMatchObject({ kind: 'load', why: 'an operator asked for it' });
    expect(decided).toHaveProperty(
      'reloads',
      new Map([[OPERATOR, { logNumber: 1, eventNumber: 2n, createdAt: null }]]),
    );
  });

  it("answers an operator's reload by a load for another reason", () => {
    const behind = { ...operator, observed: null };
    expect(planOf({ ...behind, listedEntries: [listedEntry(12)] })).toHaveProperty(
      'reloads',
      new Map([[OPERATOR, { logNumber: 1, eventNumber: 2n, createdAt: null }]]),
    );
  });

  it("keeps a table that satisfies the operator's reload, and owes the reload to a restored table", () => {
    const done = table(12, { reloads: reloadMarks([[OPERATOR, 2n]]) });
    expect(stepOf({ ...operator, observed: done, listedEntries: [listedEntry(12)] })).toBe('keep');
    expect(stepOf({ ...operator, observed: table(12), listedEntries: [listedEntry(12)] })).toBe('load 12');
  });

  it("waits with an operator's reload while only a lower version is listed, and still applies changes", () => {
    const versions = metadata(chain(11, 12));
    expect(stepOf({ ...operator, metadata: versions, listedEntries: [listedEntry(11)] })).toBe(
      'wait: manifest-lags',
    );
    expect(stepOf({ ...operator, metadata: metadata(chain(11, 13)), listedEntries: [listedEntry(11)] })).toBe(
      'apply 13',
    );
  });
});

describe('the reloads that one load answers', () => {
  const members = membersAt('sub_1', 'sub_2');
  const [older, newer] = [ago(40 * MINUTE_MS), ago(30 * MINUTE_MS)];
  const mark = (eventNumber: bigint, createdAt: Date) => ({ logNumber: 1, eventNumber, createdAt });

  it('W36 answers with one load every reload of any subscription whose event is no newer', () => {
    const reloads = [
      reload(50, { createdAt: newer }),
      reload(7, { subscriptionId: 'sub_2', createdAt: older }),
      reload(8, { subscriptionId: 'sub_2', createdAt: newer }),
    ];
    expect(
      planOf({
        ...asked,
        desired: desired({ members, reloads }),
        listedEntries: [listedEntry(12, upTo(50))],
      }),
    ).toHaveProperty(
      'reloads',
      new Map([
        ['sub_1', mark(50n, newer)],
        ['sub_2', mark(8n, newer)],
      ]),
    );
  });

  it('F80 keeps the later of two reloads of the same time and subscription owed', () => {
    const reloads = [reload(50, { createdAt: newer }), reload(51, { createdAt: newer })];
    const load = { ...asked, desired: desired({ members, reloads }) };
    expect(planOf({ ...load, listedEntries: [listedEntry(12, upTo(50))] })).toHaveProperty(
      'reloads',
      new Map([['sub_1', mark(50n, newer)]]),
    );
    const observed = table(12, satisfying(50, newer));
    expect(stepOf({ ...load, observed, listedEntries: [listedEntry(12, upTo(50))] })).toBe(
      'wait: manifest-lags',
    );
    expect(stepOf({ ...load, observed, listedEntries: [listedEntry(12, upTo(51))] })).toBe('load 12');
  });

  it('W36 loads from the manifest that answers more reloads, though it is more work', () => {
    const reloads = [
      reload(50, { createdAt: older }),
      reload(50, { subscriptionId: 'sub_2', createdAt: newer }),
    ];
    const state = desired({ members, reloads });
    const ofOther = { subscriptionId: 'sub_2', through: 'sub_2', ...upTo(50) };
    const loaded = (...listedEntries: readonly ListedEntry[]) => {
      const decided = planOf({ ...asked, desired: state, listedEntries });
      return decided.kind === 'load' ? decided.listedEntry.subscriptionId : decided.kind;
    };
    expect(loaded(listedEntry(12, upTo(50)), listedEntry(12, ofOther))).toBe('sub_2');
    expect(loaded(listedEntry(12, ofOther), listedEntry(12, upTo(50)))).toBe('sub_2');
    const small = entry('parcels', 12);
    const split = { ...small, files: [...small.files, ...small.files] };
    expect(loaded(listedEntry(12, upTo(50)), listedEntry(12, { ...ofOther, entry: split }))).toBe('sub_2');
    expect(loaded(listedEntry(12, upTo(50)), listedEntry(12, { ...ofOther, ...upTo(49) }))).toBe('sub_1');
  });

  it('keeps newer reloads owed after a load', () => {
    const reloads = [
      reload(50, { createdAt: older }),
      reload(51, { createdAt: newer }),
      reload(8, { subscriptionId: 'sub_2', createdAt: newer }),
    ];
    const decided = planOf({
      ...asked,
      desired: desired({ members, reloads }),
      listedEntries: [listedEntry(12, upTo(50))],
    });
    expect(decided).toMatchObject({ kind: 'load', reloads: new Map([['sub_1', mark(50n, older)]]) });
    const observed = table(12, { reloads: new Map([['sub_1', mark(50n, older)]]) });
    expect(pendingReloads(observed, desired({ members, reloads }))).toEqual(reloads.slice(1));
  });

  it('answers the reload of a former member where no table owes it', () => {
    const reloads = [reload(50, { subscriptionId: 'sub_9', createdAt: NOW })];
    const first = {
      desired: desired({ reloads }),
      metadata: metadata(chain(12, 12)),
      listedEntries: [listedEntry(12)],
    };
    expect(planOf(first)).toHaveProperty('reloads', new Map([['sub_9', mark(50n, NOW)]]));
  });

  it('F88 answers sixty reloads ten minutes apart each in its time, not only after the last', () => {
    const reloads = Array.from({ length: 60 }, (_, index) => {
      const at = new Date(NOW.getTime() + index * 10 * MINUTE_MS);
      return reload(index + 1, { createdAt: at, readAt: at });
    });
    let observed = table(12, { loadedThrough: 'sub_1', loadedAt: ago(1) });
    const answeredAt = new Map<bigint, number>();
    for (let minutes = 0; minutes <= 610; minutes += 5) {
      const readAt = new Date(NOW.getTime() + minutes * MINUTE_MS);
      const known = desired({ reloads: reloads.filter((one) => one.readAt <= readAt) });
      const listedEntries = [listedEntry(12, { readAt, watermark: lagging(readAt) })];
      const decided = planOf({ ...asked, observed, desired: known, listedEntries });
      if (decided.kind !== 'load') continue;
      const owed = pendingReloads(observed, known);
      observed = table(12, { loadedThrough: 'sub_1', loadedAt: readAt, reloads: decided.reloads });
      const left = pendingReloads(observed, known);
      for (const one of owed) if (!left.includes(one)) answeredAt.set(one.eventNumber, minutes);
    }
    expect(answeredAt).toEqual(
      new Map(reloads.map(({ eventNumber }, index) => [eventNumber, index * 10 + 15])),
    );
  });
});

describe('an entry and the reloads of its subscription', () => {
  const unrecorded = new Map([[13, 'they were not recorded']]);
  const behind = { observed: table(12), metadata: metadata(chain(12, 13)), inapplicable: unrecorded };

  it('loads nothing from an entry that answers none of the reloads of its own subscription', () => {
    const lags = [listedEntry(13, upTo(49))];
    const owed = desired({ reloads: [reload(50)], resyncNumber: 1 });
    expect(stepOf({ ...behind, desired: desired(), listedEntries: lags })).toBe('load 13');
    expect(stepOf({ ...behind, desired: owed, listedEntries: lags })).toBe('wait: manifest-lags');
    expect(stepOf({ ...behind, observed: null, desired: owed, listedEntries: lags })).toBe(
      'wait: manifest-lags',
    );
  });

  it('loads from an entry that answers only an older reload, and keeps the newer ones owed', () => {
    const owed = desired({ reloads: [reload(49), reload(50, { createdAt: NOW })] });
    expect(planOf({ ...behind, desired: owed, listedEntries: [listedEntry(13, upTo(49))] })).toMatchObject({
      kind: 'load',
      reloads: new Map([['sub_1', { logNumber: 1, eventNumber: 49n, createdAt: LONG_AGO }]]),
    });
  });

  it("loads a version from another subscription's entry though a reload is owed, and answers none", () => {
    const owed = desired({ members: membersAt('sub_1', 'sub_2'), reloads: [reload(50)] });
    expect(
      planOf({ ...behind, desired: owed, listedEntries: [listedEntry(13, { subscriptionId: 'sub_2' })] }),
    ).toMatchObject({
      kind: 'load',
      reloads: new Map(),
    });
  });

  it('F86 loads nothing from an entry that may be older than a reload that the table satisfies', () => {
    const satisfied = { ...behind, observed: table(12, satisfying(50, ago(MINUTE_MS))), desired: desired() };
    expect(stepOf({ ...satisfied, listedEntries: [listedEntry(13, upTo(49))] })).toBe('wait: manifest-lags');
    expect(stepOf({ ...satisfied, listedEntries: [listedEntry(13, upTo(50))] })).toBe('load 13');
    expect(planOf({ ...satisfied, listedEntries: [listedEntry(13, silent())] })).toEqual({
      kind: 'wait',
      why: 'manifest-lags',
      until: new Date(NOW.getTime() + LAG_MS - MINUTE_MS),
    });
    expect(
      stepOf({ ...satisfied, listedEntries: [listedEntry(13, { ...upTo(49), subscriptionId: 'sub_2' })] }),
    ).toBe('load 13');
    const operator = desired({ resyncNumber: 1 });
    expect(
      stepOf({
        ...satisfied,
        inapplicable: new Map(),
        desired: operator,
        listedEntries: [listedEntry(13, upTo(49))],
      }),
    ).toBe('apply 13');
  });

  it('F81 loads nothing from an entry of an older log than that of a satisfied reload', () => {
    const mark = { logNumber: 2, eventNumber: 3n, createdAt: LONG_AGO };
    const observed = table(12, { reloads: new Map([['sub_1', mark]]) });
    const given = { ...behind, observed, desired: desired() };
    expect(stepOf({ ...given, listedEntries: [listedEntry(13, upTo(120))] })).toBe('wait: manifest-lags');
    expect(stepOf({ ...given, listedEntries: [listedEntry(13, { ...upTo(3), logNumber: 2 })] })).toBe(
      'load 13',
    );
    expect(stepOf({ ...given, listedEntries: [listedEntry(13, { ...upTo(0), logNumber: 3 })] })).toBe(
      'load 13',
    );
  });

  it('F86 keeps the newer version of one subscription against the old entry of another', () => {
    const at = ago(MINUTE_MS);
    const reloads = ['sub_1', 'sub_2'].map((subscriptionId) =>
      reload(50, { subscriptionId, createdAt: at, readAt: at, knownVersion: 12, listedVersion: 12 }),
    );
    const owed = desired({ members: membersAt('sub_1', 'sub_2'), reloads });
    const [frozen, fresh] = [
      listedEntry(12, silent()),
      listedEntry(13, { ...silent(), subscriptionId: 'sub_2' }),
    ];
    const given = {
      observed: table(12),
      metadata: metadata(chain(12, 13)),
      desired: owed,
      listedEntries: [frozen, fresh],
    };
    const decided = planOf(given);
    expect(decided).toMatchObject({ kind: 'load', listedEntry: fresh });
    const observed = table(13, decided.kind === 'load' ? { reloads: decided.reloads } : {});
    expect(stepOf({ ...given, observed })).toBe('keep');
    expect(
      stepOf({ ...given, observed, desired: { ...owed, resyncNumber: 1 }, listedEntries: [frozen] }),
    ).toBe('wait: manifest-lags');
  });

  it('F86 does not load the older version of a second subscription after a first start', () => {
    const [ahead, behindIt] = [listedEntry(3), listedEntry(2, { subscriptionId: 'sub_2' })];
    const members = membersAt('sub_1', 'sub_2');
    const first = {
      desired: desired({ members }),
      metadata: metadata(chain(2, 3)),
      listedEntries: [behindIt, ahead],
    };
    expect(stepOf(first)).toBe('load 3');
    expect(stepOf({ ...first, observed: table(3) })).toBe('keep');
    expect(
      stepOf({
        ...first,
        observed: table(3),
        desired: desired({ members, resyncNumber: 1 }),
        listedEntries: [behindIt],
      }),
    ).toBe('wait: manifest-lags');
  });
});

describe('a reload and lower versions', () => {
  const lower = [listedEntry(3, upTo(50))];

  it('W14 waits rather than load a lower version while the list names that of the table', () => {
    expect(stepOf({ ...asked, listedEntries: lower })).toBe('wait: manifest-lags');
    const stated = { observed: table(12, { publishedAt: NOW }) };
    expect(stepOf({ ...asked, ...stated, listedEntries: lower })).toBe('wait: manifest-lags');
    expect(stepOf({ ...asked, metadata: metadata(chain(1, 3)), listedEntries: lower })).toBe('load 3');
  });

  it('F79 waits rather than load a lower version where the list names a version again that was taken for withdrawn', () => {
    const owed = desired({ reloads: [reload(50, { isWithdrawal: true })] });
    expect(stepOf({ ...asked, desired: owed, listedEntries: lower })).toBe('wait: manifest-lags');
    expect(stepOf({ ...asked, desired: owed, metadata: metadata(chain(1, 3)), listedEntries: lower })).toBe(
      'load 3',
    );
  });

  it('waits without a known end where a manifest reflects the event and lists a lower version', () => {
    const listedEntries = [listedEntry(3, silent())];
    expect(planOf({ ...askedAgo(LAG_MS), listedEntries })).toEqual({
      kind: 'wait',
      why: 'manifest-lags',
      until: null,
    });
  });
});

describe('a reload that is not possible yet', () => {
  const newer = { ...asked, metadata: metadata(chain(1, 13)) };

  it('W39 stops changes, because they would follow other rows than the table has', () => {
    expect(stepOf(newer)).toBe('wait: not-listed');
    expect(stepOf({ ...newer, listedEntries: [listedEntry(13, upTo(49))] })).toBe('wait: manifest-lags');
    const ofMoment = desired({ reloads: [reload(50, { createdAt: NOW, readAt: NOW })] });
    expect(stepOf({ ...newer, desired: ofMoment, listedEntries: [listedEntry(13, silent())] })).toBe(
      'wait: manifest-lags',
    );
    const answered = table(12, satisfying(50));
    expect(stepOf({ ...newer, observed: answered })).toBe('apply 13');
  });

  it('stops changes also after an older reload was answered', () => {
    const twice = desired({ reloads: [reload(49), reload(50, { createdAt: NOW })] });
    const lags = [listedEntry(12, upTo(49))];
    expect(stepOf({ ...newer, desired: twice, listedEntries: lags })).toBe('load 12');
    expect(
      stepOf({ ...newer, desired: twice, observed: table(12, satisfying(49)), listedEntries: lags }),
    ).toBe('wait: manifest-lags');
  });

  it('loads a later version from a subscription that asked for no reload', () => {
    const other = listedEntry(13, { ...upTo(3), subscriptionId: 'sub_2' });
    const both = desired({ ...newer.desired, members: membersAt('sub_1', 'sub_2') });
    expect(planOf({ ...newer, desired: both, listedEntries: [other] })).toMatchObject({
      kind: 'load',
      reloads: new Map(),
      why: 'the table takes no changes until its reload is answered',
    });
    expect(stepOf({ ...newer, desired: both, observed: table(13), listedEntries: [other] })).toBe(
      'wait: manifest-lags',
    );
  });

  it('F87 loads once a later manifest names the dataset', () => {
    expect(stepOf({ ...asked, listedEntries: [] })).toBe('wait: not-listed');
    expect(stepOf({ ...asked, listedEntries: [listedEntry(12, upTo(50))] })).toBe('load 12');
  });
});

describe('a dataset in two subscriptions', () => {
  const members = membersAt('sub_1', 'sub_2');
  const ofSecond = {
    ...asked,
    desired: desired({ members, reloads: [reload(50, { subscriptionId: 'sub_2' })] }),
  };
  const first = listedEntry(12, { subscriptionId: 'sub_1', ...upTo(900) });
  const second = listedEntry(12, { subscriptionId: 'sub_2', ...upTo(60) });

  it('answers a reload by the manifest of its own subscription, whatever the numbers of the other', () => {
    expect(planOf({ ...ofSecond, listedEntries: [first, second] })).toMatchObject({
      kind: 'load',
      listedEntry: second,
    });
    expect(stepOf({ ...ofSecond, listedEntries: [first] })).toBe('wait: manifest-lags');
  });

  it('answers the reloads of both subscriptions one after the other where each manifest reflects only its own', () => {
    const createdAt = ago(MINUTE_MS);
    const reloads = [reload(901, { createdAt }), reload(50, { subscriptionId: 'sub_2' })];
    const both = { ...asked, desired: desired({ members, reloads }), listedEntries: [first, second] };
    expect(planOf(both)).toMatchObject({ kind: 'load', listedEntry: second });
    const observed = table(12, { reloads: reloadMarks([['sub_2', 50n]]) });
    expect(stepOf({ ...both, observed })).toBe('wait: manifest-lags');
    expect(stepOf({ ...both, observed, listedEntries: [{ ...first, ...upTo(901) }, second] })).toBe(
      'load 12',
    );
  });
});

describe('a reload of a former member', () => {
  const orphan = reload(50, { subscriptionId: 'sub_9', createdAt: ago(MINUTE_MS) });
  const left = { ...asked, desired: desired({ reloads: [orphan] }) };
  const again = reload(100, { createdAt: NOW, readAt: NOW });

  it('W41 F82 asks for the reload of a former member again, for the subscriptions that contain the dataset', () => {
    expect(planOf(left)).toMatchObject({ kind: 'ask-reload', isWithdrawal: false });
    expect(stepOf({ ...left, metadata: null, listedEntries: null })).toBe('ask-reload');
  });

  it('F82 asks once for the reload of a former member, and answers both with one load', () => {
    const owed = { ...left, desired: desired({ reloads: [orphan, again] }) };
    expect(stepOf({ ...owed, listedEntries: [listedEntry(12, upTo(99))] })).toBe('wait: manifest-lags');
    expect(planOf({ ...owed, listedEntries: [listedEntry(12, upTo(100))] })).toHaveProperty(
      'reloads',
      new Map([
        ['sub_1', { logNumber: 1, eventNumber: 100n, createdAt: NOW }],
        ['sub_9', { logNumber: 1, eventNumber: 50n, createdAt: ago(MINUTE_MS) }],
      ]),
    );
  });

  it('F82 asks again for the reload of a former member where the other members asked before it', () => {
    const before = reload(100, { createdAt: ago(2 * MINUTE_MS) });
    expect(stepOf({ ...left, desired: desired({ reloads: [orphan, before] }), listedEntries: [] })).toBe(
      'ask-reload',
    );
  });

  it('drops the reload of a former member with the table, and where no subscription contains the dataset', () => {
    expect(stepOf({ ...left, observed: null, listedEntries: [listedEntry(12)] })).toBe('load 12');
    const gone = desired({ reloads: [orphan], members: new Map() });
    expect(stepOf({ ...left, desired: gone })).toBe('retire');
  });
});

describe('an entry of a manifest', () => {
  const known = metadata(chain(12, 13));
  const inapplicable = new Map([[13, 'they were not recorded']]);
  const given = { observed: table(12), desired: desired(announcing(13)), metadata: known, inapplicable };

  it('M21 uses an entry where a list of versions that was read after it names its version', () => {
    expect(stepOf({ ...given, listedEntries: [listedEntry(13)] })).toBe('load 13');
    expect(stepOf({ ...given, listedEntries: [listedEntry(14)] })).toBe('wait: entry-unlisted');
    const before = { ...known, entriesBefore: new Set([listedEntry(13).entry]) };
    expect(stepOf({ ...given, metadata: before, listedEntries: [listedEntry(13)] })).toBe('read-metadata');
  });

  it('M21 uses an entry only with the row count of the list, where both state one', () => {
    const counting = (rowCount: number | null) => [
      { ...listedEntry(13), entry: { ...entry('parcels', 13), rowCount } },
    ];
    expect(planOf({ ...given, listedEntries: counting(11) })).toEqual({
      kind: 'wait',
      why: 'entry-differs',
      until: null,
      version: 13,
      entryRows: 11,
      listedRows: 10,
    });
    expect(stepOf({ ...given, listedEntries: counting(null) })).toBe('load 13');
    const silently = metadata([...chain(12, 12), version('parcels', 13, { rowCount: null })]);
    expect(stepOf({ ...given, metadata: silently, listedEntries: counting(11) })).toBe('load 13');
  });

  it('F85 uses an entry only where the list dates its version before the reading of the manifest', () => {
    const published = (publishedAt: Date | null) =>
      metadata([...chain(12, 12), version('parcels', 13, { publishedAt })]);
    const read = [listedEntry(13, { readAt: ago(MINUTE_MS) })];
    expect(stepOf({ ...given, metadata: published(ago(MINUTE_MS)), listedEntries: read })).toBe('load 13');
    expect(stepOf({ ...given, metadata: published(NOW), listedEntries: read })).toBe('wait: entry-unlisted');
    expect(stepOf({ ...given, metadata: published(null), listedEntries: read })).toBe('load 13');
  });

  it('F47 uses no entry from before a version restart, neither for a first table nor for a reload', () => {
    const restarted = { metadata: metadata(chain(1, 1)), listedEntries: [listedEntry(3, upTo(50))] };
    expect(stepOf(restarted)).toBe('wait: entry-unlisted');
    expect(stepOf({ ...asked, ...restarted })).toBe('wait: entry-unlisted');
  });
});
