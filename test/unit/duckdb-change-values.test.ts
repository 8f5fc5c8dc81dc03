/** F40: a value of a change row arrives in the mirror as it is, or the changes are refused with its place. */

import { expect, it } from 'vitest';
import { BadChangesError } from '../../src/model/errors.ts';
import { COLUMN_TYPES, type ColumnType } from '../../src/model/records.ts';
import { column } from '../support/small-content.ts';
import { writtenTable } from '../support/written-changes.ts';

const POINT_AS_WKB = '01010000000000000000001440000000000000F03F';

const row = (id: number, value: string): string => `{"op":"added","row":{"id":${id},"v":${value}}}`;

it.each<[string, ColumnType, readonly (readonly [written: string, stored: string])[], readonly string[]]>([
  [
    'C4 C13 a string is a JSON string',
    'string',
    [
      ['""', ''],
      ['"it\'s \\"quoted\\", \\\\ and\\u0000"', 'it\'s "quoted", \\ and\0'],
      ['"שלום \\ud83d\\ude00"', 'שלום 😀'],
    ],
    ['1', '["a"]'],
  ],
  [
    'C5 C13 an integer is a JSON number of 64 bits, exact above 2^53, or a decimal string',
    'integer',
    [
      ['9007199254740993', '9007199254740993'],
      ['-9007199254740993', '-9007199254740993'],
      ['9223372036854775807', '9223372036854775807'],
      ['-9223372036854775808', '-9223372036854775808'],
      ['"9223372036854775807"', '9223372036854775807'],
      ['"-9223372036854775808"', '-9223372036854775808'],
      ['"9007199254740993"', '9007199254740993'],
    ],
    ['1.5', '"1.5"', '"yes"', '9223372036854775808', '"-9223372036854775809"'],
  ],
  [
    'C6 C13 a number is a JSON number',
    'number',
    [
      ['0.1', '0.1'],
      ['1', '1.0'],
      ['1.7976931348623157e308', '1.7976931348623157e+308'],
      ['5e-324', '5e-324'],
    ],
    ['"1.5"', '1e400'],
  ],
  [
    'C7 C13 a boolean is a JSON boolean',
    'boolean',
    [
      ['true', 'true'],
      ['false', 'false'],
    ],
    ['"yes"', '1'],
  ],
  [
    'C8 C13 a date is "YYYY-MM-DD"',
    'date',
    [
      ['"1600-02-29"', '1600-02-29'],
      ['"9999-12-31"', '9999-12-31'],
    ],
    ['"2023-02-29"', '"2024-01-01T00:00:00Z"'],
  ],
  [
    'C9 C13 a timestamp has an offset and is stored in UTC',
    'timestamp',
    [
      ['"2024-03-10T02:30:00.123456-06:00"', '2024-03-10 08:30:00.123456+00'],
      ['"2024-03-10T02:30:00Z"', '2024-03-10 02:30:00+00'],
      ['"1600-01-01T00:00:00+05:30"', '1599-12-31 18:30:00+00'],
    ],
    ['"2024-03-10T02:30:00"', '"2024-03-10"', '"2024-03-10T02:30:00.1234567Z"'],
  ],
  [
    'C10 C13 a geometry is GeoJSON, WKT or WKB in hexadecimal digits',
    'geometry',
    [
      ['{"type":"Point","coordinates":[5,1]}', 'POINT (5 1)'],
      ['"POINT (5 1)"', 'POINT (5 1)'],
      [`"${POINT_AS_WKB}"`, 'POINT (5 1)'],
      [`"${POINT_AS_WKB.toLowerCase()}"`, 'POINT (5 1)'],
      [
        '{"type":"Polygon","coordinates":[[[0,0],[4,0],[4,4.25],[0,0]],[[2,1],[3,1],[3,2],[2,1]]]}',
        'POLYGON ((0 0, 4 0, 4 4.25, 0 0), (2 1, 3 1, 3 2, 2 1))',
      ],
      ['"LINESTRING Z (0 0 1, 1 1 2)"', 'LINESTRING Z (0 0 1, 1 1 2)'],
    ],
    ['"here"', '{"type":"Circle","coordinates":[5,1]}', '"0101"'],
  ],
  [
    'C11 json is any JSON value',
    'json',
    [
      ['{"b":[1,null,9223372036854775808],"a":{}}', '{"b":[1,null,9223372036854775808],"a":{}}'],
      ['"text"', '"text"'],
      ['123456789012345678901234567890', '123456789012345678901234567890'],
      ['false', 'false'],
      ['[null]', '[null]'],
    ],
    [],
  ],
])('%s', async (_, type, accepted, refused) => {
  const table = await writtenTable([column('id', 'integer', false), column('v', type)]);
  const stored = () => table.rows(`id, ${type === 'geometry' ? 'ST_AsText(v)' : 'v::VARCHAR'}`);
  const expected = accepted.map(([, text], id) => [String(id), text]);

  expect(await table.apply([accepted.map(([text], id) => row(id, text))])).toMatchObject({
    kind: 'committed',
  });
  expect(await stored()).toEqual(expected);

  const removal = '{"op":"removed","key":{"id":0}}';
  for (const value of refused) {
    const error = await table.apply([[removal], [removal, row(9, value)]]).catch((thrown: unknown) => thrown);
    expect(error, value).toBeInstanceOf(BadChangesError);
    expect((error as BadChangesError).message).toContain(
      `Version 3 of parcels, page 2, row 2: the column "v" holds ${value}, which is no ${type}`,
    );
  }
  expect(await stored()).toEqual(expected);
});

it('C12 F78 sets a column to null that a row leaves out or states as null, also where it had a value', async () => {
  const columns = COLUMN_TYPES.map((type) => column(type, type));
  const table = await writtenTable([column('id', 'integer', false), ...columns]);
  const values = ['"a"', '1', '1.5', 'true', '"2024-01-01"', '"2024-01-01T00:00:00Z"', '"POINT (5 1)"', '{}'];
  const members = COLUMN_TYPES.map((type, index) => `"${type}":${values[index]}`);
  await table.apply([[`{"op":"added","row":{"id":1,${members}}}`]]);
  const nulls = COLUMN_TYPES.map((type) => `"${type}" IS NULL`);
  expect(await table.rows(['id', ...nulls].join())).toEqual([['1', ...COLUMN_TYPES.map(() => false)]]);
  const written = COLUMN_TYPES.map((type) => `"${type}":null`);
  await table.apply([['{"op":"changed","row":{"id":1}}', `{"op":"added","row":{"id":2,${written}}}`]]);
  expect(await table.rows(['id', ...nulls].join())).toEqual([
    ['1', ...COLUMN_TYPES.map(() => true)],
    ['2', ...COLUMN_TYPES.map(() => true)],
  ]);
});

it('F39 C17 reads GeoJSON into a geometry column of any name', async () => {
  const name = '__proto__';
  const columns = [column('id', 'integer', false), column(name, 'geometry')];
  const table = await writtenTable(columns, [[1, { type: 'Point', coordinates: [1, 2] }]]);
  const change = `{"op":"changed","row":{"id":1,"${name}":{"type":"Point","coordinates":[3,4]}}}`;
  expect(await table.apply([[change]])).toMatchObject({ kind: 'committed' });
  expect(await table.rows(`ST_AsText("${name}")`)).toEqual([['POINT (3 4)']]);
});
