/** The net change of a backlog, and which changes are refused (F31, F33, F38, F39, F41). */

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  BadChangesError,
  DataError,
  InapplicableChangesError,
  UnknownColumnsError,
} from '../../src/model/errors.ts';
import { MAX_BYTES_AT_ONCE } from '../../src/staging/changes/pages.ts';
import { changeFolderOfTests } from '../support/change-folder.ts';
import {
  added,
  changeFolder,
  type Folded,
  pageOf,
  removed,
  type WrittenVersion,
} from '../support/change-pages.ts';
import { column } from '../support/duckdb-mirror.ts';
import { SEED } from '../support/seed.ts';

const folder = changeFolderOfTests();

const columns = [column('id', 'integer'), column('v', 'string')];
const table = { columns };

function row(id: number, value: string | null, op: 'added' | 'changed' = 'changed'): string {
  return `{"op":"${op}","row":{"id":${id},"v":${JSON.stringify(value)}}}`;
}

const gone = (id: number): string => removed(`{"id":${id}}`);
const version = (...changes: readonly string[]): WrittenVersion => ({ changes: [changes] });

/** What is there afterwards and what is not, by key. */
function result({ net, rows }: Folded): Record<string, unknown> {
  expect(rows.filter(([isPresent]) => isPresent === true)).toHaveLength(net.rows);
  expect(rows).toHaveLength(net.rows + net.removals);
  return Object.fromEntries(
    rows.map(([isPresent, id, value]) => [String(id), isPresent === true ? value : 'gone']),
  );
}

describe('the net change', () => {
  it('coalesces one version', async () => {
    const coalesced = await folder.coalesce(table, version(row(1, 'a', 'added'), row(2, null), gone(3)));
    expect(result(coalesced)).toEqual({ 1: 'a', 2: null, 3: 'gone' });
  });

  it('coalesces versions without changes to an empty net change', async () => {
    expect(result(await folder.coalesce(table, version(), { changes: [[], []] }))).toEqual({});
  });

  it('keeps the last operation for each key of several versions', async () => {
    const coalesced = await folder.coalesce(
      table,
      version(row(1, 'a'), row(2, 'a'), row(3, 'a'), gone(4), gone(5)),
      version(gone(1), row(2, 'b'), row(4, 'b', 'added')),
      version(row(1, 'c', 'added'), row(4, 'c')),
    );
    expect(result(coalesced)).toEqual({ 1: 'c', 2: 'b', 3: 'a', 4: 'c', 5: 'gone' });
  });

  it('keeps the row of a key that the same version removes, whichever comes first', async () => {
    const coalesced = await folder.coalesce(
      table,
      version(row(1, 'a'), gone(1), gone(2), gone(2), gone(3), row(3, 'b')),
    );
    expect(result(coalesced)).toEqual({ 1: 'a', 2: 'gone', 3: 'b' });
  });

  it('coalesces versions to the result of one after another', async () => {
    const change = fc.record({
      id: fc.integer({ min: 1, max: 6 }),
      op: fc.constantFrom('added', 'changed', 'removed', 'removed'),
      value: fc.string({ maxLength: 3 }),
    });
    const listed = fc.uniqueArray(change, {
      selector: ({ id, op }) => `${id} ${op === 'removed'}`,
      maxLength: 8,
    });
    const versions = fc.array(fc.array(listed, { minLength: 1, maxLength: 1 }), {
      minLength: 1,
      maxLength: 5,
    });
    const texts = ({ id, op, value }: { id: number; op: string; value: string }): string =>
      op === 'removed' ? gone(id) : row(id, value, op as 'added');
    await fc.assert(
      fc.asyncProperty(versions, async (backlog) => {
        const expected = new Map<string, string>();
        for (const [page = []] of backlog) {
          for (const { id } of page.filter(({ op }) => op === 'removed')) expected.set(String(id), 'gone');
          for (const { id, value } of page.filter(({ op }) => op !== 'removed'))
            expected.set(String(id), value);
        }
        const coalesced = await folder.coalesce(
          table,
          ...backlog.map((pages) => ({ changes: pages.map((page) => page.map(texts)) })),
        );
        expect(result(coalesced)).toEqual(Object.fromEntries(expected));
      }),
      { seed: SEED, numRuns: 25 },
    );
  });

  it('coalesces pages that are too large to be read at once', async () => {
    const long = 'x'.repeat(MAX_BYTES_AT_ONCE / 2);
    const pages = [[row(1, long), row(2, long), row(3, 'short')], [row(4, long)]];
    const { net, rows } = await folder.coalesce(table, { changes: pages }, version(row(3, 'later')));
    expect(net.rows).toBe(4);
    expect(rows.map(([, id, value]) => [id, String(value).length])).toEqual([
      ['1', long.length],
      ['2', long.length],
      ['3', 5],
      ['4', long.length],
    ]);
    const error = await folder.refusal(table, version(), {
      changes: [[], [row(1, long), row(2, long), row(3, 'short'), added('{"id":"x"}')]],
    });
    expect(error.message).toContain('Version 3 of parcels, page 2, row 4: the column "id" holds "x"');
  });

  it('falls back to the snapshot where there is not enough memory', async () => {
    const small = await changeFolder({ memoryLimitBytes: 20_000_000 });
    try {
      const many = Array.from({ length: 20 }, (_, id) => row(id, 'x'.repeat(MAX_BYTES_AT_ONCE / 40)));
      const error = await small.refusal(table, version(...many), version(row(1, 'a')));
      expect(error).toBeInstanceOf(InapplicableChangesError);
      expect(error).toMatchObject({ version: 2 });
    } finally {
      await small.close();
    }
  });

  it('coalesces keys of several columns, which a removal may give as a row', async () => {
    const keys = {
      columns: [column('b', 'date'), column('v', 'string'), column('a', 'string')],
      keyColumns: ['a', 'b'],
    };
    const { rows } = await folder.coalesce(
      keys,
      version(
        added('{"v":"x","a":"1","b":"2024-01-01"}'),
        removed('{"b":"2024-01-02","a":"1"}'),
        '{"op":"removed","row":{"a":"2","b":"2024-01-01","v":"old"}}',
        '{"op":"removed","key":null,"row":{"a":"3","b":"2024-01-01","left":"over"}}',
      ),
    );
    expect(rows).toEqual([
      [false, '2024-01-01', null, '2'],
      [false, '2024-01-01', null, '3'],
      [false, '2024-01-02', null, '1'],
      [true, '2024-01-01', 'x', '1'],
    ]);
  });

  it('coalesces columns with any name', async () => {
    const names = [
      'id',
      'ID',
      'Id',
      '',
      ' ',
      'op',
      'row',
      'present',
      'page',
      'c0',
      '__proto__',
      'constructor',
      '1',
      "it's; --",
      '"',
      'a.b',
      'a/b~0',
      '$ref',
      'é😀',
      '\\',
    ];
    const all = names.map((name) => column(name, 'string'));
    const members = names.map((name, index) => `${JSON.stringify(name)}:"${index}"`);
    const { rows } = await folder.coalesce(
      { columns: all },
      version(added(`{${members.join(',')}}`), removed('{"ID":"no","id":"gone"}')),
    );
    expect(rows).toEqual([
      [false, 'gone', ...names.slice(1).map(() => null)],
      [true, ...names.map((_, index) => String(index))],
    ]);
  });

  it('coalesces 200 columns', async () => {
    const many = Array.from({ length: 200 }, (_, index) =>
      column(index === 0 ? 'id' : `c${index}`, 'integer'),
    );
    const cells = many.map(({ name }, index) => `"${name}":${index}`);
    const { rows } = await folder.coalesce({ columns: many }, version(added(`{${cells.join(',')}}`)));
    expect(rows).toEqual([[true, ...many.map((_, index) => String(index))]]);
  });
});

describe('the columns of the net change', () => {
  it('takes the columns of the net change from the table', async () => {
    const { net } = await folder.coalesce(
      { columns: [...columns, column('new', 'date')], lacks: ['new'] },
      version(row(1, 'a')),
    );
    expect(net.columns.map(({ columnName, role }) => [columnName, role])).toEqual([
      ['id', 'key'],
      ['v', 'data'],
    ]);
  });
  it('takes the columns of the net change from the schema where columns are added', async () => {
    const added2 = {
      columns: [column('new', 'date'), ...columns],
      lacks: ['new'],
      envelopeColumns: [column('_at', 'string')],
      job: { addsColumns: true },
    };
    const { net, rows } = await folder.coalesce(
      added2,
      version(added('{"id":1,"new":"2024-01-01","_at":"x"}'), gone(2)),
    );
    expect(net.columns.map(({ columnName, role }) => [columnName, role])).toEqual([
      ['new', 'data'],
      ['id', 'key'],
      ['v', 'data'],
      ['_at', 'envelope'],
    ]);
    expect(rows).toEqual([
      [false, null, '2', null, null],
      [true, '2024-01-01', '1', null, 'x'],
    ]);
  });
  it('falls back to the snapshot where the schema is another than that of the table', async () => {
    const other = {
      columns,
      job: {
        schema: {
          datasetId: 'parcels',
          schemaVersion: '2',
          firstVersion: null,
          keyColumns: ['id'],
          envelopeColumns: [],
          changeFromPrevious: null,
        },
      },
    };
    const withColumns = (...list: ReturnType<typeof column>[]) => ({
      ...other,
      job: { schema: { ...other.job.schema, columns: list } },
    });
    for (const changed of [
      withColumns(column('id', 'integer')),
      withColumns(column('id', 'string'), column('v', 'string')),
      { columns, job: { schema: { ...other.job.schema, columns, keyColumns: ['v'] } } },
    ]) {
      expect(await folder.refusal(changed, version(row(1, 'a')))).toBeInstanceOf(InapplicableChangesError);
    }
    const twice = withColumns(column('id', 'integer'), column('v', 'string'), column('v', 'string'));
    expect(await folder.refusal(twice, version(row(1, 'a')))).toBeInstanceOf(DataError);
  });
});

describe('F39 column names', () => {
  it('refuses column names that the schema does not know', async () => {
    const error = await folder.refusal(
      table,
      version(row(1, 'a'), added('{"id":2,"V":"a","y":null}')),
      version(added('{"id":3,"z":1}')),
    );
    expect(error).toBeInstanceOf(UnknownColumnsError);
    expect(error).toMatchObject({
      datasetId: 'parcels',
      columns: ['V', 'y'],
      message: 'Version 2 of parcels, page 1, row 2 has columns that the schema does not know: "V", "y".',
    });
  });
  it('refuses a row with a column that is there twice', async () => {
    const error = await folder.refusal(
      table,
      version(row(1, 'a')),
      version(row(1, 'a'), added('{"id":2,"v":"a","v":"b"}')),
    );
    expect(error).toBeInstanceOf(BadChangesError);
    expect(error.message).toBe('Version 3 of parcels, page 1, row 2: the column "v" is there twice.');
    const inKey = await folder.refusal(table, version(removed('{"id":1,"id":2}')));
    expect(inKey.message).toContain('the column "id" is there twice');
  });
  it('falls back to the snapshot where rows do not carry a column of the table', async () => {
    const enveloped = { ...table, envelopeColumns: [column('_at', 'string')] };
    const error = await folder.refusal(
      enveloped,
      version(added('{"id":1,"_at":"x"}'), gone(3)),
      version(added('{"id":2}')),
    );
    expect(error).toBeInstanceOf(InapplicableChangesError);
    expect(error).toMatchObject({ version: 3 });
    expect(error.message).toContain('rows do not carry the column "_at" of the table');
  });
  it('falls back to the snapshot where rows carry a column that the table lacks', async () => {
    const without = { ...table, envelopeColumns: [column('_at', 'string')], lacks: ['_at'] };
    expect(result(await folder.coalesce(without, version(row(1, 'a'))))).toEqual({ 1: 'a' });
    const error = await folder.refusal(without, version(added('{"id":1,"_at":"x"}')));
    expect(error).toBeInstanceOf(InapplicableChangesError);
    expect(error.message).toContain('rows carry the column "_at", which the table lacks');
  });
});

describe('malformed changes', () => {
  const place = 'Version 3 of parcels, page 2, row 2: ';
  it.each([
    [
      '{"op":"upserted","row":{"id":1}}',
      'the operation is "upserted", which is none of added, changed and removed',
    ],
    ['{"op":1,"row":{"id":1}}', 'the operation is 1, which'],
    ['{"row":{"id":1}}', 'the operation is null, which'],
    ['null', 'the operation is null, which'],
    ['5', 'the operation is null, which'],
    ['{"op":"added"}', 'the change has the operation "added", but no row'],
    ['{"op":"changed","key":{"id":1}}', 'the change has the operation "changed", but no row'],
    ['{"op":"added","row":"id"}', 'the key column "id" is null'],
    ['{"op":"removed"}', 'the change has the operation "removed", but no key and no row'],
    ['{"op":"removed","key":"1"}', 'the key column "id" is null'],
    ['{"op":"added","row":{"v":"a"}}', 'the key column "id" is null'],
    ['{"op":"added","row":{"id":null,"v":"a"}}', 'the key column "id" is null'],
    ['{"op":"removed","key":{}}', 'the key column "id" is null'],
    ['{"op":"removed","key":{"v":"a"},"row":{"id":1}}', 'the key column "id" is null'],
    ['{"op":"removed","key":{"id":"x"}}', 'the column "id" holds "x", which is no integer of 64 bits'],
  ])('refuses the change %s', async (change, why) => {
    const error = await folder.refusal(table, version(row(1, 'a')), {
      changes: [[row(1, 'a')], [gone(2), change, 'null']],
    });
    expect(error).toBeInstanceOf(BadChangesError);
    expect(error).toMatchObject({ version: 3 });
    expect(error.message).toContain(place + why);
  });

  it('refuses a key that has a row twice in one version', async () => {
    const keys = { columns: [...columns, column('day', 'date')], keyColumns: ['id', 'day'] };
    const of = (day: string): string => added(`{"id":1,"day":"${day}"}`);
    const error = await folder.refusal(keys, version(of('2024-01-02')), {
      changes: [[of('2024-01-01'), of('2024-01-02')], [of('2024-01-01')]],
    });
    expect(error).toBeInstanceOf(BadChangesError);
    expect(error.message).toBe(
      'Version 3 of parcels, page 2, row 1: the key id = "1", day = "2024-01-01" has a row in this version already.',
    );
  });

  it.each([
    ['<html>', 'it is not in JSON'],
    ['{"changes":{}}', 'it has no list of changes'],
    ['{}', 'it has no list of changes'],
    [Buffer.from(pageOf([row(1, 'é')]), 'latin1'), 'it is not in UTF-8'],
  ])('refuses the page %s', async (page, why) => {
    const error = await folder.refusal(table, { pages: [pageOf([]), page] });
    expect(error).toBeInstanceOf(BadChangesError);
    expect(error.message).toBe(`Version 2 of parcels, page 2: ${why}.`);
  });
});

describe('F31 counts', () => {
  const one = version(row(1, 'a', 'added'), row(2, 'a'), row(3, 'a'), gone(4));
  const counts = { added: 1, changed: 2, removed: 1 };

  it('accepts counts that add up', async () => {
    const backlog = [{ ...one, counts, rowCount: 100 }, one, { ...version(gone(1), gone(2)), rowCount: 98 }];
    expect((await folder.coalesce(table, ...backlog)).net).toMatchObject({ rows: 1, removals: 3 });
  });
  it.each([
    [
      { ...counts, changed: 1 },
      '1 added, 2 changed and 1 removed, and the service counted 1 added, 1 changed and 1 removed',
    ],
    [{ added: 3, changed: 0, removed: 1 }, 'the service counted 3 added, 0 changed and 1 removed'],
  ])('refuses changes that are not those counted: %j', async (stated, why) => {
    const error = await folder.refusal(table, { ...one, counts }, { ...one, counts: stated });
    expect(error).toBeInstanceOf(InapplicableChangesError);
    expect(error).toMatchObject({ datasetId: 'parcels', version: 3 });
    expect(error.message).toContain(why);
  });
  it.each([
    [
      [{ ...one, rowCount: 101 }],
      2,
      '100 rows with 1 added, 2 changed and 1 removed are 100, and the service states 101',
    ],
    [[one, { ...version(gone(1)), rowCount: 100 }], 3, 'are 99, and the service states 100'],
  ])('refuses a row count that does not follow from the one before', async (backlog, wrong, why) => {
    const error = await folder.refusal(table, ...backlog);
    expect(error).toBeInstanceOf(InapplicableChangesError);
    expect(error).toMatchObject({ version: wrong });
    expect(error.message).toContain(why);
  });
});
