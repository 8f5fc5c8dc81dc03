/** F72: a value of a file arrives in PostgreSQL as it is, at the ends of its type too, or the dataset fails with its place. */

import { describe, expect, it } from 'vitest';
import { EMBEDDED } from '../../fixtures/postgres-server.ts';
import { present } from '../../src/lib/assert.ts';
import { errorCodeOf } from '../../src/model/errors.ts';
import type { ColumnType } from '../../src/model/records.ts';
import { column, parquet, snapshot } from '../support/duckdb-mirror.ts';
import { errorOf } from '../support/mirror-at-work.ts';
import { databaseAtWork } from '../support/postgres-destination.ts';
import { postgresOfTests } from '../support/postgres-of-tests.ts';

describe.skipIf(EMBEDDED.folder === null)(EMBEDDED.name, () => {
  const server = postgresOfTests(EMBEDDED);

  /** Loads a file with these values, SQL of DuckDB, in the rows 0, 1, … */
  async function load(type: ColumnType, physical: string, values: readonly string[]) {
    const world = await databaseAtWork(await present(server, 'the server runs').database());
    const rows = values.map((value, index) => `(${index}::BIGINT, (${value})::${physical})`);
    const select = `SELECT * FROM (VALUES ${rows.join(', ')}) t(id, value)`;
    const files = [await parquet(world.folder, 'values.parquet', select)];
    const columns = [column('id', 'integer', { nullable: false }), column('value', type)];
    const [result] = await world.execute(
      snapshot({ datasetId: 'parcels', columns, files, keyColumns: ['id'] }),
    );
    return { world, result: present(result, 'a job has a result') };
  }

  it.each<[ColumnType, string, readonly string[], readonly (string | null)[]]>([
    ['string', 'VARCHAR', ["''", "'\\.'", "'\"'", "'ü' || chr(10)", 'NULL'], ['', '\\.', '"', 'ü\n', null]],
    [
      'integer',
      'BIGINT',
      ['-9223372036854775808', '9223372036854775807', '-1', 'NULL'],
      ['-9223372036854775808', '9223372036854775807', '-1', null],
    ],
    [
      'number',
      'DOUBLE',
      ['1.7976931348623157e308', '5e-324', "'-0'", "'nan'", "'inf'", "'-inf'", '0.1', 'NULL'],
      ['1.7976931348623157e+308', '5e-324', '-0', 'NaN', 'Infinity', '-Infinity', '0.1', null],
    ],
    ['boolean', 'BOOLEAN', ['true', 'false', 'NULL'], ['true', 'false', null]],
    [
      'date',
      'DATE',
      [
        "'4714-11-24 (BC)'",
        "'5874897-12-31'",
        "'infinity'",
        "'-infinity'",
        "'1999-12-31'",
        "'2000-01-01'",
        'NULL',
      ],
      ['4714-11-24 BC', '5874897-12-31', 'infinity', '-infinity', '1999-12-31', '2000-01-01', null],
    ],
    [
      'timestamp',
      'TIMESTAMPTZ',
      [
        "'4714-11-24 (BC) 00:00:00+00'",
        "'294246-12-31 23:59:59.999999+00'",
        "'infinity'",
        "'-infinity'",
        "'1999-12-31 23:59:59.999999+00'",
        'NULL',
      ],
      [
        '4714-11-24 00:00:00 BC',
        '294246-12-31 23:59:59.999999',
        'infinity',
        '-infinity',
        '1999-12-31 23:59:59.999999',
        null,
      ],
    ],
    ['json', 'VARCHAR', [`'{"a":[1,null,"ü"]}'`, "'null'", 'NULL'], ['{"a": [1, null, "ü"]}', null, null]],
  ])('stores values of the type %s as they are in a file as %s', async (type, physical, values, stored) => {
    const { world, result } = await load(type, physical, values);
    expect(result).toMatchObject({ kind: 'committed' });
    const value = type === 'timestamp' ? "value AT TIME ZONE 'UTC'" : 'value';
    const rows = await world.byHand(`SELECT (${value})::text FROM feeds.parcels ORDER BY id`);
    expect(rows.map(([text]) => text)).toEqual(stored);
  });

  it.each<[string, ColumnType, string, string, RegExp]>([
    ['text with a NUL', 'string', 'VARCHAR', "'a' || chr(0)", /a NUL character/],
    ['JSON value with a NUL', 'json', 'VARCHAR', `'["a\\u0000"]'`, /a NUL character/],
    [
      'too early date',
      'date',
      'DATE',
      "'4714-11-23 (BC)'",
      /a date before 4714-11-24 BC or after 5874897-12-31/,
    ],
    ['first date of DuckDB', 'date', 'DATE', "'5877642-06-25 (BC)'", /a date before 4714-11-24 BC or after/],
    [
      'too late date',
      'date',
      'DATE',
      "'5874898-01-01'",
      /a date before 4714-11-24 BC or after 5874897-12-31/,
    ],
    [
      'too early time',
      'timestamp',
      'TIMESTAMPTZ',
      "'4714-11-23 (BC) 00:00:00+00'",
      /a time before 4714-11-24 BC/,
    ],
    [
      'first time of DuckDB',
      'timestamp',
      'TIMESTAMPTZ',
      "'290308-12-22 (BC) 00:00:00+00'",
      /a time before 4714-11-24 BC/,
    ],
  ])('refuses a %s, naming the column and the row', async (_what, type, physical, value, said) => {
    const { result } = await load(type, physical, ['NULL', value]);
    const error = errorOf(result);
    expect([errorCodeOf(error), error.message]).toEqual(['data_invalid', expect.stringMatching(said)]);
    expect(error.message).toMatch(
      / in the column "value", in the row id = "1", which PostgreSQL cannot store\.$/,
    );
  });

  it('names the row with a NUL in JSON, and no row that only writes about one', async () => {
    const { result } = await load('json', 'VARCHAR', [`'"\\\\u0000"'`, `'"\\\\\\u0000"'`]);
    expect(errorOf(result).message).toContain('a NUL character in the column "value", in the row id = "1",');
  });
});
