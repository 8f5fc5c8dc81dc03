/** The small pure rules of a catch-up: need, state, failures, choices, ownership. */

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Held } from '../../src/destination/destination.ts';
import { DataError, ServiceUnavailableError } from '../../src/model/errors.ts';
import { failureOf, SAME_CONTENT_AGAIN_AFTER_MS } from '../../src/sync/failures.ts';
import { needOf, pendingReloads } from '../../src/sync/need.ts';
import { refuseForeignMirror } from '../../src/sync/ownership.ts';
import { chosenSubscriptions, isChosenDataset } from '../../src/sync/selection.ts';
import { stateOf } from '../../src/sync/state.ts';
import { SEED } from '../support/seed.ts';
import { failure, hold, NOW, subscription, table, want } from '../support/sync-values.ts';

describe('what a dataset needs', () => {
  it.each([
    [
      'a table, before all else',
      null,
      want({ looksAsked: 1, reloadAfter: new Map([['sub_1', 1n]]) }),
      'table',
    ],
    ['a reload', table(5), want({ atLeastVersion: 6, reloadAfter: new Map([['sub_1', 1n]]) }), 'reload'],
    ['a version', table(5), want({ atLeastVersion: 6, looksAsked: 1 }), 'version'],
    ['a look', table(5), want({ atLeastVersion: 5, looksAsked: 3, looksDone: 2 }), 'look'],
    ['nothing', table(5), want({ atLeastVersion: 5, looksAsked: 3, looksDone: 3 }), 'nothing'],
    ['nothing, where it is ahead', table(7), want({ atLeastVersion: 5 }), 'nothing'],
  ])('%s', (_, held, wanted, need) => {
    expect(needOf(held, wanted)).toBe(need);
  });

  it('counts a reload as pending until the table satisfies its event, in its own subscription', () => {
    const wanted = want({
      reloadAfter: new Map([
        ['sub_1', 9n],
        ['sub_2', 10n],
        ['sub_3', 9_223_372_036_854_775_807n],
      ]),
    });
    const held = table(5, {
      reloads: new Map([
        ['sub_1', 9n],
        ['sub_2', 9n],
        ['sub_3', 9_223_372_036_854_775_806n],
      ]),
    });
    expect([...pendingReloads(held, wanted).keys()]).toEqual(['sub_2', 'sub_3']);
    expect(pendingReloads(null, wanted)).toEqual(wanted.reloadAfter);
  });
});

describe('the state of a dataset', () => {
  const known = { want: want(), held: table(5), hold: hold(), failure: failure() };
  it.each([
    ['retired', { ...known, want: want({ members: new Set() }) }],
    ['held', known],
    ['failed', { ...known, hold: null }],
    ['live', { ...known, hold: null, failure: null }],
    ['absent', { ...known, hold: null, failure: null, held: null }],
  ])('%s', (kind, given) => {
    expect(stateOf(given).kind).toBe(kind);
  });
});

describe('a failure', () => {
  const bad = new DataError('The file is broken.', { hint: 'Tell the service.' });
  const unreachable = new ServiceUnavailableError('unreachable');

  it('of content is tried again after a day, and remembers the content', () => {
    expect(failureOf('parcels', bad, 'version 3', null, NOW)).toEqual({
      datasetId: 'parcels',
      error: 'DataError',
      message: 'The file is broken.',
      hint: 'Tell the service.',
      content: 'version 3',
      attempts: 1,
      failedAt: NOW,
      retryAt: new Date(NOW.getTime() + SAME_CONTENT_AGAIN_AFTER_MS),
    });
  });

  it('of anything else is tried again soon, and remembers no content', () => {
    expect(failureOf('parcels', unreachable, 'version 3', null, NOW)).toMatchObject({
      content: null,
      retryAt: new Date(NOW.getTime() + 60_000),
    });
    expect(failureOf('parcels', bad, null, null, NOW)).toMatchObject({ content: null });
  });

  it('waits twice as long each time, an hour at the most', () => {
    fc.assert(
      fc.property(fc.nat(5_000), (attempts) => {
        const { retryAt, attempts: counted } = failureOf(
          'parcels',
          unreachable,
          null,
          failure({ attempts }),
          NOW,
        );
        const waitMs = retryAt.getTime() - NOW.getTime();
        expect(counted).toBe(attempts + 1);
        expect(waitMs).toBe(Math.min(3_600_000, 60_000 * 2 ** attempts));
      }),
      { seed: SEED },
    );
  });
});

describe('chosen datasets', () => {
  it.each([
    ['all where nothing is said', 'tx-parcels', [], [], true],
    ['those that a glob includes', 'tx-parcels', ['tx-*'], [], true],
    ['none that no glob includes', 'ca-parcels', ['tx-*', '*-permits'], [], false],
    ['none that a glob excludes', 'tx-parcels', ['tx-*'], ['*-parcels'], false],
    ['only by the whole id', 'tx-parcels', ['parcels'], [], false],
    ['only by the very letters', 'TX-parcels', ['tx-*'], [], false],
    ['ids with what means something in patterns', 'a.b+c(d)[e]', ['a.b+c(d)*'], [], true],
    ['none by a dot that means any letter', 'axb', ['a.b'], [], false],
    ['an id with line breaks', 'a\nb', ['a*'], [], true],
  ])('%s', (_, datasetId, include, exclude, expected) => {
    expect(isChosenDataset(datasetId, include, exclude)).toBe(expected);
  });
});

describe('chosen subscriptions', () => {
  const seen = [
    subscription(),
    subscription({ id: 'sub_2', name: 'Harris' }),
    subscription({ id: 'sub_3', name: null }),
  ];

  it('are all, or those named by id or name', () => {
    expect(chosenSubscriptions(seen, null)).toEqual(seen);
    expect(chosenSubscriptions(seen, ['Harris', 'sub_3']).map(({ id }) => id)).toEqual(['sub_2', 'sub_3']);
    expect(chosenSubscriptions(seen, [])).toEqual([]);
  });

  it('must be seen by the key', () => {
    expect(() => chosenSubscriptions(seen, ['sub_2', 'sub_9', 'Bexar'])).toThrow(
      expect.objectContaining({
        name: 'ConfigurationError',
        message: 'subscriptions names sub_9, Bexar, which this API key cannot see.',
        hint: 'It sees: sub_1 (Travis), sub_2 (Harris), sub_3. Name one of these, or leave the setting out for all.',
      }),
    );
    expect(() => chosenSubscriptions([], ['sub_9'])).toThrow(
      expect.objectContaining({ hint: expect.stringContaining('It sees: none.') }),
    );
  });
});

describe('a mirror', () => {
  const mirrorOf = (origin: string, ...subscriptionIds: string[]): Held => ({
    service: { origin, subscriptionIds },
    datasets: new Map(),
  });
  const here = 'https://feed.example';

  it('that is new belongs to nobody', () => {
    expect(() => refuseForeignMirror({ service: null, datasets: new Map() }, here, [])).not.toThrow();
  });

  it('is used where one of its subscriptions is seen', () => {
    expect(() => refuseForeignMirror(mirrorOf(here, 'sub_0', 'sub_1'), here, [subscription()])).not.toThrow();
    expect(() => refuseForeignMirror(mirrorOf(here), here, [])).not.toThrow();
  });

  it.each([
    [
      'another service',
      mirrorOf('https://other.example', 'sub_1'),
      'The mirror belongs to the service at https://other.example, not to https://feed.example.',
    ],
    [
      'other subscriptions altogether',
      mirrorOf(here, 'sub_8', 'sub_9'),
      'The mirror belongs to the subscriptions sub_8, sub_9, and this API key sees none of them.',
    ],
  ])('of %s is refused', (_, held, message) => {
    expect(() => refuseForeignMirror(held, here, [subscription()])).toThrow(
      expect.objectContaining({
        name: 'ConfigurationError',
        message,
        hint: expect.stringContaining('dataDir'),
      }),
    );
  });
});
