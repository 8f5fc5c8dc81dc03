/** F78: a table has one text for a JSON value, whichever way the value came, and null for the JSON value null. */

import { describe, expect, it } from 'vitest';
import { DataError, InapplicableChangesError } from '../../src/model/errors.ts';
import {
  inMirror,
  load,
  loadError,
  column as modelColumn,
  parquet,
  snapshot,
} from '../support/duckdb-mirror.ts';
import { mirrorAtWork } from '../support/mirror-at-work.ts';
import { column } from '../support/small-content.ts';
import { writtenTable } from '../support/written-changes.ts';

/** A JSON value as it is written, and its text in the table. */
const VALUES: readonly (readonly [written: string, observed: string | null])[] = [
  ['null', null],
  [' null\n', null],
  ['"null"', '"null"'],
  ['[null]', '[null]'],
  ['{"a": 1}', '{"a":1}'],
  ['\t{ "b" : [ 1 , { } , [ ] ] ,\r\n"a" : " x " } ', '{"b":[1,{},[]],"a":" x "}'],
  ['{"a": 1, "a": 2, "\\u0061": 3}', '{"a":1,"a":2,"a":3}'],
  ['[2.50, 1e2, 1E+2, -0, -0.0, 0.1, 1e22, 1.5E-7]', '[2.5,100.0,100.0,0,-0.0,0.1,1e22,1.5e-7]'],
  ['[9007199254740993, 18446744073709551616, 1e400]', '[9007199254740993,18446744073709551616,1e400]'],
  ['[0.10000000000000001, 0.30000000000000004]', '[0.1,0.30000000000000004]'],
  ['"\\u00e9\\/\\u0001\\u0000\\ud83d\\ude00"', '"é/\\u0001\\u0000😀"'],
];
const quoted = (text: string): string => `'${text.replaceAll("'", "''")}'`;

describe('C11 F78 the one text of a JSON value', () => {
  it.each(['VARCHAR', 'JSON'])(
    'stores one text for a JSON value from a file with the type %s',
    async (type) => {
      const { mirror, folder } = await mirrorAtWork();
      const rows = VALUES.map(([written], id) => `(${id}::BIGINT, ${quoted(written)}::${type})`);
      const path = await parquet(
        folder,
        'values.parquet',
        `SELECT * FROM (VALUES ${rows.join()}) AS t(id, v)`,
      );
      const columns = [modelColumn('id', 'integer'), modelColumn('v', 'json')];
      await load(mirror, snapshot({ columns, files: [path] }));
      const observed = await inMirror(folder, 'SELECT v::VARCHAR, typeof(v) FROM parcels ORDER BY id');
      expect(observed).toEqual(VALUES.map(([, text]) => [text, 'JSON']));
    },
  );

  it('keeps every JSON value of a file in which values that are not usual lie beside any others', async () => {
    const { mirror, folder } = await mirrorAtWork();
    const own = '"feed-sync: a value that is not usual"';
    const columns = [modelColumn('id', 'integer'), modelColumn('v', 'json'), modelColumn('w', 'json')];
    const files = await Promise.all(
      ['1', `'${own}'`, "'[1.123456789]'", 'NULL'].map((value, index) =>
        parquet(
          folder,
          `part-${index}.parquet`,
          `SELECT ${index}::BIGINT AS id, '{"a": 1}' AS v, ${value}::VARCHAR AS w`,
        ),
      ),
    );
    await load(mirror, snapshot({ columns, keyColumns: ['id'], files }));
    expect(await inMirror(folder, 'SELECT v::VARCHAR, w::VARCHAR FROM parcels ORDER BY id')).toEqual(
      ['1', own, '[1.123456789]', null].map((w) => ['{"a":1}', w]),
    );
  });

  it('stores one text for a JSON value from a list, a struct or a map of a file', async () => {
    const { mirror, folder } = await mirrorAtWork();
    const select = `SELECT [2.50, NULL]::DECIMAL(38,2)[] AS list, {'a': 'x y', 'b': [1e22::DOUBLE]} AS struct, MAP {'k': 1} AS map,
      NULL::INTEGER[] AS nothing`;
    const columns = ['list', 'struct', 'map', 'nothing'].map((name) => modelColumn(name, 'json'));
    await load(mirror, snapshot({ columns, files: [await parquet(folder, 'nested.parquet', select)] }));
    expect(
      await inMirror(folder, 'SELECT list::VARCHAR, struct::VARCHAR, map::VARCHAR, nothing FROM parcels'),
    ).toEqual([['[2.5,null]', '{"a":"x y","b":[1e22]}', '{"k":1}', null]]);
  });

  it('stores one text for a JSON value from changes', async () => {
    const table = await writtenTable([column('id', 'integer', false), column('v', 'json')]);
    await table.apply([VALUES.map(([written], id) => `{"op":"added","row":{"id":${id},"v":${written}}}`)]);
    expect(await table.rows('id::INTEGER, v::VARCHAR')).toEqual(VALUES.map(([, text], id) => [id, text]));
  });
});

describe('F78 a number in a JSON value that no double represents', () => {
  const LOST = '0.12345678901234567890';

  it('keeps all digits of a JSON number from a file, and nothing else of its notation', async () => {
    const { mirror, folder } = await mirrorAtWork();
    const text = `{"a": [${LOST}, 2.50, "${LOST} nan"], "b": 1e-400}`;
    const columns = ['text', 'nested'].map((name) => modelColumn(name, 'json'));
    const select = `SELECT ${quoted(text)} AS text, [0.123456789012345678, 2.50]::DECIMAL(38,18)[] AS nested`;
    await load(mirror, snapshot({ columns, files: [await parquet(folder, 'digits.parquet', select)] }));
    expect(await inMirror(folder, 'SELECT text::VARCHAR, nested::VARCHAR FROM parcels')).toEqual([
      [`{"a":[${LOST},2.5,"${LOST} nan"],"b":1e-400}`, '[0.123456789012345678,2.5]'],
    ]);
  });

  it.each([
    `{"a": ${LOST}}`,
    // Of a member that is there twice JSON.parse returns the last only.
    `{"a": ${LOST}, "a": 1}`,
    `[{"x": "\\"", "a": {"a": ${LOST}}, "a": []}]`,
  ])('falls back to the snapshot for a JSON number of changes that would lose digits: %s', async (value) => {
    const table = await writtenTable([column('id', 'integer', false), column('v "w"', 'json')]);
    const pages = [
      ['{"op":"added","row":{"id":1,"v \\"w\\"":[2.5]}}'],
      ['{"op":"added","row":{"id":2}}', `{ "row" : { "id":3, "v \\"w\\"" : ${value} }, "op" : "added" }`],
    ];
    const error = await table.apply(pages).catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(InapplicableChangesError);
    expect((error as Error).message).toContain(
      `on page 2, row 2 the column "v \\"w\\"" holds the number ${LOST}, which would lose digits`,
    );
  });

  it('applies changes with a number of many digits in another column, or outside the row', async () => {
    const table = await writtenTable([
      column('id', 'integer', false),
      column('v', 'json'),
      column('number', 'number'),
      column('text', 'string'),
    ]);
    const row = `{"id":1,"v":[2.5],"number":${LOST},"text":"${LOST}"}`;
    expect(await table.apply([[`{"op":"added","before":{"v":${LOST}},"row":${row}}`]])).toMatchObject({
      kind: 'committed',
    });
  });
});

it('F78 shows in the error the value that is no JSON, and not one that is null', async () => {
  const { mirror, folder } = await mirrorAtWork();
  const path = await parquet(folder, 'none.parquet', "SELECT unnest(['null', ' null', '[0.5]', '{']) AS v");
  const error = await loadError(mirror, snapshot({ columns: [modelColumn('v', 'json')], files: [path] }));
  expect(error).toBeInstanceOf(DataError);
  expect(error.message).toContain('the value "{", which cannot become a json without being changed');
});

it('F78 refuses a key that is the JSON value null, and two texts of one value as keys', async () => {
  const { mirror, folder } = await mirrorAtWork();
  const job = async (name: string, list: string) =>
    snapshot({
      columns: [modelColumn('v', 'json')],
      keyColumns: ['v'],
      files: [await parquet(folder, name, `SELECT unnest(${list}) AS v`)],
    });
  expect((await loadError(mirror, await job('null.parquet', "['1', 'null']"))).message).toContain(
    'is null in 1 of 2 rows, as in the file null.parquet',
  );
  expect((await loadError(mirror, await job('twice.parquet', `['[1,2]', '[1, 2]']`))).message).toContain(
    'The key v = "[1,2]" of parcels is there 2 times, as in the file twice.parquet',
  );
});
