/** What is decided for a dataset, through the one public function. */

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { contentOf, type Offer, type Plan, type PlanInput, plan, wantAtLeast } from '../../src/sync/plan.ts';
import { SEED } from '../support/seed.ts';
import { entry, failure, hold, NOW, offer, table, want } from '../support/sync-values.ts';

function input(changed: Partial<PlanInput> = {}): PlanInput {
  return { want: want(), held: null, hold: null, failure: null, offers: [], now: NOW, ...changed };
}

function kindOf(changed: Partial<PlanInput>): Plan['kind'] {
  return plan(input(changed)).kind;
}

/** What makes a dataset be in each state. Absent and failed without a table need one whatever the situation. */
const STATES = {
  absent: {},
  live: { held: table(5) },
  failed: { held: table(5), failure: failure() },
  'failed without a table': { failure: failure() },
  held: { held: table(5), hold: hold() },
  'held without a table': { hold: hold() },
  retired: { held: table(5), want: want({ members: new Set() }) },
} satisfies Record<string, Partial<PlanInput>>;

/** What makes a live table be in each situation. */
const SITUATIONS = {
  'nothing-needed': { want: { atLeastVersion: 5 }, offers: [offer(5)] },
  'look-needed': { want: { looksAsked: 1 }, offers: [offer(5)] },
  'not-offered': { want: { atLeastVersion: 6 }, offers: [] },
  'offer-lags': { want: { atLeastVersion: 7 }, offers: [offer(6)] },
  'offer-answers': { want: { atLeastVersion: 6 }, offers: [offer(6)] },
  'offer-failed-before': { want: { atLeastVersion: 6 }, offers: [offer(6)] },
} as const;

type State = keyof typeof STATES;
type Situation = keyof typeof SITUATIONS;

const EXPECTED: Record<State, Record<Situation, Plan['kind']>> = {
  absent: {
    'nothing-needed': 'load',
    'look-needed': 'load',
    'not-offered': 'wait',
    'offer-lags': 'wait',
    'offer-answers': 'load',
    'offer-failed-before': 'report-failure',
  },
  live: {
    'nothing-needed': 'keep',
    'look-needed': 'look',
    'not-offered': 'wait',
    'offer-lags': 'wait',
    'offer-answers': 'load',
    'offer-failed-before': 'report-failure',
  },
  failed: {
    'nothing-needed': 'keep',
    'look-needed': 'look',
    'not-offered': 'wait',
    'offer-lags': 'wait',
    'offer-answers': 'load',
    'offer-failed-before': 'report-failure',
  },
  'failed without a table': {
    'nothing-needed': 'load',
    'look-needed': 'load',
    'not-offered': 'wait',
    'offer-lags': 'wait',
    'offer-answers': 'load',
    'offer-failed-before': 'report-failure',
  },
  held: {
    'nothing-needed': 'report-hold',
    'look-needed': 'report-hold',
    'not-offered': 'report-hold',
    'offer-lags': 'report-hold',
    'offer-answers': 'report-hold',
    'offer-failed-before': 'report-hold',
  },
  'held without a table': {
    'nothing-needed': 'report-hold',
    'look-needed': 'report-hold',
    'not-offered': 'report-hold',
    'offer-lags': 'report-hold',
    'offer-answers': 'report-hold',
    'offer-failed-before': 'report-hold',
  },
  retired: {
    'nothing-needed': 'leave',
    'look-needed': 'leave',
    'not-offered': 'leave',
    'offer-lags': 'leave',
    'offer-answers': 'leave',
    'offer-failed-before': 'leave',
  },
};

describe('every state in every situation', () => {
  for (const [state, row] of Object.entries(EXPECTED)) {
    it.each(Object.entries(row))(`${state}, %s: %s`, (situation, expected) => {
      const made: Partial<PlanInput> = STATES[state as State];
      const { want: wanted, offers } = SITUATIONS[situation as Situation];
      const failedBefore =
        situation === 'offer-failed-before' ? failure({ content: contentOf(offer(6).entry) }) : null;
      const decided = kindOf({
        ...made,
        failure: failedBefore ?? made.failure ?? null,
        want: { ...(made.want ?? want()), ...wanted },
        offers,
      });
      expect(decided).toBe(expected);
    });
  }
});

describe('what a load carries', () => {
  it('is the newest offer, and the events that its manifest reflects', () => {
    const newest = offer(7, { subscriptionId: 'sub_2', reflects: 40n });
    const decided = plan(
      input({ want: want({ members: new Set(['sub_1', 'sub_2']) }), offers: [offer(6), newest] }),
    );
    expect(decided).toEqual({ kind: 'load', offer: newest, reloads: new Map([['sub_2', 40n]]) });
  });

  it('reflects what another manifest reflects only where that lists the very same snapshot', () => {
    const same = offer(7, { subscriptionId: 'sub_2', reflects: 40n });
    const other = offer(7, { subscriptionId: 'sub_3', reflects: 90n, content: 'republished' });
    const decided = plan(input({ offers: [offer(7), same, other] }));
    expect(decided).toMatchObject({
      kind: 'load',
      reloads: new Map([
        ['sub_1', 100n],
        ['sub_2', 40n],
      ]),
    });
  });

  it('says why it waits', () => {
    expect(plan(input())).toEqual({ kind: 'wait', why: 'not-offered' });
    const lagging = input({ want: want({ atLeastVersion: 9 }), offers: [offer(8)] });
    expect(plan(lagging)).toEqual({ kind: 'wait', why: 'offer-lags' });
  });

  it('says what holds it', () => {
    expect(plan(input({ hold: hold() }))).toEqual({ kind: 'report-hold', hold: hold() });
  });
});

describe('a reload', () => {
  const asked = { held: table(12), want: want({ reloadAfter: new Map([['sub_1', 50n]]) }) };

  it('is answered by a manifest that reflects its event', () => {
    expect(kindOf({ ...asked, offers: [offer(12, { reflects: 49n })] })).toBe('wait');
    expect(kindOf({ ...asked, offers: [offer(12, { reflects: 50n })] })).toBe('load');
  });

  it('may bring a lower version', () => {
    const decided = plan(input({ ...asked, offers: [offer(3)] }));
    expect(decided).toMatchObject({ kind: 'load', offer: { entry: { version: 3 } } });
  });

  it('but not a lower one than its event named', () => {
    expect(kindOf({ ...asked, want: { ...asked.want, atLeastVersion: 4 }, offers: [offer(3)] })).toBe('wait');
  });

  it('is answered, where the manifest does not say how far it goes, by other content', () => {
    expect(kindOf({ ...asked, offers: [offer(12, { reflects: null })] })).toBe('wait');
    expect(kindOf({ ...asked, offers: [offer(12, { reflects: null, content: 'other' })] })).toBe('load');
    expect(kindOf({ ...asked, offers: [offer(12, { reflects: null, content: null })] })).toBe('load');
  });

  it('is over once the table satisfies its event', () => {
    const held = table(12, { reloads: new Map([['sub_1', 50n]]) });
    expect(kindOf({ ...asked, held, offers: [offer(12)] })).toBe('keep');
  });

  describe('of a dataset in two subscriptions', () => {
    const members = new Set(['sub_1', 'sub_2']);
    const ofSecond = { held: table(12), want: want({ members, reloadAfter: new Map([['sub_2', 50n]]) }) };
    const stale = offer(12, { subscriptionId: 'sub_1', reflects: 30n });
    const reset = offer(3, { subscriptionId: 'sub_2', reflects: 60n });

    it('is answered by the manifest of who asked, not by a higher version of the other', () => {
      const decided = plan(input({ ...ofSecond, offers: [stale, reset] }));
      expect(decided).toEqual({ kind: 'load', offer: reset, reloads: new Map([['sub_2', 60n]]) });
    });

    it('waits while the manifest of who asked cannot be had', () => {
      expect(kindOf({ ...ofSecond, offers: [stale] })).toBe('wait');
    });

    it('waits for both where both asked', () => {
      const reloadAfter = new Map([
        ['sub_1', 31n],
        ['sub_2', 50n],
      ]);
      const both = { held: table(12), want: want({ members, reloadAfter }) };
      expect(kindOf({ ...both, offers: [stale, reset] })).toBe('wait');
      expect(kindOf({ ...both, offers: [{ ...stale, reflects: 31n }, reset] })).toBe('load');
    });

    it('of which one has left needs no word of that one', () => {
      const left = {
        ...ofSecond.want,
        members: new Set(['sub_1']),
        formerMembers: new Map([['sub_2', 40n]]),
      };
      expect(kindOf({ held: table(12), want: left, offers: [stale] })).toBe('load');
    });
  });
});

describe('content that failed', () => {
  const failing = offer(6);
  const failed = failure({ content: contentOf(failing.entry) });
  const behind = { held: table(5), want: want({ atLeastVersion: 6 }), failure: failed };

  it('is not fetched again before its time', () => {
    expect(kindOf({ ...behind, offers: [failing] })).toBe('report-failure');
    expect(kindOf({ ...behind, offers: [failing], now: new Date(failed.retryAt.getTime() - 1) })).toBe(
      'report-failure',
    );
    expect(kindOf({ ...behind, offers: [failing], now: failed.retryAt })).toBe('load');
  });

  it('is fetched again where it failed in the future: the clock was wrong then', () => {
    const now = new Date(failed.failedAt.getTime() - 1);
    expect(kindOf({ ...behind, offers: [failing], now })).toBe('load');
  });

  it('is fetched at once where the service names other content of the same version', () => {
    expect(kindOf({ ...behind, offers: [offer(6, { content: 'corrected' })] })).toBe('load');
  });

  it('does not hold a newer version up', () => {
    expect(kindOf({ ...behind, offers: [offer(7)] })).toBe('load');
  });

  it('is told by version and digest, or by the sizes where there is no digest', () => {
    expect(contentOf(entry('a', 1, 'x'))).not.toBe(contentOf(entry('a', 2, 'x')));
    expect(contentOf(entry('a', 1, 'x'))).not.toBe(contentOf(entry('a', 1, 'y')));
    expect(contentOf(entry('a', 1, null))).toBe('version 1, 100 bytes');
  });
});

describe('always', () => {
  const versions = fc.integer({ min: 0, max: 6 });
  const numbers = fc.bigInt({ min: 0n, max: 6n });
  const subscriptionIds = fc.constantFrom('sub_1', 'sub_2', 'sub_3');
  const bySubscription = fc.array(fc.tuple(subscriptionIds, numbers)).map((pairs) => new Map(pairs));
  const contents = fc.constantFrom('a', 'b', null);
  const offers: fc.Arbitrary<readonly Offer[]> = fc
    .uniqueArray(fc.tuple(subscriptionIds, fc.option(numbers), versions, contents), {
      selector: ([name]) => name,
    })
    .map((made) =>
      made.map(([subscriptionId, reflects, version, content]) =>
        offer(version, { subscriptionId, reflects, content }),
      ),
    );
  const wants = fc
    .record({
      members: fc.uniqueArray(subscriptionIds, { minLength: 1 }).map((ids) => new Set(ids)),
      atLeastVersion: fc.option(versions),
      reloadAfter: bySubscription,
      looksAsked: fc.nat(2),
    })
    .map(want);
  const inputs = fc
    .record({
      want: wants,
      held: fc.option(
        fc.tuple(versions, bySubscription).map(([version, reloads]) => table(version, { reloads })),
      ),
      failure: fc.option(fc.constant(failure())),
      offers,
    })
    .map((made) =>
      input({
        ...made,
        offers: made.offers.filter(({ subscriptionId }) => made.want.members.has(subscriptionId)),
      }),
    );
  const holds = (property: fc.IProperty<[PlanInput]>): void =>
    fc.assert(property, { seed: SEED, numRuns: 2_000 });

  it('what is loaded is offered, and at least what is wanted', () => {
    holds(
      fc.property(inputs, (given) => {
        const decided = plan(given);
        if (decided.kind !== 'load') return;
        expect(given.offers).toContain(decided.offer);
        expect(decided.offer.entry.version).toBeGreaterThanOrEqual(given.want.atLeastVersion ?? 0);
      }),
    );
  });

  it('an older version never replaces a newer one but by a reload', () => {
    holds(
      fc.property(inputs, (given) => {
        const decided = plan(given);
        if (decided.kind !== 'load' || given.held === null) return;
        const satisfied = given.held.reloads;
        const isReload = [...given.want.reloadAfter].some(
          ([by, number]) => (satisfied.get(by) ?? -1n) < number,
        );
        if (!isReload) expect(decided.offer.entry.version).toBeGreaterThan(given.held.version);
      }),
    );
  });

  it('a load that succeeds leaves nothing to load: the same offers are not loaded twice', () => {
    holds(
      fc.property(inputs, (given) => {
        const decided = plan(given);
        if (decided.kind !== 'load') return;
        const held = table(decided.offer.entry.version, { reloads: decided.reloads });
        expect(['keep', 'look']).toContain(plan({ ...given, held, failure: null }).kind);
      }),
    );
  });

  it('a hold is reported, whatever else is true', () => {
    holds(
      fc.property(inputs, (given) => {
        expect(plan({ ...given, hold: hold() }).kind).toBe('report-hold');
      }),
    );
  });
});

describe('what a look has found', () => {
  it('raises what is wanted and never lowers it', () => {
    expect(wantAtLeast(want(), 3).atLeastVersion).toBe(3);
    expect(wantAtLeast(want({ atLeastVersion: 2 }), 3).atLeastVersion).toBe(3);
    expect(wantAtLeast(want({ atLeastVersion: 5 }), 3).atLeastVersion).toBe(5);
  });
});
