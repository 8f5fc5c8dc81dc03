/**
 * A geometry is what it was, however it was written; well-known binary that is cut or damaged is refused, or is what an
 * independent reader makes of it (C10, C13).
 */

import fc from 'fast-check';
import { describe, expect } from 'vitest';
import { BadChangesError } from '../../src/model/errors.ts';
import { decodeGeometry, isOneGeometry, withGeometrySteps } from '../../src/staging/changes/geometry.ts';
import { changeFolderOfTests } from '../support/change-folder.ts';
import { added } from '../support/change-pages.ts';
import { column } from '../support/duckdb-mirror.ts';
import {
  binaryCoordinate,
  CANONICAL,
  DIMENSIONS,
  type Encoding,
  type Shape,
  shapes,
  wkbOf,
  wktOf,
  writtenCoordinate,
} from './geometries.ts';
import { property } from './property.ts';
import { canonicalWkb } from './wkb-reader.ts';

const CRS = 'OGC:CRS84';
const SRID_OF_WGS_84 = 4_326;
const SHAPES_AT_ONCE = 20;

const folder = changeFolderOfTests();

const columns = [column('id', 'integer'), column('g', 'geometry')];

/** The WKB of the values of one page, each a JSON text. */
async function coalesced(values: readonly string[]): Promise<readonly unknown[]> {
  const changes = [values.map((value, id) => added(`{"id":${id},"g":${value}}`))];
  const { rows } = await folder.coalesce({ columns, crs: CRS }, { changes });
  return rows.toSorted((left, right) => Number(left[1]) - Number(right[1])).map((row) => row[2]);
}

/** The WKB of each text of hexadecimal digits by what decides in a fold, which ends where a value is refused; null where it is. */
async function decoded(digits: readonly string[]): Promise<readonly (string | null)[]> {
  const values = digits.map((text, position) => `(${position}, '"${text}"')`).join(', ');
  const steps = withGeometrySteps(`SELECT * FROM (VALUES ${values}) AS v(place, cell)`, ['cell'], 'every');
  const value = decodeGeometry('cell', { forms: 'every', crs: CRS, refused: 'NULL' });
  const rows = await folder.engine.rows(`SELECT hex(TRY(${value})) FROM (${steps}) ORDER BY place`);
  return rows.map(([wkb = null], index) => {
    const isOne = isOneGeometry(Buffer.from(digits[index] ?? '', 'hex'));
    return wkb === null || !isOne ? null : String(wkb);
  });
}

const encoding: fc.Arbitrary<Encoding> = fc.oneof(
  fc.record({
    flavour: fc.constant('ISO' as const),
    orders: fc.array(fc.constantFrom('little' as const, 'big' as const), { minLength: 1, maxLength: 3 }),
  }),
  fc.record(
    {
      flavour: fc.constant('EWKB' as const),
      orders: fc.array(fc.constantFrom('little' as const, 'big' as const), { minLength: 1, maxLength: 3 }),
      srid: fc.constant(SRID_OF_WGS_84),
    },
    { requiredKeys: ['flavour', 'orders'] },
  ),
);

const many = <Value>(value: fc.Arbitrary<Value>) =>
  fc.array(value, { minLength: 1, maxLength: SHAPES_AT_ONCE, size: 'max' });

/** GeoJSON says of its heights by its positions; the sign of a zero it does not keep. */
function asGeoJson({ geometry }: Shape): Shape {
  return { geometry, dimensions: /\[[^[\],]+,[^[\],]+,/.test(JSON.stringify(geometry)) ? 'XYZ' : 'XY' };
}

describe('decoding of geometries', () => {
  property(
    'decodes GeoJSON to the geometry that was written',
    5,
    fc.asyncProperty(
      many(shapes(['XY', 'XYZ'], writtenCoordinate, { depth: 3 })),
      fc.constantFrom(0, 1),
      async (list, indent) => {
        const expected = list.map((shape) => wkbOf(asGeoJson(shape), CANONICAL));
        expect(await coalesced(list.map(({ geometry }) => JSON.stringify(geometry, null, indent)))).toEqual(
          expected,
        );
      },
    ),
  );

  property(
    'decodes well-known text to the geometry that was written, with heights and measures',
    5,
    fc.asyncProperty(many(shapes(DIMENSIONS, writtenCoordinate)), async (list) => {
      expect(await coalesced(list.map((shape) => JSON.stringify(wktOf(shape))))).toEqual(
        list.map((shape) => wkbOf(shape, CANONICAL)),
      );
    }),
  );

  property(
    'decodes well-known binary of any kind and byte order to the geometry that was written',
    5,
    fc.asyncProperty(
      many(fc.tuple(shapes(DIMENSIONS, binaryCoordinate), encoding, fc.boolean())),
      async (list) => {
        const written = list.map(([shape, how, isSmall]) =>
          isSmall ? wkbOf(shape, how).toLowerCase() : wkbOf(shape, how),
        );
        const expected = list.map(([shape]) => wkbOf(shape, CANONICAL));
        // The reader that judges what is damaged agrees about what is whole.
        expect(written.map((digits) => canonicalWkb(Buffer.from(digits, 'hex')))).toEqual(expected);
        expect(await decoded(written)).toEqual(expected);
        expect(await coalesced(written.map((digits) => `"${digits}"`))).toEqual(expected);
      },
    ),
  );
});

describe('well-known binary', () => {
  const whole = fc
    .tuple(shapes(DIMENSIONS, binaryCoordinate, { maxParts: 2 }), encoding)
    .map(([shape, how]) => wkbOf(shape, how));

  property(
    'refuses well-known binary that is cut anywhere or has bytes behind its end',
    6,
    fc.asyncProperty(whole, fc.uint8Array({ minLength: 1, maxLength: 9 }), async (digits, more) => {
      const cuts = Array.from({ length: digits.length / 2 - 1 }, (_, bytes) =>
        digits.slice(0, 2 * (bytes + 1)),
      );
      const longer = [`${digits}${Buffer.from(more).toString('hex')}`, `${digits}${digits}`, `${digits}00`];
      const found = await decoded([...cuts, ...longer]);
      expect(found.every((value) => value === null)).toBe(true);
    }),
  );

  const damage = fc.array(
    fc.tuple(fc.nat(), fc.oneof(fc.nat(255), fc.constantFrom(0, 1, 2, 7, 0x20, 0x40, 0x80, 0xa0, 0xff))),
    { minLength: 1, maxLength: 4 },
  );

  property(
    'refuses damaged well-known binary, or decodes it to the geometry that its bytes state',
    8,
    fc.asyncProperty(
      fc.array(fc.tuple(whole, damage), { minLength: 1, maxLength: 60, size: 'max' }),
      async (list) => {
        const damaged = list.map(([digits, bytes]) => damagedBytes(digits, bytes));
        const found = await decoded(damaged.map((bytes) => bytes.toString('hex')));
        for (const [index, value] of found.entries()) {
          const bytes = damaged[index] ?? Buffer.alloc(0);
          if (value !== null)
            expect([bytes.toString('hex'), value]).toEqual([bytes.toString('hex'), canonicalWkb(bytes)]);
        }
      },
    ),
  );

  property(
    'fails a version with an invalid geometry by its place and value',
    6,
    fc.asyncProperty(whole, damage, fc.nat(), async (digits, bytes, at) => {
      const changed = damagedBytes(digits, bytes);
      const isWhole = canonicalWkb(changed) !== null;
      const refused = isWhole ? changed.subarray(0, 1 + (at % (changed.length - 1))) : changed;
      const written = `"${refused.toString('hex')}"`;
      const error = await folder.refusal(
        { columns, crs: CRS },
        { changes: [[added('{"id":1}'), added(`{"id":2,"g":${written}}`)]] },
      );
      expect(error).toBeInstanceOf(BadChangesError);
      expect(error.message).toContain(
        `Version 2 of parcels, page 1, row 2: the column "g" holds ${written.slice(0, 200)}, which is `,
      );
    }),
  );
});

/** Most of the bytes are coordinates, which may be any; what says how many and which stands at the beginning. */
function damagedBytes(digits: string, bytes: readonly (readonly [at: number, byte: number])[]): Buffer {
  const changed = Buffer.from(digits, 'hex');
  for (const [at, byte] of bytes)
    changed[at % Math.min(changed.length, at % 2 === 0 ? 14 : changed.length)] = byte;
  return changed;
}
