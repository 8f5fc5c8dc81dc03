/** The row of the table that a change concerns: keys of removals, and keys that are listed twice. */

import { expect, it } from 'vitest';
import type { Cell, ColumnType, Geometry } from '../../fixtures/source/content.ts';
import { BadChangesError } from '../../src/model/errors.ts';
import { column } from '../support/small-content.ts';
import { writtenTable } from '../support/written-changes.ts';

const COLUMNS = [column('part', 'string', false), column('id', 'integer', false), column('name', 'string')];
const KEY = { keyColumns: ['id', 'part'] };
const FOUR = [
  ['a', 1, 'one'],
  ['a', 2, 'two'],
  ['b', 1, 'three'],
  ['b', 2, 'four'],
] as const;

it('C14 takes the key columns of a removed row from its key, or from its row where there is no key', async () => {
  const table = await writtenTable(COLUMNS, FOUR, KEY);
  const removed = (members: string) => `{"op":"removed",${members}}`;
  await table.apply([
    [removed('"key":{"id":1,"part":"a"}'), removed('"row":{"id":2,"part":"a"}')],
    [removed('"key":null,"row":{"part":"b","id":1,"name":"of old"}')],
  ]);
  expect(await table.rows()).toEqual([['b', '2', 'four']]);

  for (const [members, reported] of [
    ['"key":{"id":2}', 'the key column "part" is null'],
    ['"row":{"part":"b"}', 'the key column "id" is null'],
    ['"why":"gone"', 'no key and no row'],
  ]) {
    const error = await table.apply([[removed(members ?? '')]]).catch((thrown: unknown) => thrown);
    expect(error, members).toBeInstanceOf(BadChangesError);
    expect((error as BadChangesError).message).toContain(reported);
  }
});

it('C15 takes added and changed rows for upserts, and ignores a removal of a key that is not there', async () => {
  const table = await writtenTable(COLUMNS, FOUR, KEY);
  const outcome = await table.apply([
    [
      '{"op":"added","row":{"part":"a","id":1,"name":"ONE"}}',
      '{"op":"changed","row":{"part":"c","id":1,"name":"new"}}',
      '{"op":"removed","key":{"id":9,"part":"a"}}',
    ],
  ]);
  expect(outcome).toMatchObject({ committed: { rowCount: 5, net: { added: 1, changed: 1, removed: 0 } } });
  expect(await table.rows()).toEqual([
    ['a', '1', 'ONE'],
    ['a', '2', 'two'],
    ['b', '1', 'three'],
    ['b', '2', 'four'],
    ['c', '1', 'new'],
  ]);
});

it('C16 keeps the row of a key that one version lists with a row and as removed, in any order and on any page', async () => {
  const table = await writtenTable(COLUMNS, FOUR.slice(0, 2), KEY);
  const removal = (id: number) => `{"op":"removed","key":{"part":"a","id":${id}}}`;
  const pages = [
    ['{"op":"changed","row":{"part":"a","id":1,"name":"ONE"}}', removal(1), removal(2), removal(3)],
    [
      '{"op":"added","row":{"part":"a","id":2,"name":"TWO"}}',
      '{"op":"added","row":{"part":"a","id":3,"name":"THREE"}}',
    ],
  ];
  expect(await table.apply(pages)).toMatchObject({ committed: { rowCount: 3 } });
  expect(await table.rows()).toEqual([
    ['a', '1', 'ONE'],
    ['a', '2', 'TWO'],
    ['a', '3', 'THREE'],
  ]);
});

const POINT: Geometry = { type: 'Point', coordinates: [1, 2] };
const EMPTY: Geometry = { type: 'GeometryCollection', geometries: [] };

it.each<[ColumnType, string, readonly [Cell, string], readonly [Cell, string]]>([
  ['string', 'name', ['a', '"a"'], ['A', '"A"']],
  ['integer', 'name', [1, '"01"'], [-1, '-1.0']],
  ['number', 'name', [0.1, '1e-1'], [Number.MAX_VALUE, '1.7976931348623157e308']],
  ['boolean', 'name', [true, 'true'], [false, 'false']],
  ['date', 'name', ['2024-02-29', '"2024-02-29"'], ['0001-01-01', '"0001-01-01"']],
  [
    'timestamp',
    'name',
    ['2024-01-01T00:00:00Z', '"2024-01-01T01:00:00+01:00"'],
    ['1969-01-01T00:00:00Z', '"1969-01-01T00:00:00Z"'],
  ],
  ['json', 'name', [{ json: 'a' }, '"a"'], [{ json: 1 }, '1']],
  ['geometry', 'name', [POINT, '"POINT (1 2)"'], [EMPTY, '{"type":"GeometryCollection","geometries":[]}']],
  // A column of this name makes feed-sync rewrite the table.
  ['geometry', 'rowid', [POINT, '"POINT (1 2)"'], [EMPTY, '{"type":"GeometryCollection","geometries":[]}']],
])(
  'finds a row by a key of type %s beside the column %s, however the key is written',
  async (type, name, [first, firstText], [second, secondText]) => {
    const table = await writtenTable(
      [column('id', type, false), column(name, 'string')],
      [
        [first, 'one'],
        [second, 'two'],
      ],
    );
    const changes = [
      `{"op":"changed","row":{"id":${firstText},"${name}":"ONE"}}`,
      `{"op":"removed","key":{"id":${secondText}}}`,
    ];
    const net = { added: 0, changed: 1, removed: 1 };
    expect(await table.apply([changes])).toMatchObject({ committed: { rowCount: 1, net } });
    expect(await table.rows(`"${name}"`)).toEqual([['ONE']]);
  },
);
