/** Random values of every column type, each with several ways to write it in a change row. */

import fc from 'fast-check';
import type { Cell, ColumnType, JsonValue } from '../../fixtures/source/content.ts';
import { CANONICAL, shapes, wkbOf, wktOf, writtenCoordinate } from './geometries.ts';

export interface WrittenValue {
  readonly cell: Cell;
  /** JSON texts, all of which mean this cell. */
  readonly spellings: readonly string[];
}

const FIRST_MOMENT = Date.parse('0001-01-02T00:00:00Z');
const LAST_MOMENT = Date.parse('9999-12-30T00:00:00Z');

const string = fc
  .oneof(
    fc.string({ unit: 'binary' }),
    fc.constantFrom('', '\0', 'null', '\ufeff', "'; DROP TABLE x; --", '😀'),
  )
  .map((text) => ({ cell: text, spellings: [JSON.stringify(text), escaped(text)] }));

const integer = fc
  .oneof(fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }), fc.bigInt({ min: -9n, max: 9n }))
  .map((number) => {
    const padded = `${number < 0n ? '-' : ''}00${number < 0n ? -number : number}`;
    const spellings = [`${number}`, `"${number}"`, `"${padded}"`];
    return {
      cell: number,
      spellings: number > -(10n ** 15n) && number < 10n ** 15n ? [...spellings, `${number}.0`] : spellings,
    };
  });

const number = fc.double({ noNaN: true, noDefaultInfinity: true }).map((double) => ({
  cell: double,
  spellings: Object.is(double, -0)
    ? ['-0.0', '0']
    : [JSON.stringify(double), double.toExponential(), double.toPrecision(17)],
}));

const boolean = fc.boolean().map((truth) => ({ cell: truth, spellings: [String(truth)] }));

const milliseconds = fc.integer({ min: FIRST_MOMENT, max: LAST_MOMENT });

const date = milliseconds.map((timestamp) => {
  const text = new Date(timestamp).toISOString().slice(0, 10);
  return { cell: text, spellings: [`"${text}"`] };
});

const timestamp = fc
  .tuple(milliseconds, fc.nat(999), fc.integer({ min: -1_439, max: 1_439 }))
  .map(([timestamp, microseconds, offset]) => {
    const micros = String(microseconds).padStart(3, '0');
    const at = (minutes: number): string =>
      new Date(timestamp + minutes * 60_000).toISOString().slice(0, -1) + micros;
    const two = (part: number): string => String(part).padStart(2, '0');
    const zone = `${offset < 0 ? '-' : '+'}${two(Math.trunc(Math.abs(offset) / 60))}:${two(Math.abs(offset) % 60)}`;
    const text = `${at(0)}Z`;
    return {
      cell: text,
      spellings: [`"${text}"`, `"${at(offset)}${zone}"`, `"${text.toLowerCase()}"`, `"${at(0)}000z"`],
    };
  });

const geometry = shapes(['XY', 'XYZ'], writtenCoordinate, { depth: 1 }).map((shape) => {
  // Without a position nothing in GeoJSON says that there are heights.
  const plain = /\d/.test(JSON.stringify(shape.geometry)) ? shape : { ...shape, dimensions: 'XY' as const };
  const bigEndian = wkbOf(plain, { flavour: 'EWKB', orders: ['big', 'little'] });
  return {
    cell: plain.geometry,
    spellings: [
      JSON.stringify(plain.geometry),
      `"${wktOf(plain)}"`,
      `"${wkbOf(plain, CANONICAL)}"`,
      `"${bigEndian}"`,
    ],
  };
});

const json = fc.jsonValue({ maxDepth: 3, stringUnit: 'binary' }).map((value) => written(value as JsonValue));

function written(value: JsonValue): WrittenValue {
  return { cell: { json: value }, spellings: [JSON.stringify(value), JSON.stringify(value, null, 1)] };
}

/** Every character as its escape. */
export function escaped(text: string): string {
  const digits = Array.from({ length: text.length }, (_, at) =>
    text.charCodeAt(at).toString(16).padStart(4, '0'),
  );
  return `"${digits.map((four) => `\\u${four}`).join('')}"`;
}

export const VALUES: Readonly<Record<ColumnType, fc.Arbitrary<WrittenValue>>> = {
  string,
  integer,
  number,
  boolean,
  date,
  timestamp,
  geometry,
  json,
};

/** Of a key: a null is none, and two JSON texts may mean one value, but are two keys. */
export const KEY_VALUES: Readonly<Record<ColumnType, fc.Arbitrary<WrittenValue>>> = {
  ...VALUES,
  json: fc.oneof(fc.string({ unit: 'binary' }), fc.integer(), fc.boolean()).map(written),
};
