/** The pure rules of applying changes and of retiring: stated row counts, added columns, names of archived tables. */

import { describe, expect, it } from 'vitest';
import { archivedNameFor } from '../../src/destination/catalog/archived-name.ts';
import { isSameTable } from '../../src/destination/catalog/guard.ts';
import { tableAfter } from '../../src/destination/duckdb/table-after.ts';
import { InapplicableChangesError } from '../../src/model/errors.ts';
import type { ColumnType, Counts } from '../../src/model/records.ts';
import type { ChangesJob, ObservedColumn, ObservedTable } from '../../src/model/write-jobs.ts';
import { proveCounts, statedRowCount } from '../../src/staging/changes/proof.ts';
import type { PlannedColumn } from '../../src/staging/snapshot/table-plan.ts';
import { column } from '../support/duckdb-mirror.ts';
import { reloadMarks } from '../support/reload-marks.ts';
import { table } from '../support/sync-values.ts';

describe('the operations that a version lists', () => {
  const counts = { added: 3, changed: 2, removed: 1 };
  const prove = (listed: Counts) =>
    proveCounts(
      {
        datasetId: 'parcels',
        versions: [{ version: 2, pages: [], counts, rowCount: null }],
        plannedFrom: { rowCount: 10 },
      } as unknown as ChangesJob,
      [listed],
    );

  it('accepts listed operations whose counts the service states', () =>
    expect(prove(counts)).toBeUndefined());

  it.each(['added', 'changed', 'removed'] as const)(
    'V5 falls back to the snapshot where the count of %s rows differs',
    (operation) => {
      expect(() => prove({ ...counts, [operation]: counts[operation] + 1 })).toThrow(
        InapplicableChangesError,
      );
    },
  );
});

describe('the row count that the service states after the last version', () => {
  it.each<[readonly (Counts | null)[], readonly (number | null)[], number | null]>([
    [[null], [7], 7],
    [[null], [null], null],
    [[{ added: 3, changed: 9, removed: 1 }], [null], 12],
    [[{ added: 3, changed: 0, removed: 1 }, null], [null, 4], 4],
    [[null, { added: 1, changed: 0, removed: 0 }], [20, null], 21],
    [[null, { added: 1, changed: 0, removed: 0 }], [null, null], null],
    [
      [
        { added: 1, changed: 0, removed: 0 },
        { added: 0, changed: 0, removed: 5 },
      ],
      [null, null],
      6,
    ],
  ])(
    'computes the stated row count after ten rows from counts %j and row counts %j: %j',
    (counts, rowCounts, expected) => {
      const versions = counts.map((each, index) => ({
        version: index + 2,
        pages: [],
        counts: each,
        rowCount: rowCounts[index] ?? null,
      }));
      expect(statedRowCount({ versions, plannedFrom: { rowCount: 10 } as ObservedTable })).toBe(expected);
    },
  );
});

describe('the table that changes build on', () => {
  const planned = table(3, { reloads: reloadMarks([['sub_1', 5n]]) });

  it('takes a table for the one that changes were planned from where nothing differs, and a missing one never', () => {
    expect(isSameTable({ ...planned }, planned)).toBe(true);
    expect(isSameTable(null, planned)).toBe(false);
  });

  it.each<[string, Partial<ObservedTable>]>([
    ['commit', { commitNumber: 4 }],
    ['version', { version: 4 }],
    ['snapshot', { snapshotDigest: 'other' }],
    ['number of rows', { rowCount: 11 }],
    [
      'reload of another log',
      { reloads: new Map([['sub_1', { logNumber: 2, eventNumber: 5n, createdAt: null }]]) },
    ],
    ['reload of the same subscription', { reloads: reloadMarks([['sub_1', 6n]]) }],
    [
      'reload of a further subscription',
      {
        reloads: reloadMarks([
          ['sub_1', 5n],
          ['sub_2', 1n],
        ]),
      },
    ],
    ['list of reloads, which is empty', { reloads: new Map() }],
  ])('takes a table for another one where it has another %s', (_, by) => {
    expect(isSameTable({ ...planned, ...by }, planned)).toBe(false);
  });
});

describe('the columns of a table after changes', () => {
  const observed = (name: string, columnName = name, type: ColumnType = 'string'): ObservedColumn => ({
    name,
    columnName,
    type,
    role: 'data',
    crs: null,
  });
  const planned = (name: string, type: ColumnType = 'string'): PlannedColumn => ({
    column: column(name, type),
    type,
    columnName: name,
    role: 'data',
    crs: null,
  });
  const namesAfter = (before: readonly ObservedColumn[], ...columns: readonly PlannedColumn[]) => {
    const { columns: given, alteration } = tableAfter(before, columns);
    return [alteration.kind, ...given.map(({ columnName }) => columnName)];
  };

  it('leaves the columns of a table as they are where none is new', () => {
    expect(namesAfter([observed('a'), observed('A', 'A_2')], planned('a'), planned('A'))).toEqual([
      'none',
      'a',
      'A_2',
    ]);
  });
  it('appends columns that come last, and rewrites the table for others', () => {
    expect(namesAfter([observed('a')], planned('a'), planned('b'))).toEqual(['append', 'a', 'b']);
    expect(namesAfter([observed('a'), observed('z')], planned('a'), planned('b'), planned('z'))).toEqual([
      'rewrite',
      'a',
      'b',
      'z',
    ]);
  });
  it('keeps the names of existing columns, and chooses other names for new ones', () => {
    const before = [observed('a'), observed('A', 'A_2')];
    expect(namesAfter(before, planned('a'), planned('A'), planned('A_2'))).toEqual([
      'append',
      'a',
      'A_2',
      'A_2_2',
    ]);
    // Named anew, the table's own column would become A_3.
    expect(namesAfter(before, planned('a'), planned('a_2'), planned('A'))).toEqual([
      'rewrite',
      'a',
      'a_2_2',
      'A_2',
    ]);
  });
  it('rewrites a table with a column that hides the addresses of rows', () => {
    expect(namesAfter([observed('RowId')], planned('RowId'))).toEqual(['rewrite', 'RowId']);
    expect(namesAfter([observed('a')], planned('a'), planned('rowid'))).toEqual(['rewrite', 'a', 'rowid']);
  });
  it('refuses to lose a column or its type', () => {
    expect(() => namesAfter([observed('a'), observed('b')], planned('a'))).toThrow('"b"');
    expect(() => namesAfter([observed('a')], planned('a', 'integer'))).toThrow('"a"');
  });
});

describe('the name of an archived table', () => {
  const at = new Date('2026-01-02T03:04:05.678Z');
  it('names an archived table by version and time, so that names sort by both', () => {
    expect(archivedNameFor('parcels', 12, at, new Set())).toBe('parcels__12_20260102t030405z');
  });
  it('never gives an archived table a name that is taken', () => {
    const taken = new Set(['parcels__12_20260102t030405z', 'parcels__12_20260102t030405z_2']);
    expect(archivedNameFor('parcels', 12, at, taken)).toBe('parcels__12_20260102t030405z_3');
  });
});
