import { createHash } from 'node:crypto';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { columnNames, MAX_TABLE_NAME_BYTES, schemaNameFor, tableNameFor } from '../../src/model/naming.ts';

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
    expect(tableNameFor('a'.repeat(5_000), none, 50)).toBe('a'.repeat(50));
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

describe('F38 names of schemas', () => {
  const nameBy = (datasets: string, schema: string, id: string) =>
    schemaNameFor(id, [{ datasets, schema }], 'feeds');

  it('names a schema by the first rule that matches, and by the default where none does', () => {
    const rules = [
      { datasets: 'us-tx-*', schema: 'texas' },
      { datasets: 'us-*-*', schema: '{1}' },
    ];
    const named = ['us-tx-parcels', 'us-az-parcels', 'US-az-parcels', 'us-az', 'fr-75'];
    expect(named.map((id) => schemaNameFor(id, rules, 'feeds'))).toEqual([
      'texas',
      'az',
      'feeds',
      'feeds',
      'feeds',
    ]);
    expect(schemaNameFor('us-tx-parcels', [], 'feeds')).toBe('feeds');
  });

  it.each([
    ['*', '{1}', 'Travis', 'travis'],
    ['us-*-*', '{1}', 'us-tx-travis-parcels', 'tx'],
    ['us-*-*', '{2}', 'us-tx-travis-parcels', 'travis_parcels'],
    ['us-*-*-*', '{2}_{1}_{2}', 'us-tx-travis-parcels', 'travis_tx_travis'],
    ['*-parcels', '{1}', 'a-parcels-b-parcels', 'a_parcels_b'],
    ['*b*', '{1}x{2}', 'abcb', 'axcb'],
    ['**', '{1}x{2}', 'ab', 'xab'],
    ['us*', '{1}', 'us', '_'],
    ['*', '{1}', '2024/Permits é', '_2024_permits__'],
    ['*', '{1}', "x'; DROP SCHEMA feeds; --", 'x___drop_schema_feeds____'],
    ['*', '{1}', 'pg_toast', '_pg_toast'],
    ['*', 'pg{1}', '-temp', '_pg_temp'],
    ['*', '{1}', 'Information.Schema', '_information_schema'],
    ['*', '{1}{1}', '__proto__', '__proto____proto__'],
    ['us-\\*-*', '{1}', 'us-*-b', 'b'],
  ])('makes by the rule %s: %s of the dataset id %s the schema %s', (datasets, schema, id, name) => {
    expect(nameBy(datasets, schema, id)).toBe(name);
  });

  it('calls no schema like one that feed-sync or the database needs', () => {
    const needed = ['feed_sync', 'archived', 'history', 'public', 'information_schema', 'pg_catalog'];
    expect(needed.map((id) => nameBy('*', '{1}', id))).toEqual(needed.map((name) => `_${name}`));
  });

  it('cuts schema names to 50 bytes', () => {
    expect(nameBy('*', 'county_{1}', 'a'.repeat(5_000))).toBe(`county_${'a'.repeat(43)}`);
    expect(nameBy('*', '{1}', `pg_${'a'.repeat(60)}`)).toBe(`_pg_${'a'.repeat(46)}`);
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
