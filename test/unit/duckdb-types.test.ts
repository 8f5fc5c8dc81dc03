/** F40: a value of a file arrives in the mirror as it is, to the last digit, or the dataset fails with its place. */

import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { ParquetSchema, ParquetWriter } from '@dsnp/parquetjs';
import { describe, expect, it } from 'vitest';
import { DataError } from '../../src/model/errors.ts';
import { COLUMN_TYPES, type ColumnType } from '../../src/model/records.ts';
import { column, duckdb, snapshot } from '../support/duckdb-mirror.ts';
import { mirrorOfFile } from '../support/own-mirror.ts';

const own = mirrorOfFile();

let files = 0;
/** Loads a file with the rows of `values` as `type`, and returns its column `v` as text. */
async function loaded(
  type: ColumnType,
  physical: string,
  ...values: readonly string[]
): Promise<readonly unknown[]> {
  files += 1;
  const datasetId = `dataset-${files}`;
  const list = values.map((value, index) => `(${index}::BIGINT, (${value})::${physical})`);
  const path = await own.parquet(`${datasetId}.parquet`, `SELECT * FROM (VALUES ${list.join(', ')}) t(n, v)`);
  const job = snapshot({ datasetId, columns: [column('n', 'integer'), column('v', type)], files: [path] });
  const [outcome] = await own.load(job);
  if (outcome?.kind !== 'committed')
    throw outcome?.kind === 'failed' ? outcome.error : new Error(outcome?.kind);
  const rows = await own.query(`SELECT v::VARCHAR FROM "${outcome.committed.tableName}" ORDER BY n`);
  return rows.map(([value]) => value);
}

describe('F40 values at the ends of their types', () => {
  it.each<[ColumnType, string, readonly string[], readonly (string | null)[]]>([
    [
      'integer',
      'BIGINT',
      ['-9223372036854775808', '9223372036854775807', 'NULL'],
      ['-9223372036854775808', '9223372036854775807', null],
    ],
    ['integer', 'INTEGER', ['-2147483648', '2147483647'], ['-2147483648', '2147483647']],
    ['integer', 'UBIGINT', ['9223372036854775807'], ['9223372036854775807']],
    [
      'integer',
      'DOUBLE',
      ['-9223372036854775808', '9007199254740992', '-0.0'],
      ['-9223372036854775808', '9007199254740992', '0'],
    ],
    ['integer', 'DECIMAL(30,2)', ['9223372036854775807.00', 'NULL'], ['9223372036854775807', null]],
    ['integer', 'DECIMAL(38,0)', ['-9223372036854775808'], ['-9223372036854775808']],
    [
      'number',
      'DOUBLE',
      ['1.7976931348623157e308', '5e-324', "'nan'", "'-inf'", '0.1'],
      ['1.7976931348623157e+308', '5e-324', 'nan', '-inf', '0.1'],
    ],
    ['number', 'FLOAT', ['0.5', '16777216'], ['0.5', '16777216.0']],
    ['number', 'BIGINT', ['9007199254740992'], ['9007199254740992.0']],
    ['number', 'DECIMAL(18,2)', ['1234567890123.45'], ['1234567890123.45']],
    ['boolean', 'BOOLEAN', ['true', 'false', 'NULL'], ['true', 'false', null]],
    ['date', 'DATE', ["'1600-02-29'", "'9999-12-31'"], ['1600-02-29', '9999-12-31']],
    ['date', 'TIMESTAMP', ["'2024-03-10 00:00:00'"], ['2024-03-10']],
    [
      'timestamp',
      'TIMESTAMPTZ',
      ["'1600-01-01 00:00:00.000001+00'", "'9999-12-31 23:59:59.999999-01'"],
      ['1600-01-01 00:00:00.000001+00', '10000-01-01 00:59:59.999999+00'],
    ],
    ['timestamp', 'TIMESTAMP', ["'2024-03-10 02:30:00.123456'"], ['2024-03-10 02:30:00.123456+00']],
    [
      'timestamp',
      'TIMESTAMP',
      ["'infinity'", 'NULL', "'-infinity'", "'0001-01-01 00:00:00'", "'1969-12-31 23:59:59.999999'"],
      ['infinity', null, '-infinity', '0001-01-01 00:00:00+00', '1969-12-31 23:59:59.999999+00'],
    ],
    ['timestamp', 'TIMESTAMP_S', ["'1969-12-31 23:59:59'"], ['1969-12-31 23:59:59+00']],
    ['timestamp', 'TIMESTAMP_MS', ["'2024-03-10 02:30:00.123'"], ['2024-03-10 02:30:00.123+00']],
    ['timestamp', 'TIMESTAMP_NS', ["'2024-03-10 02:30:00.123456'"], ['2024-03-10 02:30:00.123456+00']],
    ['string', 'UUID', ["'b7422d54-9acb-400a-b46b-4ae572c18328'"], ['b7422d54-9acb-400a-b46b-4ae572c18328']],
    [
      'json',
      'VARCHAR',
      [`'{"a": [1, 2.50, 9223372036854775808]}'`, `' "b" '`],
      ['{"a":[1,2.5,9223372036854775808]}', '"b"'],
    ],
    ['json', 'JSON', [`'{"a":null}'`, `'{"b": 1, "a": [ ]}'`], ['{"a":null}', '{"b":1,"a":[]}']],
    [
      'json',
      'VARCHAR',
      [`'["information, nan,]", ":inf", "\\\\", "[-NaN \\",]"]'`],
      ['["information, nan,]",":inf","\\\\","[-NaN \\",]"]'],
    ],
    ['json', 'INTEGER[]', ['[1, NULL]', '[]', 'NULL'], ['[1,null]', '[]', null]],
    [
      'json',
      'STRUCT("primary" VARCHAR, b STRUCT(c UBIGINT, d DECIMAL(38,2))[])',
      [
        `{'primary': 'a"' || chr(10), 'b': [{'c': 18446744073709551615, 'd': 123456789012345678.12}]}`,
        "{'primary': NULL, 'b': NULL}",
        'NULL',
      ],
      [
        '{"primary":"a\\"\\n","b":[{"c":18446744073709551615,"d":123456789012345678.12}]}',
        '{"primary":null,"b":null}',
        null,
      ],
    ],
    [
      'json',
      'MAP(VARCHAR, DOUBLE)',
      ["MAP {'en': 0.1, 'de': 1e300}", 'MAP {}', 'NULL'],
      ['{"en":0.1,"de":1e300}', '{}', null],
    ],
  ])('V16 loads values of type %s from %s exactly', async (type, physical, values, expected) => {
    expect(await loaded(type, physical, ...values)).toEqual(expected);
  });

  it('loads text with quotes, control characters, NUL and several scripts exactly', async () => {
    const texts = [
      "'it''s \"quoted\" `;`'",
      "'a' || chr(0) || 'b'",
      'chr(1) || chr(13) || chr(10) || chr(9)',
      "'שלום 你好 🏳️‍🌈'",
      "''",
    ];
    expect(await loaded('string', 'VARCHAR', ...texts)).toEqual([
      'it\'s "quoted" `;`',
      'a\0b',
      '\u0001\r\n\t',
      'שלום 你好 🏳️‍🌈',
      '',
    ]);
  });

  it('V15 creates columns with the types of the mirror', async () => {
    await own.load(
      snapshot({ datasetId: 'types', columns: COLUMN_TYPES.map((type) => column(type, type)), files: [] }),
    );
    const rows = await own.query(`SELECT data_type FROM duckdb_columns() WHERE table_name = 'types'`);
    expect(rows.flat()).toEqual([
      'VARCHAR',
      'BIGINT',
      'DOUBLE',
      'BOOLEAN',
      'DATE',
      'TIMESTAMP WITH TIME ZONE',
      'GEOMETRY',
      'JSON',
    ]);
  });
});

describe('F40 a cast that would change a value', () => {
  it.each<[ColumnType, string, readonly string[], string]>([
    ['integer', 'DOUBLE', ['1', '1.5'], '1.5'],
    ['integer', 'DOUBLE', ["'nan'"], 'nan'],
    ['integer', 'DOUBLE', ['9223372036854775808'], '9.223372036854776e+18'],
    ['integer', 'DECIMAL(10,2)', ['2.50'], '2.50'],
    ['integer', 'DECIMAL(38,0)', ['9223372036854775808'], '9223372036854775808'],
    ['integer', 'UBIGINT', ['18446744073709551615'], '18446744073709551615'],
    ['number', 'BIGINT', ['9007199254740993'], '9007199254740993'],
    ['number', 'DECIMAL(20,2)', ['123456789012345678.12'], '123456789012345678.12'],
    ['date', 'TIMESTAMP', ["'2024-01-01 00:00:00.000001'"], '2024-01-01 00:00:00.000001'],
    ['timestamp', 'TIMESTAMP_NS', ["'2024-01-01 00:00:00.000000001'"], '2024-01-01 00:00:00.000000001'],
    ['json', 'VARCHAR', ["'{}'", "'{a: 1}'"], '{a: 1}'],
    ['json', 'VARCHAR', [`'[1, NaN]'`], '[1, NaN]'],
    ['json', 'VARCHAR', ["'-inf'"], '-inf'],
    ['json', 'VARCHAR', [`'{"a": Infinity}'`], '{"a": Infinity}'],
    ['json', 'VARCHAR', ["'[1, ]'"], '[1, ]'],
    ['json', 'DOUBLE[]', ["[0.5, 'nan'::DOUBLE]"], '[0.5, nan]'],
    ['geometry', 'BLOB', ["'\\x01\\x01\\x00'"], '\\x01\\x01\\x00'],
  ])(
    'V17 fails the dataset where a cast would change a value: %s from %s %j',
    async (type, physical, values, shown) => {
      const error = await loaded(type, physical, ...values).then(
        () => null,
        (thrown: unknown) => thrown,
      );
      expect(error).toBeInstanceOf(DataError);
      const { message } = error as DataError;
      expect(message).toContain(`dataset-${files}.parquet`);
      expect(message).toContain('"v"');
      const article = type === 'integer' ? 'an' : 'a';
      expect(message).toContain(
        `the value ${JSON.stringify(shown)}, which cannot become ${article} ${type} without being changed`,
      );
    },
  );

  it.each<[ColumnType, string, string]>([
    ['integer', 'VARCHAR', "'1'"],
    ['integer', 'BOOLEAN', 'true'],
    ['number', 'VARCHAR', "'1.5'"],
    ['boolean', 'VARCHAR', "'yes'"],
    ['boolean', 'INTEGER', '1'],
    ['date', 'VARCHAR', "'2024-01-01T12:00:00Z'"],
    ['timestamp', 'DATE', "'2024-01-01'"],
    ['timestamp', 'BIGINT', '1'],
    ['timestamp', 'TIME', "'12:00:00'"],
    ['string', 'BIGINT', '1'],
    ['string', 'BLOB', "'x'"],
    ['geometry', 'VARCHAR', "'POINT (1 2)'"],
    ['json', 'BIGINT', '1'],
    ['json', 'DOUBLE', '1.5'],
    ['json', 'BLOB[]', "['x']"],
  ])('refuses a cast between families of types: %s from %s', async (type, physical, value) => {
    await expect(loaded(type, physical, value)).rejects.toThrow(
      `The file dataset-${files}.parquet of dataset-${files} holds in the column "v" the value ` +
        `${JSON.stringify(value.replaceAll("'", ''))} of type ${physical}, which is another family of types than ${type}.`,
    );
  });

  it.each(['TIMESTAMP', 'BLOB', 'TIME', 'TIMESTAMPTZ'])(
    'refuses a cast between families inside of nested values: json from a struct with a %s',
    async (inside) => {
      await expect(loaded('json', `STRUCT(a INTEGER, b ${inside}[])`, "{'a': 1, 'b': []}")).rejects.toThrow(
        'another family of types',
      );
    },
  );

  it('shows no more than the beginning of a long value in the error', async () => {
    const error = await loaded('json', 'VARCHAR', "repeat('x', 100000)").catch((thrown: Error) => thrown);
    expect((error as Error).message.length).toBeLessThan(500);
  });
});

describe('files of several layouts', () => {
  it('casts each of several files by its own types and columns, never by those of the first', async () => {
    const first = await own.parquet('layout-1.parquet', 'SELECT 1::INTEGER AS v, 10::BIGINT AS n');
    const second = await own.parquet('layout-2.parquet', 'SELECT 20::BIGINT AS n, 9007199254740993 AS v');
    const columns = [column('n', 'integer'), column('v', 'integer')];
    await own.load(snapshot({ datasetId: 'layouts', columns, files: [first, second] }));
    expect(await own.query('SELECT * FROM layouts ORDER BY n')).toEqual([
      ['10', '1'],
      ['20', '9007199254740993'],
    ]);

    const third = await own.parquet('layout-3.parquet', 'SELECT 30::BIGINT AS n, 1.5::DOUBLE AS v');
    const error = await own.loadError(snapshot({ datasetId: 'layouts-2', columns, files: [first, third] }));
    expect(error.message).toContain('layout-3.parquet');
    expect(error.message).toContain('"1.5"');
  });
});

it('refuses a text that is no JSON although its file says so', async () => {
  const file = await own.parquet(
    'claims.parquet',
    `SELECT '[12345]'::JSON AS v`,
    ', COMPRESSION uncompressed',
  );
  await replaceInFile(file, '[12345]', '[12345[');
  const error = await own.loadError(
    snapshot({ datasetId: 'claims', columns: [column('v', 'json')], files: [file] }),
  );
  expect(error).toBeInstanceOf(DataError);
  expect(error.message).toContain('claims.parquet');
  expect(error.message).toContain('"[12345["');
});

describe('a file that DuckDB would cut silently', () => {
  async function expectRefused(file: string, what: string): Promise<void> {
    const job = snapshot({ datasetId: 'cut', columns: [column('v', 'timestamp')], files: [file] });
    const error = await own.loadError(job);
    expect(error).toBeInstanceOf(DataError);
    expect(error.message).toBe(
      `The file ${file.split('/').at(-1)} holds in the column "v" ${what}, which would be cut to microseconds.`,
    );
    expect(error).toMatchObject({ hint: expect.stringContaining('coerce_timestamps="us"') });
  }

  it('refuses a file with timestamps in nanoseconds and a zone', async () => {
    const file = await own.parquet(
      'nanoseconds.parquet',
      `SELECT '2024-01-01 00:00:00.123456789'::TIMESTAMP_NS AS v`,
    );
    await claimUtc(file);
    await expectRefused(file, 'timestamps in nanoseconds with a zone');
  });

  it('refuses a file with timestamps as INT96', async () => {
    const file = join(own.path, 'int96.parquet');
    const writer = await ParquetWriter.openFile(new ParquetSchema({ v: { type: 'INT96' } }), file);
    await writer.appendRow({ v: 1 });
    await writer.close();
    await expectRefused(file, 'timestamps as INT96');
  });
});

async function replaceInFile(path: string, from: string, to: string): Promise<void> {
  const content = await readFile(path, 'latin1');
  expect(content).toContain(from);
  await writeFile(path, content.replaceAll(from, to), 'latin1');
}

/** Sets the flag `isAdjustedToUTC` in the footer: the first byte whose change makes DuckDB see a timestamp with zone. */
async function claimUtc(path: string): Promise<void> {
  const original = await readFile(path);
  for (let at = original.length - 9; at > 4; at -= 1) {
    const isFalseFlag = original[at] === 0x12;
    if (!isFalseFlag) continue;
    const changed = Buffer.from(original);
    changed[at] = 0x11;
    await writeFile(path, changed);
    const select = `SELECT logical_type FROM parquet_schema('${path}') WHERE name = 'v'`;
    const rows = await duckdb(select).catch(() => []);
    if (String(rows[0]?.[0]).includes('isAdjustedToUTC=1')) return;
  }
  throw new Error('the footer has no such flag');
}
