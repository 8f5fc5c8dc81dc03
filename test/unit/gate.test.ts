/** The gate: the changes that a commit may make before an operator has to approve it. */

import { describe, expect, it } from 'vitest';
import {
  type GateLimits,
  hasLimits,
  isRekeyed,
  judge,
  NO_LIMITS,
  type RowLimit,
  rowCountsOf,
} from '../../src/model/gate.ts';

const rows = (limit: number): RowLimit => ({ rows: limit, share: null });
const share = (limit: number): RowLimit => ({ rows: null, share: limit });

/** 1,000 rows, of which some are removed, changed or added. */
function counts({ removed = 0, changed = 0 as number | null, added = 0, before = 1_000 }) {
  return rowCountsOf(before, before + added - removed, { added, changed, removed });
}

function exceeded(limits: Partial<GateLimits>, given: Parameters<typeof counts>[0]) {
  const judgement = judge(counts(given), { ...NO_LIMITS, ...limits });
  return judgement.kind === 'awaiting' ? judgement.exceeded : [];
}

describe('the limits of the gate', () => {
  it.each([
    ['a number as exceeded by one row more', rows(10), { removed: 11 }, true],
    ['a number as not exceeded by as many rows', rows(10), { removed: 10 }, false],
    ['0 as exceeded by any removal', rows(0), { removed: 1 }, true],
    ['a share as that of the rows before', share(0.25), { removed: 251 }, true],
    ['a share as not exceeded by just that share', share(0.25), { removed: 250, added: 5_000 }, false],
    [
      'a share that is no exact double as not exceeded by just that share',
      share(29 / 100),
      { before: 100, removed: 29 },
      false,
    ],
    [
      'a share with decimals as not exceeded by just that share',
      share(0.57 / 100),
      { before: 10_000, removed: 57 },
      false,
    ],
    [
      'a share with decimals as exceeded by one row more',
      share(0.57 / 100),
      { before: 10_000, removed: 58 },
      true,
    ],
    [
      'a number and a share as not exceeded by the number alone',
      { rows: 10, share: 0.25 },
      { removed: 250 },
      false,
    ],
    [
      'a number and a share as not exceeded by the share alone',
      { rows: 600, share: 0.25 },
      { removed: 600 },
      false,
    ],
    ['a number and a share as exceeded by both', { rows: 10, share: 0.25 }, { removed: 251 }, true],
    ['a share as not exceeded by an empty table', share(0), { before: 0, added: 9 }, false],
  ])('judges %s', (_, removedRows, given, isExceeded) => {
    expect(exceeded({ removedRows }, given)).toEqual(isExceeded ? ['removedRows'] : []);
  });

  it('counts changed rows apart from removed ones, and names every limit that is exceeded', () => {
    const limits = { removedRows: rows(1), changedRows: share(0.1) };
    expect(exceeded(limits, { changed: 101 })).toEqual(['changedRows']);
    expect(exceeded(limits, { changed: 101, removed: 2 })).toEqual(['removedRows', 'changedRows']);
  });

  it('suspends a table that loses all rows, however few they are', () => {
    expect(exceeded({ emptied: true }, { before: 3, removed: 3 })).toEqual(['emptied']);
    expect(exceeded({ emptied: true }, { before: 3, removed: 2 })).toEqual([]);
    expect(exceeded({ emptied: true }, { before: 0 })).toEqual([]);
  });

  it('suspends nothing by default, without any limits', () => {
    expect(hasLimits(NO_LIMITS)).toBe(false);
    expect(exceeded({}, { removed: 1_000, changed: 0 })).toEqual([]);
    expect(hasLimits({ ...NO_LIMITS, emptied: true })).toBe(true);
  });
});

describe('a table whose rows have no common key', () => {
  it('F68 counts removed rows by the loss of rows, and leaves the unknown number of changed rows unjudged', () => {
    expect(rowCountsOf(100, 60, null)).toMatchObject({
      removed: 40,
      added: 0,
      changed: null,
      isByKey: false,
    });
    expect(rowCountsOf(100, 130, null)).toMatchObject({ removed: 0, added: 30, changed: null });
    const limits = { removedRows: share(0.25), changedRows: rows(0), emptied: false };
    expect(judge(rowCountsOf(100, 60, null), limits)).toEqual({
      kind: 'awaiting',
      exceeded: ['removedRows'],
    });
    expect(judge(rowCountsOf(100, 130, null), limits)).toEqual({ kind: 'allowed' });
  });
});

describe('a commit without limits', () => {
  it.each([
    ['a quarter of a table of 1,000 rows', { removed: 250 }, 'allowed'],
    ['more than a quarter of a table of 1,000 rows', { removed: 251 }, 'warn'],
    ['all of a smaller table', { before: 999, removed: 999 }, 'allowed'],
    ['nothing, though every row is changed', { changed: 1_000 }, 'allowed'],
  ])('judges a commit that removes %s: %j', (_, given, kind) => {
    expect(judge(counts(given), NO_LIMITS)).toEqual({ kind });
  });
});

describe('a re-keyed table', () => {
  it('recognises a re-keyed table by the loss of every key and at least one new key', () => {
    expect(isRekeyed(counts({ removed: 1_000, added: 990 }))).toBe(true);
    expect(isRekeyed(counts({ removed: 999, added: 999 }))).toBe(false);
    expect(isRekeyed(counts({ removed: 1_000 }))).toBe(false);
    expect(isRekeyed(rowCountsOf(0, 10, { added: 10, changed: 0, removed: 0 }))).toBe(false);
  });
});
