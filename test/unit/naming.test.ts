import { createHash } from 'node:crypto';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { columnNames, MAX_TABLE_NAME_BYTES, tableNameFor } from '../../src/model/naming.ts';

const none: ReadonlySet<string> = new Set();
const digestOf = (id: string) => createHash('sha256').update(id).digest('hex').slice(0, 8);

describe('F38 names of tables', () => {
  it.each([
    ['us-tx-travis-parcels', 'us_tx_travis_parcels'],
    ['US.TX/Parcels v2', 'us_tx_parcels_v2'],
    ['2024-permits', '_2024_permits'],
    ['', '_'],
    ['😀é', '__'],
    ['"; DROP TABLE x; --', '___drop_table_x____'],
    ['../../etc/passwd', '______etc_passwd'],
    ['select', 'select'],
    ['__proto__', '__proto__'],
  ])('makes of the dataset id %s the table name %s', (id, name) => {
    expect(tableNameFor(id, none)).toBe(name);
  });

  it('cuts table names to 63 bytes', () => {
    expect(tableNameFor('a'.repeat(5_000), none)).toBe('a'.repeat(63));
    expect(tableNameFor(`1${'a'.repeat(5_000)}`, none)).toBe(`_1${'a'.repeat(61)}`);
  });

  it('adds digits of the digest where the plain table name is taken', () => {
    expect(tableNameFor('a.b', new Set(['a_b']))).toBe(`a_b_${digestOf('a.b')}`);
    const long = `${'x'.repeat(100)}1`;
    expect(tableNameFor(long, new Set(['x'.repeat(63)]))).toBe(`${'x'.repeat(54)}_${digestOf(long)}`);
  });

  it('makes safe, short and free table names of any ids', () => {
    const ids = fc.array(
      fc.oneof(fc.string({ unit: 'binary' }), fc.constantFrom('a-b', 'a.b', 'A_B', 'a b')),
    );
    fc.assert(
      fc.property(ids, (list) => {
        const taken = new Set<string>();
        for (const id of new Set(list)) {
          const name = tableNameFor(id, taken);
          expect(name).toMatch(/^[a-z_][a-z0-9_]*$/);
          expect(Buffer.byteLength(name)).toBeLessThanOrEqual(MAX_TABLE_NAME_BYTES);
          expect(taken).not.toContain(name);
          taken.add(name);
        }
      }),
      { seed: 20_261_120 },
    );
  });
});

describe('F38 F39 names of columns', () => {
  it.each([
    [
      ['a', 'b'],
      ['a', 'b'],
    ],
    [
      ['Id', 'id', 'ID'],
      ['Id', 'id_2', 'ID_3'],
    ],
    [
      ['id', 'ID', 'id_2'],
      ['id', 'ID_3', 'id_2'],
    ],
    [
      ['', '_'],
      ['_', '__2'],
    ],
    [
      ['__proto__', 'constructor', '__PROTO__'],
      ['__proto__', 'constructor', '__PROTO___2'],
    ],
  ])('makes of the column names %j %j', (names, expected) => {
    expect(columnNames(names)).toEqual(expected);
  });

  it('makes column names that differ by more than case, and keeps each name that is the first of its kind', () => {
    const name = fc.oneof(fc.string({ maxLength: 3 }), fc.constantFrom('a', 'A', 'a_2', 'A_2', 'a_3'));
    fc.assert(
      fc.property(fc.uniqueArray(name), (names) => {
        const given = columnNames(names);
        expect(new Set(given.map((each) => each.toLowerCase())).size).toBe(names.length);
        expect(given[0]).toBe(names[0] === '' ? '_' : names[0]);
      }),
      { seed: 20_261_120 },
    );
  });
});
