/** F40: every value of a change row is in the net change as it was written, or is refused by its place and text. */

import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import type { Row } from '../../fixtures/source/content.ts';
import { initialContent } from '../../fixtures/source/generated-content.ts';
import { specimens } from '../../fixtures/source/specimens.ts';
import { columnsOf, rowToJsonText } from '../../fixtures/source/wire.ts';
import { BadChangesError, InapplicableChangesError } from '../../src/model/errors.ts';
import type { ColumnType } from '../../src/model/records.ts';
import { textOfCell, textOfMirrored } from '../support/cell-text.ts';
import { added, type ChangeFolder, changeFolder } from '../support/change-pages.ts';
import { column } from '../support/duckdb-mirror.ts';

let folder: ChangeFolder;
beforeAll(async () => {
  // A zone with hours that do not exist: timestamps and dates must not care.
  vi.stubEnv('TZ', 'America/Chicago');
  folder = await changeFolder();
});
afterAll(async () => {
  await folder.close();
  vi.unstubAllEnvs();
});

const tableOf = (type: ColumnType) => ({ columns: [column('id', 'integer'), column('v', type)] });
const rowOf = (id: number, value: string): string => added(`{"id":${id},"v":${value}}`);

/** The values of the net change, as text. */
async function decoded(type: ColumnType, values: readonly string[]): Promise<readonly unknown[]> {
  const { rows } = await folder.coalesce(tableOf(type), {
    changes: [values.map((value, id) => rowOf(id, value))],
  });
  return rows.toSorted((left, right) => Number(left[1]) - Number(right[1])).map((row) => row[2]);
}

describe('F40 values that are kept', () => {
  it.each<[ColumnType, readonly (readonly [written: string, kept: string | null])[]]>([
    [
      'string',
      [
        ['"\\u0000 and \\u001f"', '\0 and \u001f'],
        ['"\\ufeffmark \\/ \\ud83d\\ude00"', '\ufeffmark / 😀'],
        ['"null"', 'null'],
        ['null', null],
      ],
    ],
    [
      'integer',
      [
        ['-9223372036854775808', '-9223372036854775808'],
        ['9223372036854775807', '9223372036854775807'],
        ['"-9223372036854775808"', '-9223372036854775808'],
        ['"007"', '7'],
        ['-0', '0'],
        ['1.0', '1'],
        ['-1e3', '-1000'],
        ['123456789012345.0', '123456789012345'],
        ['1e18', '1000000000000000000'],
      ],
    ],
    [
      'number',
      [
        ['1.7976931348623157e308', '1.7976931348623157e+308'],
        ['-5e-324', '-5e-324'],
        ['0.1000000000000000055511151231257827', '0.1'],
        ['123456789012345678901234567890', '1.2345678901234568e+29'],
        ['9007199254740993', '9007199254740992.0'],
      ],
    ],
    [
      'boolean',
      [
        ['true', 'true'],
        ['false', 'false'],
        ['null', null],
      ],
    ],
    [
      'date',
      [
        ['"0001-01-01"', '0001-01-01'],
        ['"1600-02-29"', '1600-02-29'],
        ['"2024-03-10"', '2024-03-10'],
        ['"9999-12-31"', '9999-12-31'],
      ],
    ],
    [
      'timestamp',
      [
        ['"1970-01-01T00:00:00.000001Z"', '1'],
        ['"1969-12-31t23:59:59.999999000z"', '-1'],
        ['"1970-01-01T00:00:00+23:59"', '-86340000000'],
        ['"1970-01-01T00:00:00.5-00:30"', '1800500000'],
        ['"1600-01-01T00:00:00Z"', '-11676096000000000'],
        ['"9999-12-31T23:59:59.999999-01:00"', '253402304399999999'],
      ],
    ],
    [
      'json',
      [
        ['{"b": [1, {"a": null}], "b": 2}', '{"b":[1,{"a":null}],"b":2}'],
        [
          '[18446744073709551616,-9223372036854775809,1E400]',
          '[18446744073709551616,-9223372036854775809,1E400]',
        ],
        ['[0.1, 12345.678901234567, 2.0]', '[0.1,12345.678901234567,2.0]'],
        ['"\\u0000"', '"\\u0000"'],
        ['"null"', '"null"'],
        ['{"a":"NaN",":Infinity":[",]"]}', '{"a":"NaN",":Infinity":[",]"]}'],
      ],
    ],
  ])('keeps values of the type %s as they were written', async (type, values) => {
    expect(
      await decoded(
        type,
        values.map(([written]) => written),
      ),
    ).toEqual(values.map(([, kept]) => kept));
  });

  it('keeps every extreme value of every type, as a snapshot has it', async () => {
    const { schema, rows } = initialContent(specimens(1));
    const columns = columnsOf(schema).map(({ name, type }) => column(name, type));
    const { keyColumns } = schema;
    const written = [...rows()];
    const page = (nulls: 'left out' | 'written') => ({
      changes: [written.map((row) => added(rowToJsonText(schema, row, { nulls })))],
    });
    const expected = written.map((row: Row) =>
      columns.map(({ type }, index) => textOfCell(type as ColumnType, row[index] ?? null)),
    );
    for (const nulls of ['left out', 'written'] as const) {
      const { rows: coalesced } = await folder.coalesce({ columns, keyColumns }, page(nulls));
      const texts = coalesced.map((cells) =>
        columns.map(({ type }, index) =>
          textOfMirrored(type as ColumnType, cells[index + 1] as string | null),
        ),
      );
      expect(new Set(texts.map((text) => JSON.stringify(text)))).toEqual(
        new Set(expected.map((text) => JSON.stringify(text))),
      );
    }
  });
});

describe('F40 values that do not fit their type', () => {
  it.each<[ColumnType, string, readonly string[]]>([
    ['string', 'string', ['5', 'true', '{"a":1}']],
    [
      'integer',
      'integer of 64 bits',
      [
        '1.5',
        '"1.0"',
        '""',
        '" 1"',
        '"1_000"',
        '"0x10"',
        '"+1"',
        '9223372036854775808',
        '1e400',
        '10000000000000000000.0',
        'true',
        '[1]',
      ],
    ],
    ['number', 'number that a double can hold', ['"1.5"', '-1e400', 'true', '{}', 'NaN', '-Infinity']],
    ['boolean', 'boolean', ['"true"', '0']],
    [
      'date',
      'date of the form YYYY-MM-DD',
      ['"2023-02-29"', '"2024-1-1"', '"2024-01-01T00:00:00Z"', '"infinity"', '"2024-01-01 (BC)"', '20240101'],
    ],
    [
      'timestamp',
      'timestamp with an offset and no more than microseconds',
      [
        '"2024-01-01T00:00:00"',
        '"2024-01-01 00:00:00Z"',
        '"2024-01-01T00:00:00+05"',
        '"2024-01-01T00:00:00+24:00"',
        '"2024-01-01T24:00:00Z"',
        '"2016-12-31T23:59:60Z"',
        '"2024-02-30T00:00:00Z"',
        '"2024-01-01T00:00:00.0000001Z"',
        '1704067200',
      ],
    ],
    ['json', 'JSON', ['NaN', '-Infinity', '{"a":NaN}', '[1,{"b":[Infinity]}]', '["NaN",NaN]']],
  ])('refuses values that do not fit the type %s', async (type, words, values) => {
    for (const value of values) {
      const error = await folder.refusal(tableOf(type), {
        changes: [[rowOf(1, 'null')], [rowOf(2, 'null'), rowOf(3, value)]],
      });
      expect(error, value).toBeInstanceOf(BadChangesError);
      expect(error).toMatchObject({
        datasetId: 'parcels',
        version: 2,
        message: `Version 2 of parcels, page 2, row 2: the column "v" holds ${value}, which is no ${words}.`,
        hint: 'To load the snapshot instead: feed-sync resync parcels',
      });
    }
  });

  it.each([
    ['1.00000000000000000001', 'integer'],
    ['999999999999999.01', 'integer'],
    ['9007199254740993.0', 'integer'],
  ])('refuses %s as an integer, which DuckDB would make a whole number', async (value) => {
    const error = await folder.refusal(tableOf('integer'), {
      changes: [[rowOf(1, '2.0')], [rowOf(2, value)]],
    });
    expect(error).toBeInstanceOf(BadChangesError);
    expect(error.message).toContain(`page 2, row 1: the column "v" holds ${value}, which is no integer`);
  });

  it('falls back to the snapshot for numbers inside JSON that would lose digits', async () => {
    for (const value of ['{"a":[0.12345678901234567890]}', '1e-400', '[1.00000000000000000001]']) {
      const error = await folder.refusal(tableOf('json'), {
        changes: [[rowOf(1, '[2.5]')], [rowOf(2, value)]],
      });
      expect(error, value).toBeInstanceOf(InapplicableChangesError);
      expect(error.message).toContain('on page 2, row 1 the column "v" holds the number ');
    }
  });

  it('refuses half of a character, by itself or in a JSON value', async () => {
    const bad = '\\ud800';
    for (const [type, value] of [
      ['string', `"a${bad}"`],
      ['json', `{"x":["${bad}"]}`],
      ['json', `{"${bad}":1}`],
    ] as const) {
      const error = await folder.refusal(tableOf(type), {
        changes: [[rowOf(1, 'null')], [rowOf(2, 'null'), rowOf(3, value)]],
      });
      expect(error).toBeInstanceOf(BadChangesError);
      expect(error.message).toMatch(
        /^Version 2 of parcels, page 2, row 2: the column "v" holds ".*\\ud800", which is no text/,
      );
    }
  });

  it('shows a long value in part', async () => {
    const error = await folder.refusal(tableOf('integer'), { changes: [[rowOf(1, `"${'x'.repeat(500)}"`)]] });
    expect(error.message).toContain(`holds "${'x'.repeat(199)}, which`);
  });
});
