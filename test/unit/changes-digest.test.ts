/** The digest of a net change names its content: an operator approves exactly that. */

import { expect, it } from 'vitest';
import { netRows } from '../../src/staging/changes/net-change.ts';
import { digestOfNetChange } from '../../src/staging/changes/net-digest.ts';
import { changeFolderOfTests } from '../support/change-folder.ts';
import { added, type ChangesTable, removed, type WrittenVersion } from '../support/change-pages.ts';
import { column } from '../support/duckdb-mirror.ts';

const columns = [
  column('id', 'integer'),
  column('v', 'string'),
  column('w', 'string'),
  column('g', 'geometry'),
];
const table = { columns };
const point = (x: number): string => `{"type":"Point","coordinates":[${x},2]}`;
const one = added(`{"id":1,"v":"a","w":"b","g":${point(1)}}`);
const two = added('{"id":2,"v":"c","w":null,"g":null}');
const gone = removed('{"id":3}');

const folder = changeFolderOfTests();

it('gives the same digest whatever the order of the rows, their pages and their versions', async () => {
  const digest = await digestOf({ changes: [[one, two, gone]] });
  expect(digest).toMatch(/^[0-9a-f]{64}$/);
  expect(await digestOf({ changes: [[gone, two], [one]] })).toBe(digest);
  expect(
    await digestOf({ changes: [[gone]] }, { changes: [[two, removed('{"id":1}')]] }, { changes: [[one]] }),
  ).toBe(digest);
});

it.each([
  ['a row less', [one, gone]],
  ['a removal less', [one, two]],
  ['a removal of another row', [one, two, removed('{"id":4}')]],
  ['a removal where a row was', [removed('{"id":1}'), two, gone]],
  ['another key', [added(`{"id":5,"v":"a","w":"b","g":${point(1)}}`), two, gone]],
  ['another value', [added(`{"id":1,"v":"A","w":"b","g":${point(1)}}`), two, gone]],
  ['a value in the next column', [added(`{"id":1,"v":"b","w":"a","g":${point(1)}}`), two, gone]],
  ['a text where none was', [one, added('{"id":2,"v":"c","w":"-","g":null}'), gone]],
  ['an empty text where none was', [one, added('{"id":2,"v":"c","w":"","g":null}'), gone]],
  ['another geometry', [added(`{"id":1,"v":"a","w":"b","g":${point(1.000_000_000_000_000_2)}}`), two, gone]],
  [
    'values of two rows exchanged',
    [added(`{"id":2,"v":"a","w":"b","g":${point(1)}}`), added('{"id":1,"v":"c","w":null,"g":null}'), gone],
  ],
])('gives another digest with %s', async (_, changes) => {
  expect(await digestOf({ changes: [changes] })).not.toBe(await digestOf({ changes: [[one, two, gone]] }));
});

it('gives another digest with other columns, even where the values are the same', async () => {
  const change = { changes: [[added('{"id":1,"v":"7"}')]] };
  const digests = [
    await digestOf(change),
    await digestOfTable({ columns: [column('id', 'integer'), column('v', 'string')] }, change),
    await digestOfTable(
      { columns: [column('id', 'string'), column('v', 'string')] },
      {
        changes: [[added('{"id":"1","v":"7"}')]],
      },
    ),
    await digestOfTable(
      { columns: [column('id', 'integer'), column('u', 'string')] },
      {
        changes: [[added('{"id":1,"u":"7"}')]],
      },
    ),
    await digestOfTable(
      { columns: [column('id', 'integer'), column('v', 'string')], keyColumns: ['id', 'v'] },
      change,
    ),
  ];
  expect(new Set(digests).size).toBe(digests.length);
});

it('gives a digest for no changes at all', async () => {
  expect(await digestOf({ changes: [[]] })).toMatch(/^[0-9a-f]{64}$/);
});

async function digestOf(...versions: readonly WrittenVersion[]): Promise<string> {
  return await digestOfTable(table, ...versions);
}

async function digestOfTable(given: ChangesTable, ...versions: readonly WrittenVersion[]): Promise<string> {
  const { net } = await folder.coalesce(given, ...versions);
  return await digestOfNetChange(folder.engine, netRows(net), net.columns);
}
