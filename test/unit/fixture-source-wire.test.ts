import { describe, expect, it } from 'vitest';
import type { Cell, SourceColumn, SourceSchema } from '../../fixtures/source/content.ts';
import { EXTREME_TEXTS } from '../../fixtures/source/extreme-texts.ts';
import { keyToJsonText, rowToJsonText } from '../../fixtures/source/wire.ts';

const SCHEMA: SourceSchema = {
  schemaVersion: '1',
  columns: [
    { name: 'id', type: 'integer', nullable: false },
    { name: '__proto__', type: 'string', nullable: true },
    { name: '1', type: 'json', nullable: true },
    { name: 'geometry', type: 'geometry', nullable: true },
  ],
  keyColumns: ['__proto__', 'id'],
  envelopeColumns: [{ name: '_feed_row_id', type: 'string', nullable: true }],
};

function textOf(type: SourceColumn['type'], cell: Cell): string {
  const columns: SourceColumn[] = [{ name: 'value', type, nullable: true }];
  return rowToJsonText({ schemaVersion: '1', columns, keyColumns: [], envelopeColumns: [] }, [cell]);
}

describe('rowToJsonText', () => {
  it('writes the columns in their order, whatever their names, with the envelope last', () => {
    const row: Cell[] = [1, 'a', { json: [null, { b: 2 }] }, { type: 'Point', coordinates: [1, 2] }, 'r1'];
    expect(rowToJsonText(SCHEMA, row)).toBe(
      '{"id":1,"__proto__":"a","1":[null,{"b":2}],"geometry":{"type":"Point","coordinates":[1,2]},"_feed_row_id":"r1"}',
    );
  });

  it('omits nulls by default, or writes them', () => {
    const row = [1, null, null, null, null];
    expect(rowToJsonText(SCHEMA, row)).toBe('{"id":1}');
    expect(rowToJsonText(SCHEMA, row, { nulls: 'written' })).toBe(
      '{"id":1,"__proto__":null,"1":null,"geometry":null,"_feed_row_id":null}',
    );
    expect(textOf('json', { json: null })).toBe('{"value":null}');
  });

  it('writes integers digit by digit and the sign of zero', () => {
    expect(textOf('integer', -(2n ** 63n))).toBe('{"value":-9223372036854775808}');
    expect(textOf('integer', 2n ** 63n - 1n)).toBe('{"value":9223372036854775807}');
    expect(textOf('number', -0)).toBe('{"value":-0.0}');
    expect(textOf('number', 0.1 + 0.2)).toBe('{"value":0.30000000000000004}');
  });

  it('writes every extreme text so that it parses to itself', () => {
    for (const text of EXTREME_TEXTS) expect(JSON.parse(textOf('string', text))).toEqual({ value: text });
  });

  it.each<[SourceColumn['type'], Cell]>([
    ['integer', 1.5],
    ['integer', 2 ** 53],
    ['integer', 2n ** 63n],
    ['number', Number.NaN],
    ['boolean', 'true'],
    ['string', 1],
  ])('refuses a cell of type %s with the value %s', (type, cell) => {
    expect(() => textOf(type, cell)).toThrow(`The column "value" of type ${type}`);
  });

  it('refuses a row with another number of cells than columns', () => {
    expect(() => rowToJsonText(SCHEMA, [1])).toThrow('1 cells were given for 5 columns');
  });
});

describe('keyToJsonText', () => {
  it('writes the key columns in the order of the key', () => {
    expect(keyToJsonText(SCHEMA, ['a"b', 2n ** 60n])).toBe('{"__proto__":"a\\"b","id":1152921504606846976}');
  });

  it('refuses a key column that is not a column', () => {
    expect(() => keyToJsonText({ ...SCHEMA, keyColumns: ['absent'] }, [1])).toThrow(
      '"absent" is not a column',
    );
  });
});
