/**
 * Reloads, as they are planned: which load answers which of them, and what a table does until one can be had. Each rule is
 * one that keeps what is older from being loaded as the answer.
 */

import { describe, expect, it } from 'vitest';
import type { Watermark } from '../../src/model/manifest.ts';
import type { HeldDataset } from '../../src/model/write-jobs.ts';
import { OPERATOR, pendingReloads } from '../../src/sync/plan/need.ts';
import type { Offer, PlanInput } from '../../src/sync/plan/step.ts';
import { ago, chain, LAG_MS, MINUTE_MS, planOf, toldOf } from '../support/planning.ts';
import { reloadMarks } from '../support/reload-marks.ts';
import {
  announcing,
  entry,
  history,
  LONG_AGO,
  membersAt,
  NOW,
  offer,
  reload,
  table,
  version,
  want,
} from '../support/sync-values.ts';

/** Reflects the events up to this number. */
function upTo(number: number): Pick<Offer, 'watermark'> {
  return { watermark: { kind: 'number', through: BigInt(number) } };
}

/** Of a manifest that does not say how far it goes, read so long before `NOW`. */
function silent(durationMs = 0): Pick<Offer, 'watermark' | 'readAt'> {
  const readAt = ago(durationMs);
  return { readAt, watermark: lagging(readAt) };
}

function lagging(readAt: Date): Watermark {
  return { kind: 'time', through: new Date(readAt.getTime() - LAG_MS) };
}

/** What a table satisfies of `sub_1` once the reload of this number was answered. */
function satisfying(number: number, createdAt = LONG_AGO): Pick<HeldDataset, 'reloads'> {
  return { reloads: new Map([['sub_1', { logNumber: 1, eventNumber: BigInt(number), createdAt }]]) };
}

/** A table at 12, of which event 50 asked for a reload, and all versions up to its own. */
const asked = { held: table(12), want: want({ reloads: [reload(50)] }), history: history(chain(1, 12)) };

/** The same, asked for so long before `NOW`. */
function askedAgo(durationMs: number, changed: Parameters<typeof reload>[1] = {}): Partial<PlanInput> {
  const at = ago(durationMs);
  return { ...asked, want: want({ reloads: [reload(50, { createdAt: at, readAt: at, ...changed })] }) };
}

describe('a reload is answered where the manifest surely reflects its event', () => {
  it('M17 F32 by its number, where the manifest says how far it goes', () => {
    expect(toldOf({ ...asked, offers: [offer(12, upTo(49))] })).toBe('wait: offer-lags');
    expect(planOf({ ...asked, offers: [offer(12, upTo(50))] })).toMatchObject({
      kind: 'load',
      reloads: new Map([['sub_1', { logNumber: 1, eventNumber: 50n, createdAt: LONG_AGO }]]),
      why: 'the service asked for it (sub_1 at event 50)',
    });
  });

  it('W33 F47 by the time of its event, where it does not: fifteen minutes before the manifest was read', () => {
    const offers = [offer(12, silent())];
    expect(planOf({ ...askedAgo(LAG_MS - 1), offers })).toEqual({
      kind: 'wait',
      why: 'offer-lags',
      until: new Date(NOW.getTime() + 1),
    });
    expect(toldOf({ ...askedAgo(LAG_MS), offers })).toBe('load 12');
    const earlier = { history: history(chain(12, 12).map((one) => ({ ...one, publishedAt: ago(LAG_MS) }))) };
    expect(toldOf({ ...askedAgo(LAG_MS), ...earlier, offers: [offer(12, silent(MINUTE_MS))] })).toBe(
      'wait: offer-lags',
    );
  });

  it('F47 never because the same content without a digest is offered again', () => {
    const offers = [offer(12, { ...silent(), content: null })];
    expect(toldOf({ ...askedAgo(MINUTE_MS, { knownVersion: 11, listedVersion: 12 }), offers })).toBe(
      'wait: offer-lags',
    );
  });

  it('F81 not by a number of another log', () => {
    const ofSecondLog = { ...asked, want: want({ reloads: [reload(5, { logNumber: 2 })] }) };
    expect(toldOf({ ...ofSecondLog, offers: [offer(12, upTo(120))] })).toBe('wait: offer-lags');
    expect(toldOf({ ...ofSecondLog, offers: [offer(12, { ...upTo(5), logNumber: 2 })] })).toBe('load 12');
    expect(toldOf({ ...ofSecondLog, offers: [offer(12, silent())] })).toBe('load 12');
  });

  it('is over once the table satisfies its event', () => {
    const held = table(12, { reloads: reloadMarks([['sub_1', 50n]]) });
    expect(toldOf({ ...asked, held, offers: [offer(12)] })).toBe('keep');
  });

  it('asked for at a moment is answered by time only where that moment is reflected', () => {
    const atMoment = (readAt: Date) => ({
      ...asked,
      offers: [offer(12, { readAt, watermark: lagging(readAt) })],
    });
    const wanted = want({ reloads: [reload(50), reload(50, { createdAt: NOW, readAt: NOW })] });
    const held = table(12, satisfying(50));
    const later = (durationMs: number) => new Date(NOW.getTime() + durationMs);
    expect(toldOf({ ...atMoment(later(LAG_MS - 1)), held, want: wanted })).toBe('wait: offer-lags');
    expect(toldOf({ ...atMoment(later(LAG_MS)), held, want: wanted })).toBe('load 12');
  });
});

describe('a reload is answered by a version above every one that was known when it was read', () => {
  const known = (changed: Parameters<typeof reload>[1]): Partial<PlanInput> => ({
    ...askedAgo(MINUTE_MS, changed),
    history: history(chain(1, 14)),
  });
  const offers = [offer(13, silent())];

  it('W34 of the table, announced, or in the first list of versions read after it', () => {
    expect(toldOf({ ...known({ knownVersion: 12, listedVersion: 12 }), offers })).toBe('load 13');
    expect(toldOf({ ...known({ knownVersion: 13, listedVersion: 12 }), offers })).toBe('wait: offer-lags');
    expect(toldOf({ ...known({ knownVersion: 12, listedVersion: 13 }), offers })).toBe('wait: offer-lags');
  });

  it('though not before a list was read, nor where nobody knows what was known', () => {
    expect(toldOf({ ...known({ knownVersion: 12 }), offers })).toBe('wait: offer-lags');
    expect(toldOf({ ...known({ listedVersion: 12 }), offers })).toBe('wait: offer-lags');
  });

  it('F85 where there is no table, too: a version of before the versions began anew is none', () => {
    const first = (changed: Parameters<typeof reload>[1]): Partial<PlanInput> => ({
      ...askedAgo(MINUTE_MS, changed),
      held: null,
      history: history(chain(1, 2)),
      offers: [offer(2, { ...silent(), content: 'before' })],
    });
    expect(toldOf(first({ knownVersion: 2, listedVersion: 1 }))).toBe('wait: offer-lags');
    expect(toldOf(first({ knownVersion: 1, listedVersion: 2 }))).toBe('wait: offer-lags');
    // What was there before the first start is not known, so no version is surely above it.
    expect(toldOf(first({ knownVersion: 1, listedVersion: 1 }))).toBe('wait: offer-lags');
  });

  it('F47 only while the list names the version of the table still: what began anew is above nothing', () => {
    const changed = { knownVersion: 12, listedVersion: 12 };
    const anew = chain(1, 14).map((one) => ({ ...one, publishedAt: NOW }));
    const given = {
      ...known(changed),
      held: table(12, { publishedAt: ago(1) }),
      history: history(anew),
      offers,
    };
    expect(toldOf(given)).toBe('ask-reload');
    const owed = want({
      reloads: [
        reload(50, { createdAt: ago(MINUTE_MS), ...changed }),
        reload(50, { createdAt: NOW, ...changed, isWithdrawal: true }),
      ],
    });
    expect(toldOf({ ...given, want: owed })).toBe('wait: offer-lags');
    expect(toldOf({ ...given, want: owed, held: table(12, { publishedAt: NOW }) })).toBe('load 13');
    const gap = history(chain(13, 14));
    expect(toldOf({ ...known(changed), history: gap, offers })).toBe('wait: offer-lags');
  });
});

describe('a reload is answered by other content of the version that the table was loaded from', () => {
  const through = { loadedThrough: 'sub_1', loadedAt: ago(5 * MINUTE_MS) };
  const loaded = { ...askedAgo(MINUTE_MS), held: table(12, through) };
  const other = offer(12, { ...silent(), content: 'other' });

  it('W35 by the digest that the same manifest states, though it does not say how far it goes', () => {
    expect(toldOf({ ...loaded, offers: [other] })).toBe('load 12');
    expect(toldOf({ ...loaded, offers: [offer(12, silent())] })).toBe('wait: offer-lags');
    const own = { ...loaded, held: table(12, { ...through, loadedThrough: null }) };
    expect(toldOf({ ...own, offers: [{ ...other, through: null }] })).toBe('load 12');
  });

  it.each<readonly [string, Partial<PlanInput>]>([
    [
      'another manifest than that of the load states it',
      { held: table(12, { ...through, loadedThrough: 'sub_2' }) },
    ],
    [
      'each dataset has its own manifest, and the table came from another',
      { held: table(12, { ...through, loadedThrough: null }) },
    ],
    [
      'the table was loaded since the reload was read',
      { held: table(12, { ...through, loadedAt: ago(MINUTE_MS) }) },
    ],
    ['nobody knows when the table was loaded', { held: table(12, { ...through, loadedAt: null }) }],
    ['the digest of the table was computed', { held: table(12, { ...through, digestKind: 'computed' }) }],
    [
      'nobody knows how the digest of the table was made',
      { held: table(12, { ...through, digestKind: null }) },
    ],
    ['the digest that is offered is not stated', { offers: [offer(12, { ...silent(), content: null })] }],
    [
      'the list names another version under the number of the table',
      {
        held: table(12, { ...through, publishedAt: ago(1) }),
        want: want({ reloads: [reload(50, { createdAt: NOW, readAt: NOW, isWithdrawal: true })] }),
      },
    ],
  ])('F47 though not where %s', (_, changed) => {
    expect(toldOf({ ...loaded, offers: [other], ...changed })).toBe('wait: offer-lags');
  });

  it('F47 though not where changes have moved the table since: its own version is none that was loaded', () => {
    const moved = { ...loaded, held: table(12, { ...through, snapshotVersion: 3 }) };
    expect(toldOf({ ...moved, offers: [other] })).toBe('wait: offer-lags');
    expect(toldOf({ ...moved, offers: [offer(3, { ...silent(), content: 'other' })] })).toBe(
      'wait: offer-lags',
    );
  });

  it('F80 though not where another reload was asked for since the load: it may be of between the two', () => {
    const twice = want({
      reloads: [50, 51].map((number) =>
        reload(number, { createdAt: ago(MINUTE_MS), readAt: ago(MINUTE_MS) }),
      ),
    });
    expect(toldOf({ ...loaded, want: twice, offers: [other] })).toBe('wait: offer-lags');
    const byAnother = reload(7, {
      subscriptionId: 'sub_2',
      createdAt: ago(MINUTE_MS),
      readAt: ago(MINUTE_MS),
    });
    const members = membersAt('sub_1', 'sub_2');
    const both = want({ members, reloads: [...asked.want.reloads, byAnother] });
    expect(
      toldOf({ ...loaded, want: both, held: table(12, { ...through, ...satisfying(50) }), offers: [other] }),
    ).toBe('wait: offer-lags');
    const before = reload(49, { createdAt: ago(16 * MINUTE_MS), readAt: ago(16 * MINUTE_MS) });
    const once = { ...loaded, want: want({ reloads: [before, ...twice.reloads.slice(0, 1)] }) };
    const held = table(12, { ...through, ...satisfying(49, ago(16 * MINUTE_MS)) });
    expect(toldOf({ ...once, held, offers: [other] })).toBe('load 12');
  });

  it('F80 of two subscriptions: the old content of the one that lags is none that answers', () => {
    const at = ago(MINUTE_MS);
    const owed = (...ids: readonly string[]) =>
      want({
        members: membersAt('sub_1', 'sub_2'),
        reloads: ids.map((subscriptionId) => reload(50, { subscriptionId, createdAt: at, readAt: at })),
      });
    const marks = { logNumber: 1, eventNumber: 20n, createdAt: LONG_AGO };
    const held = table(12, {
      loadedThrough: 'sub_2',
      loadedAt: ago(5 * MINUTE_MS),
      snapshotDigest: 'of the new content',
      reloads: new Map([
        ['sub_1', marks],
        ['sub_2', marks],
      ]),
    });
    const frozen = offer(12, { ...silent(), content: 'before' });
    expect(toldOf({ ...asked, held, want: owed('sub_1'), offers: [frozen] })).toBe('wait: offer-lags');
    expect(toldOf({ ...asked, held, want: owed('sub_1', 'sub_2'), offers: [frozen] })).toBe(
      'wait: offer-lags',
    );
  });
});

describe('a reload that an operator asked for', () => {
  const operator = {
    held: table(12, { reloads: reloadMarks([[OPERATOR, 1n]]) }),
    want: want({ resyncNumber: 2 }),
    history: history(chain(12, 12)),
  };

  it('is answered by any load, also of the same content, and of a manifest that may lag', () => {
    const decided = planOf({ ...operator, offers: [offer(12, silent())] });
    expect(decided).toMatchObject({ kind: 'load', why: 'a person asked for it' });
    expect(decided).toHaveProperty(
      'reloads',
      new Map([[OPERATOR, { logNumber: 1, eventNumber: 2n, createdAt: null }]]),
    );
  });

  it('is answered by a load for something else', () => {
    const behind = { ...operator, held: null };
    expect(planOf({ ...behind, offers: [offer(12)] })).toHaveProperty(
      'reloads',
      new Map([[OPERATOR, { logNumber: 1, eventNumber: 2n, createdAt: null }]]),
    );
  });

  it('is over once the table satisfies it, and owed again by a table of before', () => {
    const done = table(12, { reloads: reloadMarks([[OPERATOR, 2n]]) });
    expect(toldOf({ ...operator, held: done, offers: [offer(12)] })).toBe('keep');
    expect(toldOf({ ...operator, held: table(12), offers: [offer(12)] })).toBe('load 12');
  });

  it('waits while only a lower version is offered, and stops no changes', () => {
    const versions = history(chain(11, 12));
    expect(toldOf({ ...operator, history: versions, offers: [offer(11)] })).toBe('wait: offer-lags');
    expect(toldOf({ ...operator, history: history(chain(11, 13)), offers: [offer(11)] })).toBe('apply 13');
  });
});

describe('one load answers', () => {
  const members = membersAt('sub_1', 'sub_2');
  const [older, newer] = [ago(40 * MINUTE_MS), ago(30 * MINUTE_MS)];
  const mark = (eventNumber: bigint, createdAt: Date) => ({ logNumber: 1, eventNumber, createdAt });

  it('W36 all reloads whose events are no newer than the newest it answers, of whichever subscription', () => {
    const reloads = [
      reload(50, { createdAt: newer }),
      reload(7, { subscriptionId: 'sub_2', createdAt: older }),
      reload(8, { subscriptionId: 'sub_2', createdAt: newer }),
    ];
    expect(
      planOf({ ...asked, want: want({ members, reloads }), offers: [offer(12, upTo(50))] }),
    ).toHaveProperty(
      'reloads',
      new Map([
        ['sub_1', mark(50n, newer)],
        ['sub_2', mark(8n, newer)],
      ]),
    );
  });

  it('F80 of its own subscription by their numbers: of two events of one moment the later one stays owed', () => {
    const reloads = [reload(50, { createdAt: newer }), reload(51, { createdAt: newer })];
    const load = { ...asked, want: want({ members, reloads }) };
    expect(planOf({ ...load, offers: [offer(12, upTo(50))] })).toHaveProperty(
      'reloads',
      new Map([['sub_1', mark(50n, newer)]]),
    );
    const held = table(12, satisfying(50, newer));
    expect(toldOf({ ...load, held, offers: [offer(12, upTo(50))] })).toBe('wait: offer-lags');
    expect(toldOf({ ...load, held, offers: [offer(12, upTo(51))] })).toBe('load 12');
  });

  it('W36 of two manifests that lead as far the one that answers more of them, though it is more work', () => {
    const reloads = [
      reload(50, { createdAt: older }),
      reload(50, { subscriptionId: 'sub_2', createdAt: newer }),
    ];
    const wanted = want({ members, reloads });
    const ofOther = { subscriptionId: 'sub_2', through: 'sub_2', ...upTo(50) };
    const loaded = (...offers: readonly Offer[]) => {
      const decided = planOf({ ...asked, want: wanted, offers });
      return decided.kind === 'load' ? decided.offer.subscriptionId : decided.kind;
    };
    expect(loaded(offer(12, upTo(50)), offer(12, ofOther))).toBe('sub_2');
    expect(loaded(offer(12, ofOther), offer(12, upTo(50)))).toBe('sub_2');
    const small = entry('parcels', 12);
    const split = { ...small, files: [...small.files, ...small.files] };
    expect(loaded(offer(12, upTo(50)), offer(12, { ...ofOther, entry: split }))).toBe('sub_2');
    expect(loaded(offer(12, upTo(50)), offer(12, { ...ofOther, ...upTo(49) }))).toBe('sub_1');
  });

  it('none that is newer: it stays owed', () => {
    const reloads = [
      reload(50, { createdAt: older }),
      reload(51, { createdAt: newer }),
      reload(8, { subscriptionId: 'sub_2', createdAt: newer }),
    ];
    const decided = planOf({ ...asked, want: want({ members, reloads }), offers: [offer(12, upTo(50))] });
    expect(decided).toMatchObject({ kind: 'load', reloads: new Map([['sub_1', mark(50n, older)]]) });
    const held = table(12, { reloads: new Map([['sub_1', mark(50n, older)]]) });
    expect(pendingReloads(held, want({ members, reloads }))).toEqual(reloads.slice(1));
  });

  it('what a subscription asked for that has left, where no table is there to owe it', () => {
    const reloads = [reload(50, { subscriptionId: 'sub_9', createdAt: NOW })];
    const first = { want: want({ reloads }), history: history(chain(12, 12)), offers: [offer(12)] };
    expect(planOf(first)).toHaveProperty('reloads', new Map([['sub_9', mark(50n, NOW)]]));
  });

  it('F88 sixty of them that come ten minutes apart as their time comes, not only after the last', () => {
    const reloads = Array.from({ length: 60 }, (_, index) => {
      const at = new Date(NOW.getTime() + index * 10 * MINUTE_MS);
      return reload(index + 1, { createdAt: at, readAt: at });
    });
    let held = table(12, { loadedThrough: 'sub_1', loadedAt: ago(1) });
    const answeredAt = new Map<bigint, number>();
    for (let minutes = 0; minutes <= 610; minutes += 5) {
      const readAt = new Date(NOW.getTime() + minutes * MINUTE_MS);
      const known = want({ reloads: reloads.filter((one) => one.readAt <= readAt) });
      const offers = [offer(12, { readAt, watermark: lagging(readAt) })];
      const decided = planOf({ ...asked, held, want: known, offers });
      if (decided.kind !== 'load') continue;
      const owed = pendingReloads(held, known);
      held = table(12, { loadedThrough: 'sub_1', loadedAt: readAt, reloads: decided.reloads });
      const left = pendingReloads(held, known);
      for (const one of owed) if (!left.includes(one)) answeredAt.set(one.eventNumber, minutes);
    }
    expect(answeredAt).toEqual(
      new Map(reloads.map(({ eventNumber }, index) => [eventNumber, index * 10 + 15])),
    );
  });
});

describe('a manifest', () => {
  const unrecorded = new Map([[13, 'they were not recorded']]);
  const behind = { held: table(12), history: history(chain(12, 13)), unusable: unrecorded };

  it('that answers none of the reloads of its own subscription is loaded from for nothing', () => {
    const lags = [offer(13, upTo(49))];
    const owed = want({ reloads: [reload(50)], resyncNumber: 1 });
    expect(toldOf({ ...behind, want: want(), offers: lags })).toBe('load 13');
    expect(toldOf({ ...behind, want: owed, offers: lags })).toBe('wait: offer-lags');
    expect(toldOf({ ...behind, held: null, want: owed, offers: lags })).toBe('wait: offer-lags');
  });

  it('that answers an older one of them is loaded from for that, and the newer ones stay owed', () => {
    const owed = want({ reloads: [reload(49), reload(50, { createdAt: NOW })] });
    expect(planOf({ ...behind, want: owed, offers: [offer(13, upTo(49))] })).toMatchObject({
      kind: 'load',
      reloads: new Map([['sub_1', { logNumber: 1, eventNumber: 49n, createdAt: LONG_AGO }]]),
    });
  });

  it('of another subscription is loaded from for a version though a reload is owed, and answers none', () => {
    const owed = want({ members: membersAt('sub_1', 'sub_2'), reloads: [reload(50)] });
    expect(planOf({ ...behind, want: owed, offers: [offer(13, { subscriptionId: 'sub_2' })] })).toMatchObject(
      {
        kind: 'load',
        reloads: new Map(),
      },
    );
  });

  it('F86 that may be of before what the table satisfies of its own subscription is loaded from for nothing', () => {
    const satisfied = { ...behind, held: table(12, satisfying(50, ago(MINUTE_MS))), want: want() };
    expect(toldOf({ ...satisfied, offers: [offer(13, upTo(49))] })).toBe('wait: offer-lags');
    expect(toldOf({ ...satisfied, offers: [offer(13, upTo(50))] })).toBe('load 13');
    expect(planOf({ ...satisfied, offers: [offer(13, silent())] })).toEqual({
      kind: 'wait',
      why: 'offer-lags',
      until: new Date(NOW.getTime() + LAG_MS - MINUTE_MS),
    });
    expect(toldOf({ ...satisfied, offers: [offer(13, { ...upTo(49), subscriptionId: 'sub_2' })] })).toBe(
      'load 13',
    );
    const operator = want({ resyncNumber: 1 });
    expect(toldOf({ ...satisfied, unusable: new Map(), want: operator, offers: [offer(13, upTo(49))] })).toBe(
      'apply 13',
    );
  });

  it('F81 of the log before the one that the table satisfies a reload of is loaded from for nothing', () => {
    const mark = { logNumber: 2, eventNumber: 3n, createdAt: LONG_AGO };
    const held = table(12, { reloads: new Map([['sub_1', mark]]) });
    const given = { ...behind, held, want: want() };
    expect(toldOf({ ...given, offers: [offer(13, upTo(120))] })).toBe('wait: offer-lags');
    expect(toldOf({ ...given, offers: [offer(13, { ...upTo(3), logNumber: 2 })] })).toBe('load 13');
    expect(toldOf({ ...given, offers: [offer(13, { ...upTo(0), logNumber: 3 })] })).toBe('load 13');
  });

  it('F86 of the other subscription, once one has brought new content and a later version, changes nothing', () => {
    const at = ago(MINUTE_MS);
    const reloads = ['sub_1', 'sub_2'].map((subscriptionId) =>
      reload(50, { subscriptionId, createdAt: at, readAt: at, knownVersion: 12, listedVersion: 12 }),
    );
    const owed = want({ members: membersAt('sub_1', 'sub_2'), reloads });
    const [frozen, fresh] = [offer(12, silent()), offer(13, { ...silent(), subscriptionId: 'sub_2' })];
    const given = { held: table(12), history: history(chain(12, 13)), want: owed, offers: [frozen, fresh] };
    const decided = planOf(given);
    expect(decided).toMatchObject({ kind: 'load', offer: fresh });
    const held = table(13, decided.kind === 'load' ? { reloads: decided.reloads } : {});
    expect(toldOf({ ...given, held })).toBe('keep');
    expect(toldOf({ ...given, held, want: { ...owed, resyncNumber: 1 }, offers: [frozen] })).toBe(
      'wait: offer-lags',
    );
  });

  it('F86 of a first start that lags behind the other is not loaded after it', () => {
    const [ahead, behindIt] = [offer(3), offer(2, { subscriptionId: 'sub_2' })];
    const members = membersAt('sub_1', 'sub_2');
    const first = { want: want({ members }), history: history(chain(2, 3)), offers: [behindIt, ahead] };
    expect(toldOf(first)).toBe('load 3');
    expect(toldOf({ ...first, held: table(3) })).toBe('keep');
    expect(
      toldOf({ ...first, held: table(3), want: want({ members, resyncNumber: 1 }), offers: [behindIt] }),
    ).toBe('wait: offer-lags');
  });
});

describe('a reload never brings a lower version', () => {
  const lower = [offer(3, upTo(50))];

  it('W14 while the list names that of the table: it waits', () => {
    expect(toldOf({ ...asked, offers: lower })).toBe('wait: offer-lags');
    const stated = { held: table(12, { publishedAt: NOW }) };
    expect(toldOf({ ...asked, ...stated, offers: lower })).toBe('wait: offer-lags');
    expect(toldOf({ ...asked, history: history(chain(1, 3)), offers: lower })).toBe('load 3');
  });

  it('F79 though what the table has was taken for withdrawn, where the list names it again', () => {
    const owed = want({ reloads: [reload(50, { isWithdrawal: true })] });
    expect(toldOf({ ...asked, want: owed, offers: lower })).toBe('wait: offer-lags');
    expect(toldOf({ ...asked, want: owed, history: history(chain(1, 3)), offers: lower })).toBe('load 3');
  });

  it('of which nobody knows when it can be had, where the manifest reflects the event already', () => {
    const offers = [offer(3, silent())];
    expect(planOf({ ...askedAgo(LAG_MS), offers })).toEqual({ kind: 'wait', why: 'offer-lags', until: null });
  });
});

describe('a reload that cannot be had yet', () => {
  const newer = { ...asked, history: history(chain(1, 13)) };

  it('W39 stops changes: they would follow on other rows than the table has', () => {
    expect(toldOf(newer)).toBe('wait: not-offered');
    expect(toldOf({ ...newer, offers: [offer(13, upTo(49))] })).toBe('wait: offer-lags');
    const ofMoment = want({ reloads: [reload(50, { createdAt: NOW, readAt: NOW })] });
    expect(toldOf({ ...newer, want: ofMoment, offers: [offer(13, silent())] })).toBe('wait: offer-lags');
    const answered = table(12, satisfying(50));
    expect(toldOf({ ...newer, held: answered })).toBe('apply 13');
  });

  it('stops changes after an older one was answered, too', () => {
    const twice = want({ reloads: [reload(49), reload(50, { createdAt: NOW })] });
    const lags = [offer(12, upTo(49))];
    expect(toldOf({ ...newer, want: twice, offers: lags })).toBe('load 12');
    expect(toldOf({ ...newer, want: twice, held: table(12, satisfying(49)), offers: lags })).toBe(
      'wait: offer-lags',
    );
  });

  it('gives way to the snapshot of a later version, of a subscription that asked for none', () => {
    const other = offer(13, { ...upTo(3), subscriptionId: 'sub_2' });
    const both = want({ ...newer.want, members: membersAt('sub_1', 'sub_2') });
    expect(planOf({ ...newer, want: both, offers: [other] })).toMatchObject({
      kind: 'load',
      reloads: new Map(),
      why: 'the table takes no changes until its reload is answered',
    });
    expect(toldOf({ ...newer, want: both, held: table(13), offers: [other] })).toBe('wait: offer-lags');
  });

  it('F87 is had once a later manifest names the dataset', () => {
    expect(toldOf({ ...asked, offers: [] })).toBe('wait: not-offered');
    expect(toldOf({ ...asked, offers: [offer(12, upTo(50))] })).toBe('load 12');
  });
});

describe('of a dataset in two subscriptions', () => {
  const members = membersAt('sub_1', 'sub_2');
  const ofSecond = { ...asked, want: want({ members, reloads: [reload(50, { subscriptionId: 'sub_2' })] }) };
  const first = offer(12, { subscriptionId: 'sub_1', ...upTo(900) });
  const second = offer(12, { subscriptionId: 'sub_2', ...upTo(60) });

  it('a reload is answered by the manifest of the one that asked, whatever the numbers of the other', () => {
    expect(planOf({ ...ofSecond, offers: [first, second] })).toMatchObject({ kind: 'load', offer: second });
    expect(toldOf({ ...ofSecond, offers: [first] })).toBe('wait: offer-lags');
  });

  it('those of both are answered one after the other, where one manifest reflects only its own', () => {
    const createdAt = ago(MINUTE_MS);
    const reloads = [reload(901, { createdAt }), reload(50, { subscriptionId: 'sub_2' })];
    const both = { ...asked, want: want({ members, reloads }), offers: [first, second] };
    expect(planOf(both)).toMatchObject({ kind: 'load', offer: second });
    const held = table(12, { reloads: reloadMarks([['sub_2', 50n]]) });
    expect(toldOf({ ...both, held })).toBe('wait: offer-lags');
    expect(toldOf({ ...both, held, offers: [{ ...first, ...upTo(901) }, second] })).toBe('load 12');
  });
});

describe('a reload that is owed to a subscription which has left', () => {
  const orphan = reload(50, { subscriptionId: 'sub_9', createdAt: ago(MINUTE_MS) });
  const left = { ...asked, want: want({ reloads: [orphan] }) };
  const again = reload(100, { createdAt: NOW, readAt: NOW });

  it('W41 F82 is asked for again, in the name of those that contain the dataset', () => {
    expect(planOf(left)).toMatchObject({ kind: 'ask-reload', isWithdrawal: false });
    expect(toldOf({ ...left, history: null, offers: null })).toBe('ask-reload');
  });

  it('F82 is asked for once, and answered by what answers the one that was asked for then', () => {
    const owed = { ...left, want: want({ reloads: [orphan, again] }) };
    expect(toldOf({ ...owed, offers: [offer(12, upTo(99))] })).toBe('wait: offer-lags');
    expect(planOf({ ...owed, offers: [offer(12, upTo(100))] })).toHaveProperty(
      'reloads',
      new Map([
        ['sub_1', { logNumber: 1, eventNumber: 100n, createdAt: NOW }],
        ['sub_9', { logNumber: 1, eventNumber: 50n, createdAt: ago(MINUTE_MS) }],
      ]),
    );
  });

  it('F82 is asked for again where those that contain the dataset asked before it', () => {
    const before = reload(100, { createdAt: ago(2 * MINUTE_MS) });
    expect(toldOf({ ...left, want: want({ reloads: [orphan, before] }), offers: [] })).toBe('ask-reload');
  });

  it('is over with the table, and where nobody contains the dataset any more', () => {
    expect(toldOf({ ...left, held: null, offers: [offer(12)] })).toBe('load 12');
    const gone = want({ reloads: [orphan], members: new Map() });
    expect(toldOf({ ...left, want: gone })).toBe('retire');
  });
});

describe('an entry of a manifest', () => {
  const known = history(chain(12, 13));
  const unusable = new Map([[13, 'they were not recorded']]);
  const given = { held: table(12), want: want(announcing(13)), history: known, unusable };

  it('M21 counts where the list of versions, read after it, names its version', () => {
    expect(toldOf({ ...given, offers: [offer(13)] })).toBe('load 13');
    expect(toldOf({ ...given, offers: [offer(14)] })).toBe('wait: offer-unlisted');
    const before = { ...known, entriesBefore: new Set([offer(13).entry]) };
    expect(toldOf({ ...given, history: before, offers: [offer(13)] })).toBe('read-history');
  });

  it('M21 counts only with the number of rows that the list states, where both state one', () => {
    const counting = (rowCount: number | null) => [
      { ...offer(13), entry: { ...entry('parcels', 13), rowCount } },
    ];
    expect(planOf({ ...given, offers: counting(11) })).toEqual({
      kind: 'wait',
      why: 'offer-differs',
      until: null,
      version: 13,
      offeredRows: 11,
      listedRows: 10,
    });
    expect(toldOf({ ...given, offers: counting(null) })).toBe('load 13');
    const silently = history([...chain(12, 12), version('parcels', 13, { rowCount: null })]);
    expect(toldOf({ ...given, history: silently, offers: counting(11) })).toBe('load 13');
  });

  it('F85 counts only where the list says that its version was published before the manifest was read', () => {
    const published = (publishedAt: Date | null) =>
      history([...chain(12, 12), version('parcels', 13, { publishedAt })]);
    const read = [offer(13, { readAt: ago(MINUTE_MS) })];
    expect(toldOf({ ...given, history: published(ago(MINUTE_MS)), offers: read })).toBe('load 13');
    expect(toldOf({ ...given, history: published(NOW), offers: read })).toBe('wait: offer-unlisted');
    expect(toldOf({ ...given, history: published(null), offers: read })).toBe('load 13');
  });

  it('F47 counts neither for a first table nor for a reload where it is of before the versions began anew', () => {
    const anew = { history: history(chain(1, 1)), offers: [offer(3, upTo(50))] };
    expect(toldOf(anew)).toBe('wait: offer-unlisted');
    expect(toldOf({ ...asked, ...anew })).toBe('wait: offer-unlisted');
  });
});
