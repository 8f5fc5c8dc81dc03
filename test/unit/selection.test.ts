/** The chosen datasets and subscriptions, missing subscriptions, and mirrors of other services. */

import { describe, expect, it } from 'vitest';
import type { ObservedState } from '../../src/destination/destination.ts';
import {
  chosenSubscriptions,
  isChosenDataset,
  refuseForeignMirror,
} from '../../src/sync/follow/subscriptions.ts';
import { subscription } from '../support/sync-values.ts';

const NONE: ReadonlyMap<string, string | null> = new Map();

describe('chosen datasets', () => {
  it.each([
    ['every dataset without a setting', 'tx-parcels', [], [], true],
    ['a dataset that a glob includes', 'tx-parcels', ['tx-*'], [], true],
    ['a dataset that no glob includes', 'ca-parcels', ['tx-*', '*-permits'], [], false],
    ['a dataset that a glob excludes', 'tx-parcels', ['tx-*'], ['*-parcels'], false],
    ['a glob for a part of the id', 'tx-parcels', ['parcels'], [], false],
    ['a glob in other case', 'TX-parcels', ['tx-*'], [], false],
    ['an id with characters of patterns', 'a.b+c(d)[e]', ['a.b+c(d)*'], [], true],
    ['a dot as a plain character', 'axb', ['a.b'], [], false],
    ['an id with line breaks', 'a\nb', ['a*'], [], true],
  ])('judges whether a dataset is chosen: %s', (_, datasetId, include, exclude, expected) => {
    expect(isChosenDataset(datasetId, include, exclude)).toBe(expected);
  });
});

describe('chosen subscriptions', () => {
  const seen = [
    subscription(),
    subscription({ id: 'sub_2', name: 'Harris' }),
    subscription({ id: 'sub_3', name: null }),
  ];

  it('chooses all subscriptions, or those named by id or name', () => {
    expect(chosenSubscriptions(seen, null, NONE)).toEqual(seen);
    expect(chosenSubscriptions(seen, ['Harris', 'sub_3'], NONE).map(({ id }) => id)).toEqual([
      'sub_2',
      'sub_3',
    ]);
    expect(chosenSubscriptions(seen, [], NONE)).toEqual([]);
  });

  it('refuses a setting that names subscriptions that the key cannot see', () => {
    expect(() => chosenSubscriptions(seen, ['sub_2', 'sub_9', 'Bexar'], NONE)).toThrow(
      expect.objectContaining({
        name: 'ConfigurationError',
        message: 'The setting subscriptions names sub_9, Bexar, which this API key cannot see.',
        hint: 'It sees: sub_1 (Travis), sub_2 (Harris), sub_3. Name one of these, or leave the setting out for all.',
      }),
    );
    expect(() => chosenSubscriptions([], ['sub_9'], NONE)).toThrow(
      expect.objectContaining({ hint: expect.stringContaining('It sees: none.') }),
    );
  });

  it.each([
    ['by its id', 'sub_8'],
    ['by its name', 'Bexar'],
    ['by the id that only the mirror has', 'sub_7'],
  ])('accepts a missing subscription in the setting %s', (_, by) => {
    const before = new Map([
      ['sub_7', null],
      ['sub_8', 'Bexar'],
    ]);
    expect(chosenSubscriptions(seen, [by, 'sub_2'], before).map(({ id }) => id)).toEqual(['sub_2']);
    expect(() => chosenSubscriptions(seen, [by, 'sub_9'], before)).toThrow(
      'The setting subscriptions names sub_9, which',
    );
  });

  it('counts a renamed subscription as missing under its old name', () => {
    expect(chosenSubscriptions(seen, ['Travis of old'], new Map([['sub_1', 'Travis of old']]))).toEqual([]);
  });
});

describe('the mirror of another service', () => {
  const mirrorOf = (origin: string, ...subscriptionIds: string[]): ObservedState => ({
    service: { origin, subscriptionIds },
    datasets: new Map(),
    progress: null,
    retired: [],
  });
  const here = 'https://feed.example';

  it('accepts a new mirror', () => {
    expect(() =>
      refuseForeignMirror({ service: null, progress: null, datasets: new Map(), retired: [] }, here, [], []),
    ).not.toThrow();
  });

  it('accepts a mirror where one of its subscriptions is listed', () => {
    expect(() =>
      refuseForeignMirror(mirrorOf(here, 'sub_0', 'sub_1'), here, [subscription()], []),
    ).not.toThrow();
    expect(() => refuseForeignMirror(mirrorOf(here), here, [], [])).not.toThrow();
  });

  it('accepts a mirror whose subscriptions were all forgotten', () => {
    const observed = mirrorOf(here, 'sub_8', 'sub_9');
    expect(() => refuseForeignMirror(observed, here, [subscription()], ['sub_8', 'sub_9'])).not.toThrow();
    expect(() => refuseForeignMirror(observed, here, [subscription()], ['sub_8'])).toThrow(
      'subscriptions sub_9,',
    );
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
  ])('W29 refuses a mirror of %s', (_, observed, message) => {
    expect(() => refuseForeignMirror(observed, here, [subscription()], [])).toThrow(
      expect.objectContaining({
        name: 'ConfigurationError',
        message,
        hint: expect.stringContaining('dataDir'),
      }),
    );
  });
});
