import { describe, expect, it } from 'vitest';
import type { Geometry } from '../../fixtures/source/content.ts';
import { EXTREME_GEOMETRIES } from '../../fixtures/source/extreme-geometries.ts';
import { wkbFromGeometry } from '../../fixtures/source/wkb.ts';
import { queryRows } from '../support/parquet-reader.ts';

const ONE = '000000000000f03f';
const TWO = '0000000000000040';
const THREE = '0000000000000840';
const FOUR = '0000000000001040';
const NAN = '000000000000f87f';
const point = (...coordinates: string[]) => `0101000000${coordinates.join('')}`;
const pointZ = (...coordinates: string[]) => `01e9030000${coordinates.join('')}`;

const BY_HAND: readonly (readonly [geometry: Geometry, wkb: string, wkt: string])[] = [
  [{ type: 'Point', coordinates: [1, 2] }, point(ONE, TWO), 'POINT (1 2)'],
  [{ type: 'Point', coordinates: [1, 2, 3] }, pointZ(ONE, TWO, THREE), 'POINT Z (1 2 3)'],
  [{ type: 'Point', coordinates: [] }, point(NAN, NAN), 'POINT EMPTY'],
  [
    { type: 'Point', coordinates: [-0, 0.5] },
    point('0000000000000080', '000000000000e03f'),
    'POINT (-0 0.5)',
  ],
  [
    {
      type: 'LineString',
      coordinates: [
        [1, 2],
        [3, 4],
      ],
    },
    `010200000002000000${ONE}${TWO}${THREE}${FOUR}`,
    'LINESTRING (1 2, 3 4)',
  ],
  [
    {
      type: 'LineString',
      coordinates: [
        [1, 2, 3],
        [3, 4, 1],
      ],
    },
    `01ea03000002000000${ONE}${TWO}${THREE}${THREE}${FOUR}${ONE}`,
    'LINESTRING Z (1 2 3, 3 4 1)',
  ],
  [{ type: 'LineString', coordinates: [] }, '010200000000000000', 'LINESTRING EMPTY'],
  [
    {
      type: 'Polygon',
      coordinates: [
        [
          [1, 1],
          [2, 1],
          [2, 2],
          [1, 1],
        ],
      ],
    },
    `01030000000100000004000000${ONE}${ONE}${TWO}${ONE}${TWO}${TWO}${ONE}${ONE}`,
    'POLYGON ((1 1, 2 1, 2 2, 1 1))',
  ],
  [{ type: 'Polygon', coordinates: [] }, '010300000000000000', 'POLYGON EMPTY'],
  [
    {
      type: 'MultiPoint',
      coordinates: [
        [1, 2],
        [3, 4],
      ],
    },
    `010400000002000000${point(ONE, TWO)}${point(THREE, FOUR)}`,
    'MULTIPOINT (1 2, 3 4)',
  ],
  [
    { type: 'MultiPoint', coordinates: [[1, 2, 3]] },
    `01ec03000001000000${pointZ(ONE, TWO, THREE)}`,
    'MULTIPOINT Z (1 2 3)',
  ],
  [{ type: 'MultiPoint', coordinates: [] }, '010400000000000000', 'MULTIPOINT EMPTY'],
  [
    {
      type: 'MultiLineString',
      coordinates: [
        [
          [1, 2],
          [3, 4],
        ],
        [],
      ],
    },
    `010500000002000000010200000002000000${ONE}${TWO}${THREE}${FOUR}010200000000000000`,
    'MULTILINESTRING ((1 2, 3 4), EMPTY)',
  ],
  [{ type: 'MultiLineString', coordinates: [] }, '010500000000000000', 'MULTILINESTRING EMPTY'],
  [
    {
      type: 'MultiPolygon',
      coordinates: [
        [
          [
            [1, 1, 4],
            [2, 1, 4],
            [2, 2, 4],
            [1, 1, 4],
          ],
        ],
      ],
    },
    `01ee0300000100000001eb0300000100000004000000${ONE}${ONE}${FOUR}${TWO}${ONE}${FOUR}${TWO}${TWO}${FOUR}${ONE}${ONE}${FOUR}`,
    'MULTIPOLYGON Z (((1 1 4, 2 1 4, 2 2 4, 1 1 4)))',
  ],
  [{ type: 'MultiPolygon', coordinates: [] }, '010600000000000000', 'MULTIPOLYGON EMPTY'],
  [
    {
      type: 'GeometryCollection',
      geometries: [
        { type: 'Point', coordinates: [1, 2] },
        { type: 'LineString', coordinates: [] },
      ],
    },
    `010700000002000000${point(ONE, TWO)}010200000000000000`,
    'GEOMETRYCOLLECTION (POINT (1 2), LINESTRING EMPTY)',
  ],
  [
    {
      type: 'GeometryCollection',
      geometries: [
        { type: 'Point', coordinates: [1, 2, 3] },
        { type: 'LineString', coordinates: [] },
      ],
    },
    `01ef03000002000000${pointZ(ONE, TWO, THREE)}01ea03000000000000`,
    'GEOMETRYCOLLECTION Z (POINT Z (1 2 3), LINESTRING Z EMPTY)',
  ],
  [{ type: 'GeometryCollection', geometries: [] }, '010700000000000000', 'GEOMETRYCOLLECTION EMPTY'],
];

const hexOf = (geometry: Geometry) => Buffer.from(wkbFromGeometry(geometry)).toString('hex');

describe('wkbFromGeometry', () => {
  it.each(BY_HAND)('writes %j as WKB', (geometry, wkb) => {
    expect(hexOf(geometry)).toBe(wkb);
  });

  it('writes geometries that DuckDB reads as they were given', async () => {
    const values = BY_HAND.map(([geometry], index) => `(${index}, '${hexOf(geometry)}')`);
    const rows = await queryRows(
      `SELECT ST_AsText(ST_GeomFromWKB(unhex(h))) FROM (VALUES ${values.join(', ')}) v(i, h) ORDER BY i`,
    );
    expect(rows.flat()).toEqual(BY_HAND.map(([, , wkt]) => wkt));
  });

  it('writes every extreme geometry so that DuckDB reads and writes the same bytes', async () => {
    const written = EXTREME_GEOMETRIES.map(hexOf);
    const values = written.map((hex, index) => `(${index}, '${hex}')`);
    const rows = await queryRows(
      `SELECT lower(hex(ST_AsWKB(ST_GeomFromWKB(unhex(h))))) FROM (VALUES ${values.join(', ')}) v(i, h) ORDER BY i`,
    );
    expect(rows.flat()).toEqual(written);
  });

  it('refuses positions of two and three numbers in one geometry, and of four', () => {
    const mixed: Geometry = {
      type: 'LineString',
      coordinates: [
        [1, 2],
        [1, 2, 3],
      ],
    };
    expect(() => wkbFromGeometry(mixed)).toThrow(/position of 2 numbers.*3 dimensions/);
    expect(() => wkbFromGeometry({ type: 'Point', coordinates: [1, 2, 3, 4] })).toThrow(
      /position of 4 numbers/,
    );
  });
});
