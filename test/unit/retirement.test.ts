/** Tables that may be retired, tables that wait, and the words for both. */

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

/** Tables by their ids; those in `desiredStates` have these, `unknown` none, the rest are members of sub_1. */
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
  it('allows a retirement once every log was read', () => {
    expect(verdictsOf(input(['a', 'b'], { b: DROPPED }))).toEqual({ b: 'allowed' });
  });

  it('judges only datasets with a table', () => {
    expect(verdictsOf(input(['a'], { b: DROPPED }))).toEqual({});
  });

  it('W16 keeps a table while the log of a subscription is unread, which may contain the dataset by now', () => {
    const unread = { readToHead: new Set(['sub_1']) };
    expect(verdictsOf(input(['b'], { b: DROPPED }, unread))).toEqual({ b: 'logs-unread' });
    expect(verdictsOf(input(['b'], dropped(['b'], { retirementApproved: true }), unread))).toEqual({
      b: 'logs-unread',
    });
  });

  it('waits for a subscription that the mirror names and that is not followed, until it is forgotten', () => {
    const checkpointLost = { followed: new Set(['sub_1']), readToHead: new Set(['sub_1']) };
    expect(verdictsOf(input(['b'], { b: DROPPED }, checkpointLost))).toEqual({ b: 'logs-unread' });
    const givenUp = { ...checkpointLost, forgotten: new Set(['sub_2']) };
    expect(verdictsOf(input(['b'], { b: DROPPED }, givenUp))).toEqual({ b: 'allowed' });
  });

  it('waits for a subscription that was refused before it was ever read, which may contain the dataset', () => {
    const refused = {
      followed: new Set(['sub_1', 'sub_2']),
      suspendedSubscriptions: suspended('sub_3'),
    };
    expect(verdictsOf(input(['b'], { b: DROPPED }, refused))).toEqual({ b: 'logs-unread' });
  });

  it('does not wait for a suspended subscription that never contained the dataset', () => {
    const secondSuspended = { readToHead: new Set(['sub_1']), suspendedSubscriptions: suspended('sub_2') };
    expect(verdictsOf(input(['b'], { b: DROPPED }, secondSuspended))).toEqual({ b: 'allowed' });
    const firstSuspended = { readToHead: new Set(['sub_2']), suspendedSubscriptions: suspended('sub_1') };
    expect(verdictsOf(input(['b'], { b: DROPPED }, firstSuspended))).toEqual({ b: 'logs-unread' });
  });

  it('does not wait for a forgotten subscription', () => {
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

describe('the subscriptions that a retirement waits for', () => {
  function awaitedOf(changed: Partial<RetirementInput>, former: readonly string[] = ['sub_1']) {
    const state = { ...DROPPED, formerMembers: new Map(former.map((id) => [id, formerMember()])) };
    return retirementVerdicts(input(['b'], { b: state }, changed)).awaited.get('b') ?? [];
  }
  const unread = (subscriptionId: string) => ({ subscriptionId, reason: 'log-unread' });
  const suspendedAs = (subscriptionId: string) => ({
    subscriptionId,
    reason: 'suspended',
    ofSubscription: suspension({ kind: 'subscription', subscriptionId }),
  });

  it.each<readonly [string, Partial<RetirementInput>, readonly object[]]>([
    ['no subscription, once every log was read', {}, []],
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
      'a subscription that the mirror names and that is not followed',
      { followed: new Set(['sub_1']), readToHead: new Set(['sub_1']) },
      [unread('sub_2')],
    ],
    [
      'a suspended subscription that the mirror names and that is not followed',
      {
        followed: new Set(['sub_1']),
        readToHead: new Set(['sub_1']),
        suspendedSubscriptions: suspended('sub_2'),
      },
      [suspendedAs('sub_2')],
    ],
    [
      'no forgotten subscription',
      { followed: new Set(['sub_1']), readToHead: new Set(['sub_1']), forgotten: new Set(['sub_2']) },
      [],
    ],
    [
      'a subscription whose log was read, and may have restarted',
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
  ])('W16 waits for %s', (_, changed, expected) => {
    expect(awaitedOf(changed)).toEqual(expected);
  });

  it('W16 names the awaited subscriptions of waiting tables only', () => {
    const given = input(
      ['contained', 'left', 'named', 'of none', 'waiting'],
      {
        left: DROPPED,
        named: DROPPED,
        waiting: { ...DROPPED, formerMembers: new Map([['sub_3', formerMember()]]) },
      },
      {
        unknown: ['of none'],
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

describe('many retirements at once', () => {
  const leaving = names(MASS_RETIREMENT_TABLES);

  it.each([
    ['the retirement of all of nine tables', 9, 0, 'allowed'],
    ['the retirement of ten of twenty tables', 10, 10, 'allowed'],
    ['the retirement of ten of nineteen tables', 10, 9, 'needs-approval'],
    ['the retirement of all of a hundred tables', 100, 0, 'needs-approval'],
  ])('W26 judges %s', (_, going, staying, expected) => {
    const ids = names(going);
    const { verdicts, refusal } = retirementVerdicts(input([...ids, ...names(staying, 's')], dropped(ids)));
    expect(new Set(verdicts.values())).toEqual(new Set([expected]));
    expect(verdicts.size).toBe(going);
    expect(refusal === null).toBe(expected === 'allowed');
  });

  it('suspends mass retirements with a message that names some of the tables', () => {
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
    ['nine after nine, of twenty tables', 9, 2, 9, 'needs-approval'],
    ['one after nine, of ten tables', 1, 0, 9, 'needs-approval'],
    ['one after nine, of twenty tables', 1, 10, 9, 'allowed'],
    ['one after eight, of nine tables', 1, 0, 8, 'allowed'],
  ])('F56 counts retirements within a day: %s', (_, going, staying, retiredLately, expected) => {
    const ids = names(going);
    const given = input([...ids, ...names(staying, 's')], dropped(ids), { retiredLately });
    expect(new Set(Object.values(verdictsOf(given)))).toEqual(new Set([expected]));
  });

  it('W26 F56 counts retirements against all tables, also those that a subscription record names', () => {
    const [ids, staying] = [names(10), names(10, 's')];
    const given = input([...ids, ...staying], dropped(ids), { named: namedBySub1(staying) });
    expect(new Set(Object.values(verdictsOf(given)))).toEqual(new Set(['allowed']));
  });

  it('F84 does not judge tables that the record of a subscription still names', () => {
    const ids = names(2);
    const given = input([...ids, 'of none'], dropped(ids), {
      named: namedBySub1([...ids, 'of none']),
      unknown: ['of none'],
    });
    expect(verdictsOf(given)).toEqual({});
    expect(orphansOf(given)).toEqual([]);
  });

  it('F56 names the earlier retirements of the day in the message of the suspension', () => {
    const ids = names(9);
    const { refusal } = retirementVerdicts(
      input([...ids, ...names(2, 's')], dropped(ids), { retiredLately: 9 }),
    );
    expect(refusal?.message).toBe(
      '9 of 11 tables are in no subscription any more: d000, d001, d002, d003, d004 and 4 more. ' +
        '9 more went within the last 24 hours. They stay until an operator agrees.',
    );
  });

  it('retires approved tables, and counts those that leave later separately', () => {
    const agreed = dropped(leaving, { retirementApproved: true });
    expect(retirementVerdicts(input(leaving, agreed)).refusal).toBeNull();
    const later = names(9, 'later');
    const verdicts = verdictsOf(input([...leaving, ...later], { ...agreed, ...dropped(later) }));
    expect(new Set(Object.values(verdicts))).toEqual(new Set(['allowed']));
  });

  it('counts no table that waits for a log', () => {
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

  it('never retires more than half of the mirror without approval, nor more than nine tables of a small one', () => {
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

  it('W31 finds a table without a desired state, once every subscription that the destination names was read', () => {
    expect(orphansOf(input(['a', 'c', 'b'], {}, { unknown: ['c', 'b'] }))).toEqual([table('b'), table('c')]);
    expect(orphansOf(input(['a'], { a: DROPPED }))).toEqual([]);
  });

  it.each<readonly [string, Partial<RetirementInput>]>([
    [
      'a subscription of the destination was not read',
      { readToHead: new Set(['sub_1']), followed: new Set(['sub_1']) },
    ],
    [
      'a subscription of the destination is suspended',
      { readToHead: new Set(['sub_1']), suspendedSubscriptions: suspended('sub_2') },
    ],
    ['the log of a subscription of the destination may have restarted', { doubted: new Set(['sub_2']) }],
    ['a followed subscription was not read', { followed: new Set(['sub_1', 'sub_2', 'sub_3']) }],
    [
      'no subscription was read',
      { readToHead: new Set(), followed: new Set(), forgotten: new Set(['sub_1', 'sub_2']) },
    ],
  ])('W31 judges no orphan while %s', (_, changed) => {
    expect(orphansOf(input(['a', 'b'], {}, { unknown: ['b'], ...changed }))).toBeNull();
  });

  it('W31 does not wait for a forgotten subscription', () => {
    const rest = new Set(['sub_1']);
    const given = { unknown: ['b'], followed: rest, readToHead: rest, forgotten: new Set(['sub_2']) };
    expect(orphansOf(input(['a', 'b'], {}, given))).toEqual([table('b')]);
  });
});

describe('the reason of a retirement', () => {
  it('names every subscription that dropped the dataset, with the stated reason', () => {
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

describe('the reloads that a retired table owes', () => {
  it('W7 owes a reload as of each drop, by its event number or the newest event that was read', () => {
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
