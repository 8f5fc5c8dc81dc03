/** The estimated cost of each way to a version. */

import { describe, expect, it } from 'vitest';
import {
  CHANGED_ROW_IN_ROWS,
  changesCost,
  REQUEST_IN_ROWS,
  ROWS_PER_PAGE,
  SNAPSHOT_IN_ROWS,
  snapshotCost,
} from '../../src/sync/plan/version-chain.ts';
import { entry, version } from '../support/sync-values.ts';

const listing = (changed: number) =>
  version('parcels', 1, { counts: { added: 1, changed: changed - 3, removed: 2 } });

describe('the changes of a version', () => {
  it('changes cost a request for each page, and every row on it', () => {
    expect(changesCost([listing(ROWS_PER_PAGE)])).toBe(REQUEST_IN_ROWS + ROWS_PER_PAGE * CHANGED_ROW_IN_ROWS);
    expect(changesCost([listing(ROWS_PER_PAGE + 1)])).toBe(
      2 * REQUEST_IN_ROWS + (ROWS_PER_PAGE + 1) * CHANGED_ROW_IN_ROWS,
    );
  });

  it('changes cost a request where there are none, and a page where their number is unknown', () => {
    const none = version('parcels', 1, { counts: { added: 0, changed: 0, removed: 0 } });
    expect(changesCost([none])).toBe(REQUEST_IN_ROWS);
    expect(changesCost([version('parcels', 1)])).toBe(changesCost([listing(ROWS_PER_PAGE)]));
  });

  it('changes cost as much as those of each version', () => {
    expect(changesCost([])).toBe(0);
    expect(changesCost([listing(5), listing(9)])).toBe(changesCost([listing(5)]) + changesCost([listing(9)]));
  });
});

describe('a snapshot', () => {
  it('a snapshot costs its setup, a request for each file, and its rows', () => {
    const { files, ...rest } = entry('parcels', 1);
    const made = { ...rest, rowCount: 412_345, files: [...files, ...files] };
    expect(snapshotCost(made, 7)).toBe(SNAPSHOT_IN_ROWS + 2 * REQUEST_IN_ROWS + 412_345);
    expect(snapshotCost({ ...made, rowCount: null }, 7)).toBe(SNAPSHOT_IN_ROWS + 2 * REQUEST_IN_ROWS + 7);
    expect(snapshotCost({ ...made, rowCount: 0, files: [] }, 7)).toBe(SNAPSHOT_IN_ROWS);
  });
});

describe('the cheaper way to a version', () => {
  const snapshotOf = (rowCount: number) => snapshotCost({ ...entry('parcels', 1), rowCount }, 0);
  const backlog = (versions: number, rows: number) => changesCost(Array(versions).fill(listing(rows)));

  it.each([
    ['one small version of a small table: the changes', 1, 10, 100, 'changes'],
    ['a hundred versions of a small table: the snapshot', 100, 10, 100, 'snapshot'],
    ['600 versions of 100 rows of 2 million: the changes', 600, 100, 2_000_000, 'changes'],
    ['50 versions of 10,000 rows of 2 million: the snapshot', 50, 10_000, 2_000_000, 'snapshot'],
    ['a version that changes every row: the snapshot', 1, 100_000, 100_000, 'snapshot'],
  ])('takes the cheaper way for %s', (_, versions, rows, tableRows, expected) => {
    expect(backlog(versions, rows) <= snapshotOf(tableRows) ? 'changes' : 'snapshot').toBe(expected);
  });
});
