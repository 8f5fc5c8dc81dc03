/** F42: geometries in change rows, in every form that the service may write, or refused. */

import { describe, expect, it } from 'vitest';
import type { Geometry } from '../../fixtures/source/content.ts';
import { EXTREME_GEOMETRIES } from '../../fixtures/source/extreme-geometries.ts';
import { randomFrom } from '../../fixtures/source/random.ts';
import { wkbFromGeometry } from '../../fixtures/source/wkb.ts';
import { BadChangesError, InapplicableChangesError } from '../../src/model/errors.ts';
import { changeFolderOfTests } from '../support/change-folder.ts';
import { added } from '../support/change-pages.ts';
import { column } from '../support/duckdb-mirror.ts';
import { GEOMETRIES_WITH_EMPTY_PARTS } from '../support/empty-parts.ts';

const folder = changeFolderOfTests();

const columns = [column('id', 'integer'), column('g', 'geometry')];
const rowOf = (id: number, value: string): string => added(`{"id":${id},"g":${value}}`);

/** The WKB of the values, in hexadecimal digits. */
async function decoded(values: readonly string[]): Promise<readonly unknown[]> {
  const { rows } = await folder.coalesce(
    { columns },
    { changes: [values.map((value, id) => rowOf(id, value))] },
  );
  return rows.toSorted((left, right) => Number(left[1]) - Number(right[1])).map((row) => row[2]);
}

async function asText(values: readonly string[]): Promise<readonly unknown[]> {
  const wkb = await decoded(values);
  const list = wkb.map((hex) => `ST_AsText(ST_GeomFromWKB(unhex('${hex}')))`);
  const [row = []] = await folder.engine.rows(`SELECT ${list.join(', ')}`);
  return row;
}

const hexOf = (geometry: Geometry): string =>
  Buffer.from(wkbFromGeometry(geometry)).toString('hex').toUpperCase();

describe('F42 GeoJSON', () => {
  it('decodes GeoJSON of all types, with heights, empty and nested', async () => {
    expect(await decoded(EXTREME_GEOMETRIES.map((geometry) => JSON.stringify(geometry)))).toEqual(
      EXTREME_GEOMETRIES.map(hexOf),
    );
  });

  it('decodes GeoJSON with its members in any order, among others, with white space', async () => {
    const others = (geometry: Geometry): object =>
      geometry.type === 'GeometryCollection'
        ? { bbox: [0, 0, 1, 1], geometries: geometry.geometries.map(others), type: geometry.type }
        : { coordinates: geometry.coordinates, note: '[]{}', type: geometry.type };
    const written = EXTREME_GEOMETRIES.map((geometry) => JSON.stringify(others(geometry), null, 1));
    expect(await decoded(written)).toEqual(EXTREME_GEOMETRIES.map(hexOf));
  });

  it('decodes GeoJSON with empty parts, and nulls', async () => {
    const parts: readonly Geometry[] = [
      ...GEOMETRIES_WITH_EMPTY_PARTS,
      { type: 'MultiPoint', coordinates: [[], [1, 2, 3]] },
      { type: 'MultiPolygon', coordinates: [[]] },
      {
        type: 'GeometryCollection',
        geometries: [
          { type: 'MultiPoint', coordinates: [[], [1, 2, 3]] },
          { type: 'Point', coordinates: [] },
        ],
      },
    ];
    const written = ['null', ...parts.map((geometry) => JSON.stringify(geometry))];
    expect(await decoded(written)).toEqual([null, ...parts.map(hexOf)]);
  });

  it('decodes random polygons in GeoJSON to the last bit', async () => {
    const random = randomFrom(20_261_121);
    const number = () => (random.fraction() - 0.5) * 10 ** random.integer(-20, 20);
    const polygons = Array.from({ length: 200 }, (): Geometry => {
      const height = random.chance(0.3);
      const position = () => Array.from({ length: height ? 3 : 2 }, number);
      const ring = () => Array.from({ length: random.integer(1, 9) }, position);
      return { type: 'Polygon', coordinates: Array.from({ length: random.integer(1, 3) }, ring) };
    });
    expect(await decoded(polygons.map((geometry) => JSON.stringify(geometry)))).toEqual(polygons.map(hexOf));
  });
});

it('decodes WKT, and WKB in hexadecimal digits', async () => {
  const texts = [
    '"POINT (5 1)"',
    '"  point z ( 1\\n2 -3.5e-7 ) "',
    '"MULTIPOINT((1 2),(3 4))"',
    '"MULTIPOINT ((1 2))"',
    '"GEOMETRYCOLLECTION Z (MULTIPOINT Z ((1 2 3)), POINT Z (1 2 3))"',
    '"GEOMETRYCOLLECTION (POINT (1 2), POLYGON EMPTY)"',
    '"0101000000000000000000F03F0000000000000040"',
    '"00000000013ff00000000000004000000000000000"',
    '"0101000020E6100000000000000000F03F0000000000000040"',
  ];
  expect(await asText(texts)).toEqual([
    'POINT (5 1)',
    'POINT Z (1 2 -3.5e-07)',
    'MULTIPOINT (1 2, 3 4)',
    'MULTIPOINT (1 2)',
    'GEOMETRYCOLLECTION Z (MULTIPOINT Z (1 2 3), POINT Z (1 2 3))',
    'GEOMETRYCOLLECTION (POINT (1 2), POLYGON EMPTY)',
    'POINT (1 2)',
    'POINT (1 2)',
    'POINT (1 2)',
  ]);
});

describe('F42 WKB in hexadecimal digits', () => {
  /** A point with the coordinates 1, 2, … in this byte order; `type` is the number that says which and how. */
  const point = (type: number, coordinates: number, order: 'little' | 'big', srid?: number): string => {
    const words = [type, ...(srid === undefined ? [] : [srid])];
    const bytes = Buffer.alloc(1 + 4 * words.length + 8 * coordinates);
    bytes[0] = order === 'little' ? 1 : 0;
    for (const [index, word] of words.entries()) {
      if (order === 'little') bytes.writeUInt32LE(word, 1 + 4 * index);
      else bytes.writeUInt32BE(word, 1 + 4 * index);
    }
    for (let index = 0; index < coordinates; index += 1) {
      const at = 1 + 4 * words.length + 8 * index;
      if (order === 'little') bytes.writeDoubleLE(index + 1, at);
      else bytes.writeDoubleBE(index + 1, at);
    }
    return bytes.toString('hex');
  };
  const HEIGHT = 0x8000_0000;
  const MEASURE = 0x4000_0000;
  const SRID = 0x2000_0000;

  it('decodes WKB of ISO and of EWKB, with heights and measures, in both byte orders and cases', async () => {
    const forms = [
      [1, 2, 'POINT (1 2)'],
      [1_001, 3, 'POINT Z (1 2 3)'],
      [2_001, 3, 'POINT M (1 2 3)'],
      [3_001, 4, 'POINT ZM (1 2 3 4)'],
      [HEIGHT + 1, 3, 'POINT Z (1 2 3)'],
      [MEASURE + 1, 3, 'POINT M (1 2 3)'],
      [HEIGHT + MEASURE + 1, 4, 'POINT ZM (1 2 3 4)'],
    ] as const;
    const digits = forms.flatMap(([type, coordinates]) =>
      (['little', 'big'] as const).map((order) => point(type, coordinates, order)),
    );
    const expected = forms.flatMap(([, , text]) => [text, text]);
    expect(await asText(digits.map((each) => `"${each}"`))).toEqual(expected);
    expect(await asText(digits.map((each) => `"${each.toUpperCase()}"`))).toEqual(expected);
  });

  const carrying = (srid: number): readonly string[] => [
    point(SRID + 1, 2, 'little', srid),
    point(SRID + 1, 2, 'big', srid),
    point(SRID + HEIGHT + 1, 3, 'little', srid),
    point(SRID + MEASURE + 1, 3, 'big', srid).toUpperCase(),
  ];

  it.each([
    ['OGC:CRS84', 4_326],
    ['WGS 84', 4_326],
    ['EPSG:4326', 4_326],
    ['EPSG:2277', 2_277],
    ['urn:ogc:def:crs:EPSG::2277', 2_277],
    ['http://www.opengis.net/def/crs/EPSG/0/2277', 2_277],
  ])('keeps WKB that carries the coordinate system of the table: %s', async (crs, srid) => {
    const values = carrying(srid).map((digits, id) => rowOf(id, `"${digits}"`));
    const { rows } = await folder.coalesce({ columns, crs }, { changes: [values] });
    expect(rows).toHaveLength(4);
  });

  it.each([
    ['OGC:CRS84', 2_277],
    ['EPSG:2277', 4_326],
    ['EPSG:2277', 0],
    ['NAD83 / Texas Central', 2_277],
    [null, 4_326],
  ])('refuses WKB that carries another coordinate system than the table: %s', async (crs, srid) => {
    for (const digits of carrying(srid)) {
      const changes = [[rowOf(1, 'null'), rowOf(2, `"${digits}"`)]];
      const error = await folder.refusal({ columns, crs }, { changes });
      expect(error).toBeInstanceOf(BadChangesError);
      expect(error.message).toBe(
        `Version 2 of parcels, page 1, row 2: the column "g" holds "${digits}", which is in another coordinate ` +
          `system than the table: that is in ${crs ?? 'an unknown one'}.`,
      );
    }
  });

  it.each([
    ['a second geometry behind it', `${point(1, 2, 'little')}${point(1, 2, 'big')}`],
    ['a second geometry behind one that is empty', '010700000000000000010200000000000000'],
    ['a part of another type', '010400000001000000010200000000000000'],
    ['a part with other dimensions', `010700000001000000${point(1_001, 3, 'big')}`],
    ['a type with bits that mean nothing', point(0x1_0001, 2, 'little')],
    ['a type with bits that mean nothing inside', `010700000001000000${point(0x1_0001, 2, 'little')}`],
    [
      'more parts inside one another than can be shown',
      `${'010700000001000000'.repeat(16)}${point(1, 2, 'little')}`,
    ],
  ])('refuses WKB with %s, though DuckDB takes it', async (_, digits) => {
    const changes = [[rowOf(1, 'null')], [rowOf(2, `"${point(1, 2, 'big')}"`), rowOf(3, `"${digits}"`)]];
    const error = await folder.refusal({ columns }, { changes });
    expect(error).toBeInstanceOf(BadChangesError);
    expect(error.message).toContain(
      `Version 2 of parcels, page 2, row 2: the column "g" holds ${`"${digits}"`.slice(0, 200)}, which is no geometry`,
    );
  });

  it('keeps WKB with as many nested parts as can be shown', async () => {
    const digits = `${'010700000001000000'.repeat(15)}${point(1, 2, 'little')}`.toUpperCase();
    expect(await decoded([`"${digits}"`])).toEqual([digits]);
    expect(await asText([`"${digits}"`])).toEqual([expect.stringContaining('POINT (1 2)')]);
  });

  it('refuses WKB of which a part carries a coordinate system', async () => {
    const collection = `010700000001000000${point(SRID + 1, 2, 'little', 2_277)}`;
    const error = await folder.refusal({ columns }, { changes: [[rowOf(1, `"${collection}"`)]] });
    expect(error).toBeInstanceOf(BadChangesError);
  });
});

describe('F42 a value that is no geometry', () => {
  const point = (coordinates: string): string => `{"type":"Point","coordinates":${coordinates}}`;
  it.each([
    '5',
    'true',
    '[1,2]',
    '{}',
    '{"type":"Point"}',
    '{"type":"Feature","geometry":null}',
    '{"type":"Point","coordinates":[1,2],"crs":{"type":"name","properties":{"name":"EPSG:2277"}}}',
    point('null'),
    point('"[1,2]"'),
    point('["1",2]'),
    point('[1]'),
    point('[1,2,3,4]'),
    point('[1e400,2]'),
    point('[[1,2]]'),
    '{"type":"LineString","coordinates":[[1,2],3]}',
    '{"type":"LineString","coordinates":[[1,2],[1,2,3]]}',
    '{"type":"MultiPoint","coordinates":[[1,2],[[3,4]]]}',
    '{"type":"Polygon","coordinates":[[]]}',
    '{"type":"GeometryCollection"}',
    '{"type":"GeometryCollection","geometries":[5]}',
    `{"type":"GeometryCollection","geometries":[${point('[1]')}]}`,
    `{"type":"GeometryCollection","geometries":[${point('[1,2]')},${point('[1,2,3]')}]}`,
    '""',
    '"POINT (1 2"',
    '"POINT (1 2) x"',
    '"POINT (1 2)) , ((3 4)"',
    '"POINT (nan 1)"',
    '"POINT (1e400 1)"',
    '"SRID=2277;POINT (1 2)"',
    '"CIRCULARSTRING (1 2, 3 4, 5 6)"',
    '"0101"',
    '"0101000000000000000000F03F0000000000000040FFFF"',
    '"0102000000FFFFFFFF"',
  ])('refuses %s as a geometry', async (value) => {
    const error = await folder.refusal({ columns }, { changes: [[rowOf(1, 'null'), rowOf(2, value)]] });
    expect(error).toBeInstanceOf(BadChangesError);
    expect(error.message).toContain(
      `page 1, row 2: the column "g" holds ${value.slice(0, 200)}, which is no geometry`,
    );
  });
});

describe('the coordinate system of the table', () => {
  const geoJson = '{"type":"Point","coordinates":[1,2]}';
  const changes = [{ changes: [[rowOf(1, 'null')]] }, { changes: [[rowOf(2, geoJson)]] }] as const;
  it.each(['EPSG:2277', 'NAD83 / Texas Central'])('a table in %s takes no GeoJSON', async (crs) => {
    const error = await folder.refusal({ columns, crs }, ...changes);
    expect(error).toBeInstanceOf(InapplicableChangesError);
    expect(error).toMatchObject({ version: 3 });
    expect(error.message).toContain(crs);
  });
  it('F48 GeoJSON names an unknown coordinate system where the table proves to have no geometry', async () => {
    const { net } = await folder.coalesce({ columns, crs: null }, ...changes);
    expect(net.columns[1]?.crs).toBe('OGC:CRS84');
    const [first, ...others] = net.firstValues;
    expect(others).toEqual([]);
    expect(first).toMatchObject({ columnName: 'g', refusal: { version: 3 } });
    expect(first?.refusal.message).toContain('an unknown coordinate system');
  });
  it.each(['EPSG:2277', null])('a table in %s takes WKT as it is', async (crs) => {
    const { net } = await folder.coalesce({ columns, crs }, { changes: [[rowOf(1, '"POINT (1 2)"')]] });
    expect(net.columns[1]?.crs).toBe(crs);
  });
  it.each(['OGC:CRS84', 'EPSG:4326', 'WGS 84 (CRS84)', 'urn:ogc:def:crs:OGC:1.3:CRS84'])(
    'a table in %s takes GeoJSON',
    async (crs) => {
      const { net } = await folder.coalesce({ columns, crs }, ...changes);
      expect(net.columns[1]?.crs).toBe(crs);
    },
  );
  it('GeoJSON gives its coordinate system to an empty table', async () => {
    for (const crs of [null, 'EPSG:2277']) {
      const { net } = await folder.coalesce({ columns, crs, rowCount: 0 }, ...changes);
      expect(net).toMatchObject({ columns: [{}, { crs: 'OGC:CRS84' }], firstValues: [] });
    }
  });
  it('F48 GeoJSON gives no coordinate system after a geometry of another form', async () => {
    const wkt = { changes: [[rowOf(3, '"POINT (3000000 1)"')]] };
    for (const table of [{ rowCount: 0 }, {}, { lacks: ['g'], job: { addsColumns: true } }]) {
      const error = await folder.refusal({ columns, crs: null, ...table }, wkt, ...changes);
      expect(error).toBeInstanceOf(InapplicableChangesError);
      expect(error).toMatchObject({ version: 4 });
    }
    const { net } = await folder.coalesce({ columns, crs: null, rowCount: 0 }, ...changes, wkt);
    expect(net.columns[1]?.crs).toBe('OGC:CRS84');
  });
  it('GeoJSON gives its coordinate system to an added column', async () => {
    const table = { columns, lacks: ['g'], job: { addsColumns: true } };
    expect((await folder.coalesce(table, ...changes)).net.columns[1]?.crs).toBe('OGC:CRS84');
    expect(
      (await folder.coalesce(table, { changes: [[rowOf(1, '"POINT (1 2)"')]] })).net.columns[1]?.crs,
    ).toBeNull();
  });
});
