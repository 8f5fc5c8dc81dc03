/**
 * Random geometries, and what they are in well-known text and binary by an encoder of the tests' own: every type, in both
 * orders of bytes, of ISO and of EWKB, with heights and measures.
 */

import fc from 'fast-check';
import type { Geometry, Position } from '../../fixtures/source/content.ts';

/** Numbers of a position and what they are beside longitude and latitude. */
export type Dimensions = 'XY' | 'XYZ' | 'XYM' | 'XYZM';

export const DIMENSIONS: readonly Dimensions[] = ['XY', 'XYZ', 'XYM', 'XYZM'];

/** A position has as many numbers as the dimensions have letters. */
export interface Shape {
  readonly dimensions: Dimensions;
  readonly geometry: Geometry;
}

const SIMPLE_TYPES = [
  'Point',
  'LineString',
  'Polygon',
  'MultiPoint',
  'MultiLineString',
  'MultiPolygon',
] as const;
const TYPES = [...SIMPLE_TYPES, 'GeometryCollection'] as const;

/** Coordinates of a GeoJSON or a WKT: finite, and below 1e308. */
export const writtenCoordinate = fc
  .oneof(
    fc.double({ min: -180, max: 180, noNaN: true }),
    fc.double({ min: -9e307, max: 9e307, noNaN: true }),
    fc.constantFrom(0, 1, 1e21, -1e-7, 5e-324, 2 ** 53 + 2, 1 / 3, 123_456_789.123_456_79),
    fc.integer(),
  )
  .map((number) => (number === 0 ? 0 : number));

/** Further coordinates that WKB may contain. */
export const binaryCoordinate = fc.oneof(
  writtenCoordinate,
  fc.constantFrom(-0, Number.MAX_VALUE, -Number.MAX_VALUE),
);

/** `maxParts` at every level; collections in collections to `depth`. A part of several may be empty. */
export function shapes(
  dimensions: readonly Dimensions[],
  coordinate: fc.Arbitrary<number>,
  { maxParts = 3, depth = 2 } = {},
): fc.Arbitrary<Shape> {
  return fc.constantFrom(...dimensions).chain((chosen) => {
    const position = fc.array(coordinate, { minLength: chosen.length, maxLength: chosen.length });
    return geometries(position, maxParts, depth).map((geometry) => ({ dimensions: chosen, geometry }));
  });
}

function geometries(
  position: fc.Arbitrary<Position>,
  maxParts: number,
  depth: number,
): fc.Arbitrary<Geometry> {
  const list = <Part>(part: fc.Arbitrary<Part>, minLength = 0) =>
    fc.array(part, { minLength, maxLength: maxParts });
  const orEmpty = fc.oneof(
    { weight: 5, arbitrary: position },
    { weight: 1, arbitrary: fc.constant<Position>([]) },
  );
  const ring = list(position, 1);
  const simple = fc.oneof(
    orEmpty.map((coordinates): Geometry => ({ type: 'Point', coordinates })),
    list(position).map((coordinates): Geometry => ({ type: 'LineString', coordinates })),
    list(ring).map((coordinates): Geometry => ({ type: 'Polygon', coordinates })),
    list(orEmpty).map((coordinates): Geometry => ({ type: 'MultiPoint', coordinates })),
    list(list(position)).map((coordinates): Geometry => ({ type: 'MultiLineString', coordinates })),
    list(list(ring)).map((coordinates): Geometry => ({ type: 'MultiPolygon', coordinates })),
  );
  if (depth === 0) return simple;
  const collection = list(geometries(position, maxParts, depth - 1)).map(
    (members): Geometry => ({ type: 'GeometryCollection', geometries: members }),
  );
  return fc.oneof({ weight: 4, arbitrary: simple }, { weight: 1, arbitrary: collection });
}

export interface Encoding {
  readonly flavour: 'ISO' | 'EWKB';
  /** For each geometry in turn, inner ones included; used again from the first one when all are used up. */
  readonly orders: readonly ('little' | 'big')[];
  /** The number of a coordinate system, with the outermost geometry. Only of EWKB. */
  readonly srid?: number;
}

/** As the mirror keeps it. */
export const CANONICAL: Encoding = { flavour: 'ISO', orders: ['little'] };

const EWKB_HEIGHT = 0x8000_0000;
const EWKB_MEASURE = 0x4000_0000;
const EWKB_SRID = 0x2000_0000;

/** In hexadecimal digits, in capitals. */
export function wkbOf({ dimensions, geometry }: Shape, encoding: Encoding): string {
  let written = 0;
  const isIso = encoding.flavour === 'ISO';
  const height = dimensions.includes('Z') ? (isIso ? 1_000 : EWKB_HEIGHT) : 0;
  const measure = dimensions.includes('M') ? (isIso ? 2_000 : EWKB_MEASURE) : 0;

  function bytesOf(given: Geometry, srid: number | undefined): Buffer {
    const isLittle = encoding.orders[written++ % encoding.orders.length] !== 'big';
    const word = (number: number): Buffer => {
      const bytes = Buffer.alloc(4);
      if (isLittle) bytes.writeUInt32LE(number);
      else bytes.writeUInt32BE(number);
      return bytes;
    };
    const position = (numbers: Position): Buffer => {
      const bytes = Buffer.alloc(8 * dimensions.length);
      for (let index = 0; index < dimensions.length; index += 1) {
        if (isLittle) bytes.writeDoubleLE(numbers[index] ?? Number.NaN, 8 * index);
        else bytes.writeDoubleBE(numbers[index] ?? Number.NaN, 8 * index);
      }
      return bytes;
    };
    const list = <Part>(parts: readonly Part[], write: (part: Part) => Buffer): Buffer =>
      Buffer.concat([word(parts.length), ...parts.map(write)]);
    const inside = (type: 'Point' | 'LineString' | 'Polygon') => (coordinates: unknown) =>
      bytesOf({ type, coordinates } as Geometry, undefined);
    const body = (): Buffer => {
      switch (given.type) {
        case 'Point':
          return position(given.coordinates);
        case 'LineString':
          return list(given.coordinates, position);
        case 'Polygon':
          return list(given.coordinates, (ring) => list(ring, position));
        case 'MultiPoint':
          return list(given.coordinates, inside('Point'));
        case 'MultiLineString':
          return list(given.coordinates, inside('LineString'));
        case 'MultiPolygon':
          return list(given.coordinates, inside('Polygon'));
        case 'GeometryCollection':
          return list(given.geometries, (member) => bytesOf(member, undefined));
      }
    };
    const type = TYPES.indexOf(given.type) + 1 + height + measure + (srid === undefined ? 0 : EWKB_SRID);
    const head = [Buffer.from([isLittle ? 1 : 0]), word(type), ...(srid === undefined ? [] : [word(srid)])];
    return Buffer.concat([...head, body()]);
  }
  return bytesOf(geometry, encoding.srid).toString('hex').toUpperCase();
}

/** Well-known text. */
export function wktOf({ dimensions, geometry }: Shape): string {
  const suffix = { XY: '', XYZ: ' Z', XYM: ' M', XYZM: ' ZM' }[dimensions];
  const numbers = (position: Position): string => position.join(' ');
  const list = <Part>(parts: readonly Part[], write: (part: Part) => string): string =>
    parts.length === 0 ? 'EMPTY' : `(${parts.map(write).join(', ')})`;
  const line = (positions: readonly Position[]): string => list(positions, numbers);
  const lines = (parts: readonly (readonly Position[])[]): string => list(parts, line);
  const text = (given: Geometry): string => {
    const name = `${given.type.toUpperCase()}${suffix} `;
    switch (given.type) {
      case 'Point':
        return name + (given.coordinates.length === 0 ? 'EMPTY' : `(${numbers(given.coordinates)})`);
      case 'MultiPoint':
        return (
          name +
          list(given.coordinates, (position) => (position.length === 0 ? 'EMPTY' : `(${numbers(position)})`))
        );
      case 'LineString':
        return name + line(given.coordinates);
      case 'Polygon':
      case 'MultiLineString':
        return name + lines(given.coordinates);
      case 'MultiPolygon':
        return name + list(given.coordinates, lines);
      case 'GeometryCollection':
        return name + list(given.geometries, text);
    }
  };
  return text(geometry);
}
