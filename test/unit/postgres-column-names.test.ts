import { describe, expect, it } from 'vitest';
import { refuseTooManyColumns, withPossibleNames } from '../../src/destination/postgres/column-names.ts';
import { DataError } from '../../src/model/errors.ts';
import type { PlannedColumn } from '../../src/staging/snapshot/table-plan.ts';

const planned = (name: string, columnName = name): PlannedColumn => ({
  column: { name, type: 'string', nullable: true, description: null, sourceName: null },
  type: 'string',
  columnName,
  role: 'data',
  crs: null,
});
const names = (columns: readonly PlannedColumn[], kept: readonly string[] = []) =>
  withPossibleNames(
    columns,
    kept.map((name) => ({ name })),
  ).map(({ columnName }) => columnName);

describe('F38 F39 names of columns in PostgreSQL', () => {
  it('keeps names that the server can take', () => {
    const columns = ['id', 'XMIN', 'oid', 'x'.repeat(63), 'é'.repeat(31)].map((name) => planned(name));
    expect(withPossibleNames(columns)).toBe(columns);
  });

  it('numbers names of system columns, past the names that exist', () => {
    expect(names([planned('ctid'), planned('CTID_2'), planned('xmax')])).toEqual([
      'ctid_3',
      'CTID_2',
      'xmax_2',
    ]);
  });

  it('cuts names to 63 bytes of whole characters with a digest, so that no two are equal', () => {
    const beginning = '日'.repeat(30);
    const given = names([planned(`${beginning}a`), planned(`${beginning}b`), planned(beginning)]);
    expect(new Set(given).size).toBe(3);
    for (const name of given) expect(name).toMatch(/^日{18}_[0-9a-f]{8}$/);
    expect(names([planned('other'), planned(`${beginning}b`)])[1]).toBe(given[1]);
  });

  it('adds digits of the digest where the shorter name is taken', () => {
    const long = planned('x'.repeat(64));
    const [short = ''] = names([long]);
    expect(names([planned(short), long])[1]).toMatch(/^x{53}_[0-9a-f]{9}$/);
  });

  it('keeps names that the table has', () => {
    expect(names([planned('xmin', 'old'), planned('x'.repeat(64))], ['xmin', 'x'.repeat(64)])).toEqual([
      'old',
      'x'.repeat(64),
    ]);
  });

  it('refuses more columns than a table and its undo log can have', () => {
    const columns = Array.from({ length: 1_596 }, (_, index) => planned(`c${index}`));
    expect(() => refuseTooManyColumns('parcels', columns)).toThrow(DataError);
    refuseTooManyColumns('parcels', columns.slice(1));
  });
});
