/** Which tables may go, which wait, and what is told of it. */

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { DesiredState } from '../../src/model/desired-state.ts';
import {
  MASS_RETIREMENT_TABLES,
  orphansOf,
  type RetirementInput,
  reloadsOfRetired,
  retirementReason,
  retirementVerdicts,
} from '../../src/sync/plan/retirement.ts';
import { SEED } from '../support/seed.ts';
import { desired, formerMember, id, LONG_AGO, NOW, suspension, table } from '../support/sync-values.ts';

const DROPPED: Partial<DesiredState> = {
  members: new Map(),
  formerMembers: new Map([['sub_1', formerMember({ eventNumber: 7n })]]),
};

/** Tables by their ids; those named in `wants` are wanted so, `unknown` by nobody, the rest by sub_1. */
function input(
  ids: readonly string[],
  desiredStates: Readonly<Record<string, Partial<DesiredState>>>,
  changed: Partial<RetirementInput> & { unknown?: readonly string[] } = {},
): RetirementInput {
  const { unknown = [], ...rest } = changed;
  const known = [...new Set([...ids, ...Object.keys(desiredStates)])].filter((id) => !unknown.includes(id));
  return {
    desiredStates: new Map(
      known.map((datasetId) => [datasetId, desired({ datasetId, ...desiredStates[datasetId] })]),
    ),
    observed: {
      service: { origin: 'https://feed.example', subscriptionIds: ['sub_1', 'sub_2'] },
      datasets: new Map(ids.map((datasetId) => [datasetId, table(1, { datasetId })])),
      progress: null,
      retired: [],
    },
    named: new Map(),
    retiredLately: 0,
    followed: new Set(['sub_1', 'sub_2']),
    suspendedSubscriptions: new Map(),
    readToHead: new Set(['sub_1', 'sub_2']),
    doubted: new Set(),
    forgotten: new Set(),
    ...rest,
  };
}

function suspended(...ids: readonly string[]): RetirementInput['suspendedSubscriptions'] {
  return new Map(
    ids.map((subscriptionId) => [subscriptionId, suspension({ kind: 'subscription', subscriptionId })]),
  );
}

function namedBySub1(ids: readonly string[]): RetirementInput['named'] {
  return new Map(ids.map((datasetId) => [datasetId, ['sub_1']]));
}

function verdictsOf(given: RetirementInput): Readonly<Record<string, string>> {
  return Object.fromEntries(retirementVerdicts(given).verdicts);
}

function names(count: number, prefix = 'd'): readonly string[] {
  return Array.from({ length: count }, (_, index) => `${prefix}${String(index).padStart(3, '0')}`);
}

function dropped(
  ids: readonly string[],
  changed: Partial<DesiredState> = {},
): Readonly<Record<string, Partial<DesiredState>>> {
  return Object.fromEntries(ids.map((id) => [id, { ...DROPPED, ...changed }]));
}

describe('a table that no subscription contains', () => {
  it('may go once every log was read', () => {
    expect(verdictsOf(input(['a', 'b'], { b: DROPPED }))).toEqual({ b: 'allowed' });
  });

  it('is only told of where there is a table', () => {
    expect(verdictsOf(input(['a'], { b: DROPPED }))).toEqual({});
  });

  it('W16 stays while the log of a subscription is unread: it may hold the dataset by now', () => {
    const unread = { readToHead: new Set(['sub_1']) };
    expect(verdictsOf(input(['b'], { b: DROPPED }, unread))).toEqual({ b: 'logs-unread' });
    expect(verdictsOf(input(['b'], dropped(['b'], { retirementApproved: true }), unread))).toEqual({
      b: 'logs-unread',
    });
  });

  it('waits for a subscription that the mirror names and nobody follows: what it holds is forgotten', () => {
    const checkpointLost = { followed: new Set(['sub_1']), readToHead: new Set(['sub_1']) };
    expect(verdictsOf(input(['b'], { b: DROPPED }, checkpointLost))).toEqual({ b: 'logs-unread' });
    const givenUp = { ...checkpointLost, forgotten: new Set(['sub_2']) };
    expect(verdictsOf(input(['b'], { b: DROPPED }, givenUp))).toEqual({ b: 'allowed' });
  });

  it('waits for a subscription that was refused before it was ever read: it may hold the dataset', () => {
    const refused = {
      followed: new Set(['sub_1', 'sub_2']),
      suspendedSubscriptions: suspended('sub_3'),
    };
    expect(verdictsOf(input(['b'], { b: DROPPED }, refused))).toEqual({ b: 'logs-unread' });
  });

  it('does not wait for a subscription that is held, unless that one held it', () => {
    const secondHeld = { readToHead: new Set(['sub_1']), suspendedSubscriptions: suspended('sub_2') };
    expect(verdictsOf(input(['b'], { b: DROPPED }, secondHeld))).toEqual({ b: 'allowed' });
    const firstHeld = { readToHead: new Set(['sub_2']), suspendedSubscriptions: suspended('sub_1') };
    expect(verdictsOf(input(['b'], { b: DROPPED }, firstHeld))).toEqual({ b: 'logs-unread' });
  });

  it('does not wait for a subscription that was given up', () => {
    const followed = new Set(['sub_2']);
    const givenUp = { followed, readToHead: followed, forgotten: new Set(['sub_1']) };
    expect(verdictsOf(input(['b'], { b: DROPPED }, givenUp))).toEqual({
      b: 'allowed',
    });
    const forgotten = { members: new Map(), formerMembers: new Map() };
    expect(verdictsOf(input(['b'], { b: forgotten }, givenUp))).toEqual({
      b: 'allowed',
    });
  });
});

describe('what the retirement of a table waits for', () => {
  function awaitedOf(changed: Partial<RetirementInput>, former: readonly string[] = ['sub_1']) {
    const wanted = { ...DROPPED, formerMembers: new Map(former.map((id) => [id, formerMember()])) };
    return retirementVerdicts(input(['b'], { b: wanted }, changed)).awaited.get('b') ?? [];
  }
  const unread = (subscriptionId: string) => ({ subscriptionId, reason: 'log-unread' });
  const suspendedAs = (subscriptionId: string) => ({
    subscriptionId,
    reason: 'suspended',
    ofSubscription: suspension({ kind: 'subscription', subscriptionId }),
  });

  it.each<readonly [string, Partial<RetirementInput>, readonly object[]]>([
    ['nothing, once every log was read', {}, []],
    [
      'every subscription that is followed and was not read',
      { readToHead: new Set() },
      ['sub_1', 'sub_2'].map(unread),
    ],
    [
      'a suspended subscription that contained the dataset',
      { suspendedSubscriptions: suspended('sub_1'), readToHead: new Set(['sub_2']) },
      [suspendedAs('sub_1')],
    ],
    [
      'no suspended subscription that is followed and never contained the dataset',
      { suspendedSubscriptions: suspended('sub_2'), readToHead: new Set(['sub_1']) },
      [],
    ],
    [
      'a suspended subscription that was never read',
      { suspendedSubscriptions: suspended('sub_3') },
      [suspendedAs('sub_3')],
    ],
    [
      'a subscription that the mirror names and nobody follows',
      { followed: new Set(['sub_1']), readToHead: new Set(['sub_1']) },
      [unread('sub_2')],
    ],
    [
      'the same, suspended',
      {
        followed: new Set(['sub_1']),
        readToHead: new Set(['sub_1']),
        suspendedSubscriptions: suspended('sub_2'),
      },
      [suspendedAs('sub_2')],
    ],
    [
      'no subscription that was given up',
      { followed: new Set(['sub_1']), readToHead: new Set(['sub_1']), forgotten: new Set(['sub_2']) },
      [],
    ],
    [
      'a subscription whose log was read, and may have begun anew',
      { doubted: new Set(['sub_2']) },
      [{ subscriptionId: 'sub_2', reason: 'log-in-doubt' }],
    ],
    [
      'a subscription whose record still names the dataset',
      { named: new Map([['b', ['sub_2']]]) },
      [{ subscriptionId: 'sub_2', reason: 'record-names-dataset' }],
    ],
    [
      'each subscription once, in order of id',
      {
        named: new Map([['b', ['sub_3', 'sub_2', 'sub_1']]]),
        suspendedSubscriptions: suspended('sub_3'),
        readToHead: new Set(['sub_1']),
      },
      [{ subscriptionId: 'sub_1', reason: 'record-names-dataset' }, unread('sub_2'), suspendedAs('sub_3')],
    ],
  ])('W16 is %s', (_, changed, expected) => {
    expect(awaitedOf(changed)).toEqual(expected);
  });

  it('W16 is told exactly of the tables that wait: of those that may go, or that are contained, nothing is', () => {
    const given = input(
      ['contained', 'left', 'named', 'of nobody', 'waiting'],
      {
        left: DROPPED,
        named: DROPPED,
        waiting: { ...DROPPED, formerMembers: new Map([['sub_3', formerMember()]]) },
      },
      {
        unknown: ['of nobody'],
        named: namedBySub1(['named']),
        followed: new Set(['sub_1', 'sub_2', 'sub_3']),
        suspendedSubscriptions: suspended('sub_3'),
      },
    );
    const { verdicts, awaited } = retirementVerdicts(given);
    expect([...awaited.keys()]).toEqual(['named', 'waiting']);
    expect(Object.fromEntries(verdicts)).toEqual({ left: 'allowed', waiting: 'logs-unread' });
  });
});

describe('many at once', () => {
  const leaving = names(MASS_RETIREMENT_TABLES);

  it.each([
    ['fewer than ten, though all there are: go', 9, 0, 'allowed'],
    ['ten, and half of all: go', 10, 10, 'allowed'],
    ['ten, and more than half: wait for a person', 10, 9, 'needs-approval'],
    ['all of a hundred: wait for a person', 100, 0, 'needs-approval'],
  ])('W26 %s', (_, going, staying, expected) => {
    const ids = names(going);
    const { verdicts, refusal } = retirementVerdicts(input([...ids, ...names(staying, 's')], dropped(ids)));
    expect(new Set(verdicts.values())).toEqual(new Set([expected]));
    expect(verdicts.size).toBe(going);
    expect(refusal === null).toBe(expected === 'allowed');
  });

  it('are held with a message that names some of them', () => {
    const { refusal } = retirementVerdicts(input(leaving, dropped(leaving)));
    expect(refusal).toEqual({
      scope: { kind: 'retirement' },
      operation: 'retire datasets',
      status: null,
      code: 'mass_retirement',
      message:
        '10 of 10 tables are in no subscription any more: d000, d001, d002, d003, d004 and 5 more. ' +
        'They stay until an operator agrees.',
      links: new Map(),
    });
  });

  it.each([
    ['nine leave after nine, of twenty tables: wait', 9, 2, 9, 'needs-approval'],
    ['one leaves after nine, of ten: waits', 1, 0, 9, 'needs-approval'],
    ['one leaves after nine, of twenty: goes', 1, 10, 9, 'allowed'],
    ['one leaves after eight, of nine: goes', 1, 0, 8, 'allowed'],
  ])('F56 count those that went within a day: %s', (_, going, staying, retiredLately, expected) => {
    const ids = names(going);
    const given = input([...ids, ...names(staying, 's')], dropped(ids), { retiredLately });
    expect(new Set(Object.values(verdictsOf(given)))).toEqual(new Set([expected]));
  });

  it('W26 F56 count against all tables, also those that the record of a subscription names', () => {
    const [ids, staying] = [names(10), names(10, 's')];
    const given = input([...ids, ...staying], dropped(ids), { named: namedBySub1(staying) });
    expect(new Set(Object.values(verdictsOf(given)))).toEqual(new Set(['allowed']));
  });

  it('F84 are not judged where the record of a subscription still names them', () => {
    const ids = names(2);
    const given = input([...ids, 'of nobody'], dropped(ids), {
      named: namedBySub1([...ids, 'of nobody']),
      unknown: ['of nobody'],
    });
    expect(verdictsOf(given)).toEqual({});
    expect(orphansOf(given)).toEqual([]);
  });

  it('F56 are held with a message that tells of those that went before', () => {
    const ids = names(9);
    const { refusal } = retirementVerdicts(
      input([...ids, ...names(2, 's')], dropped(ids), { retiredLately: 9 }),
    );
    expect(refusal?.message).toBe(
      '9 of 11 tables are in no subscription any more: d000, d001, d002, d003, d004 and 4 more. ' +
        '9 more went within the last 24 hours. They stay until an operator agrees.',
    );
  });

  it('go once a person has agreed, and those that leave later are counted anew', () => {
    const agreed = dropped(leaving, { retirementApproved: true });
    expect(retirementVerdicts(input(leaving, agreed)).refusal).toBeNull();
    const later = names(9, 'later');
    const verdicts = verdictsOf(input([...leaving, ...later], { ...agreed, ...dropped(later) }));
    expect(new Set(Object.values(verdicts))).toEqual(new Set(['allowed']));
  });

  it('are counted without those that wait for a log', () => {
    const unread = dropped(['x'], { formerMembers: new Map([['sub_3', formerMember()]]) });
    const given = input([...leaving.slice(1), 'x'], { ...dropped(leaving.slice(1)), ...unread });
    const followed = new Set(['sub_1', 'sub_2', 'sub_3']);
    const { verdicts, refusal } = retirementVerdicts({
      ...given,
      followed,
      suspendedSubscriptions: suspended('sub_3'),
    });
    expect(verdicts.get('x')).toBe('logs-unread');
    expect(refusal).toBeNull();
  });

  it('never cost more than half of the mirror, nor more than nine tables of a small one, unasked', () => {
    fc.assert(
      fc.property(fc.nat(40), fc.nat(40), (going, staying) => {
        const ids = names(going);
        const { verdicts } = retirementVerdicts(input([...ids, ...names(staying, 's')], dropped(ids)));
        const gone = [...verdicts.values()].filter((kind) => kind === 'allowed').length;
        expect(gone < MASS_RETIREMENT_TABLES || gone <= (going + staying) / 2).toBe(true);
        expect(gone === 0 || gone === going).toBe(true);
      }),
      { seed: SEED },
    );
  });
});

describe('an orphan', () => {
  const table = (datasetId: string) => ({ kind: 'table', datasetId });

  it('W31 is a table that no want knows, once all that the destination has seen was read', () => {
    expect(orphansOf(input(['a', 'c', 'b'], {}, { unknown: ['c', 'b'] }))).toEqual([table('b'), table('c')]);
    expect(orphansOf(input(['a'], { a: DROPPED }))).toEqual([]);
  });

  it.each<readonly [string, Partial<RetirementInput>]>([
    ['one that it has seen was not read', { readToHead: new Set(['sub_1']), followed: new Set(['sub_1']) }],
    [
      'one that it has seen is held',
      { readToHead: new Set(['sub_1']), suspendedSubscriptions: suspended('sub_2') },
    ],
    ['the log of one that it has seen may have begun anew', { doubted: new Set(['sub_2']) }],
    ['one that is followed was not read', { followed: new Set(['sub_1', 'sub_2', 'sub_3']) }],
    ['none was read', { readToHead: new Set(), followed: new Set(), forgotten: new Set(['sub_1', 'sub_2']) }],
  ])('W31 is not known as long as %s: what was noted before stands', (_, changed) => {
    expect(orphansOf(input(['a', 'b'], {}, { unknown: ['b'], ...changed }))).toBeNull();
  });

  it('W31 does not wait for a subscription that was given up', () => {
    const rest = new Set(['sub_1']);
    const given = { unknown: ['b'], followed: rest, readToHead: rest, forgotten: new Set(['sub_2']) };
    expect(orphansOf(input(['a', 'b'], {}, given))).toEqual([table('b')]);
  });
});

describe('the reason', () => {
  it('names every subscription that has dropped the dataset, with its word for why', () => {
    const formerMembers = new Map([
      ['sub_2', formerMember()],
      ['sub_1', formerMember({ eventNumber: 7n, reason: 'left_coverage' })],
    ]);
    expect(retirementReason(desired({ formerMembers }))).toBe(
      'left subscription sub_1: left_coverage, left subscription sub_2',
    );
    expect(retirementReason(desired())).toBe('no subscription contains it');
  });
});

describe('what a table from before the retirement owes', () => {
  it('W7 is a reload as of each drop, by the number of its event, or of the newest one that was read', () => {
    const formerMembers = new Map([
      ['sub_1', formerMember({ eventNumber: 7n, at: NOW })],
      ['sub_2', formerMember()],
      ['sub_3', formerMember()],
    ]);
    const followed = new Map([
      ['sub_1', { logNumber: 2, cursor: id(9) }],
      ['sub_2', { logNumber: 1, cursor: id(4) }],
    ]);
    expect(reloadsOfRetired(desired({ formerMembers }), followed)).toMatchObject([
      { subscriptionId: 'sub_1', logNumber: 2, eventNumber: 7n, createdAt: NOW },
      { subscriptionId: 'sub_2', logNumber: 1, eventNumber: 4n, createdAt: LONG_AGO },
    ]);
  });
});
