/** F42: GeoArrow, geometries as structs and lists, becomes the geometry that it states, or the file is refused by its name. */

import { describe, expect, it } from 'vitest';
import { DataError } from '../../src/model/errors.ts';
import { column, snapshot } from '../support/duckdb-mirror.ts';
import { geoParquet, type StatedGeometry } from '../support/geo-files.ts';
import { mirrorOfFile } from '../support/own-mirror.ts';

const own = mirrorOfFile();

const columns = [column('n', 'integer'), column('geometry', 'geometry')];
let files = 0;

/** A file with a row for each of the values, which are SQL. */
async function written(type: string, stated: StatedGeometry, values: readonly string[]) {
  files += 1;
  const rows = values.map((value, index) => `(${index}, (${value})::${type})`).join(', ');
  const select = `SELECT n, geometry::${type} AS geometry FROM (VALUES ${rows}) t(n, geometry)`;
  return await geoParquet(own.path, `geometry-${files}.parquet`, select, stated);
}

/** The geometries of a table from the files, in the order of their numbers. */
async function geometries(paths: readonly string[]): Promise<readonly unknown[]> {
  const [outcome] = await own.load(snapshot({ datasetId: `d${files}`, columns, files: paths }));
  if (outcome?.kind !== 'committed')
    throw outcome?.kind === 'failed' ? outcome.error : new Error(outcome?.kind);
  const rows = await own.query(`SELECT ST_AsText(geometry) FROM d${files} ORDER BY n, 1`);
  return rows.map(([wkt]) => wkt);
}

async function loaded(type: string, stated: StatedGeometry, values: readonly string[]) {
  return await geometries([await written(type, stated, values)]);
}

const XY = 'STRUCT(x DOUBLE, y DOUBLE)';
const XYZ = 'STRUCT(x DOUBLE, y DOUBLE, z DOUBLE)';
/** Positions as SQL, from `1 2, 3 4`. */
function structs(wkt: string, names = 'xyzm'): string {
  const position = (numbers: string) =>
    `{${numbers
      .split(' ')
      .map((number, index) => `'${names[index]}': '${number}'::DOUBLE`)
      .join(', ')}}`;
  return wkt.split(', ').map(position).join(', ');
}

describe('F42 the encodings of GeoArrow', () => {
  it.each<[string, string, readonly (readonly [string, string | null])[]]>([
    [
      'point',
      XY,
      [
        [structs('30 10'), 'POINT (30 10)'],
        [structs('nan nan'), 'POINT EMPTY'],
        ['NULL', null],
      ],
    ],
    [
      'linestring',
      `${XY}[]`,
      [
        [
          `[${structs('30 10, -0.0 5e-324, 1.7976931348623157e308 0.1')}]`,
          'LINESTRING (30 10, -0 5e-324, 1.7976931348623157e+308 0.1)',
        ],
        ['[]', 'LINESTRING EMPTY'],
        ['NULL', null],
      ],
    ],
    [
      'multipoint',
      `${XY}[]`,
      [
        [`[${structs('30 10, 10 30')}]`, 'MULTIPOINT (30 10, 10 30)'],
        [`[${structs('nan nan, 10 30')}]`, 'MULTIPOINT (EMPTY, 10 30)'],
        ['[]', 'MULTIPOINT EMPTY'],
        ['NULL', null],
      ],
    ],
    [
      'polygon',
      `${XY}[][]`,
      [
        [
          `[[${structs('0 0, 9 0, 9 9, 0 0')}], [${structs('1 1, 2 1, 2 2, 1 1')}]]`,
          'POLYGON ((0 0, 9 0, 9 9, 0 0), (1 1, 2 1, 2 2, 1 1))',
        ],
        // What no valid geometry has, WKB has as well, and is kept as it is: a ring that is open, or without points.
        [`[[${structs('0 0, 9 0, 9 9')}], []]`, 'POLYGON ((0 0, 9 0, 9 9), EMPTY)'],
        ['[]', 'POLYGON EMPTY'],
        ['NULL', null],
      ],
    ],
    [
      'multilinestring',
      `${XY}[][]`,
      [
        [
          `[[${structs('0 0, 1 1')}], [], [${structs('2 2, 3 3')}]]`,
          'MULTILINESTRING ((0 0, 1 1), EMPTY, (2 2, 3 3))',
        ],
        ['[]', 'MULTILINESTRING EMPTY'],
        ['NULL', null],
      ],
    ],
    [
      'multipolygon',
      `${XY}[][][]`,
      [
        [
          `[[[${structs('0 0, 9 0, 9 9, 0 0')}], [${structs('1 1, 2 1, 2 2, 1 1')}]], [], [[${structs('5 5, 6 5, 6 6, 5 5')}]]]`,
          'MULTIPOLYGON (((0 0, 9 0, 9 9, 0 0), (1 1, 2 1, 2 2, 1 1)), EMPTY, ((5 5, 6 5, 6 6, 5 5)))',
        ],
        ['[]', 'MULTIPOLYGON EMPTY'],
        ['NULL', null],
      ],
    ],
  ])('reads the encoding %s, under both of its names', async (encoding, type, rows) => {
    const values = rows.map(([value]) => value);
    const paths = [
      await written(type, { encoding }, values),
      await written(type, { encoding: `geoarrow.${encoding}` }, values),
    ];
    expect(await geometries(paths)).toEqual(rows.flatMap(([, wkt]) => [wkt, wkt]));
  });

  it.each([
    ['xyz', 'Z', '1 2 3'],
    ['xym', 'M', '1 2 3'],
    ['xyzm', 'ZM', '1 2 3 4'],
    ['zyx', 'Z', '1 2 3'],
  ])('reads positions of %s', async (names, mark, numbers) => {
    const type = `STRUCT(${[...names].map((name) => `${name} DOUBLE`).join(', ')})`;
    const point = structs(numbers, names);
    const shown = names === 'zyx' ? '3 2 1' : numbers;
    expect(await loaded(type, { encoding: 'point' }, [point, 'NULL'])).toEqual([
      `POINT ${mark} (${shown})`,
      null,
    ]);
    expect(
      await loaded(`${type}[][][]`, { encoding: 'multipolygon' }, [`[[[${point}, ${point}]], []]`, '[]']),
    ).toEqual([`MULTIPOLYGON ${mark} (((${shown}, ${shown})), EMPTY)`, `MULTIPOLYGON ${mark} EMPTY`]);
  });

  it('reads an empty point of three dimensions, and coordinates that are NaN or infinite', async () => {
    const values = ['nan nan nan', 'nan 1 nan', 'inf -inf 0'].map((numbers) => structs(numbers));
    expect(await loaded(XYZ, { encoding: 'point' }, values)).toEqual([
      'POINT Z EMPTY',
      'POINT Z (nan 1 nan)',
      'POINT Z (inf -inf 0)',
    ]);
  });

  it.each([
    [['MultiPoint'], '[[1, 2], [3, 4]]', 'MULTIPOINT (1 2, 3 4)'],
    [['MultiPoint Z'], '[[1, 2, 3]]', 'MULTIPOINT Z (1 2 3)'],
    [['MultiPoint ZM'], '[[1, 2, 3, 4]]', 'MULTIPOINT ZM (1 2 3 4)'],
    [['MultiPoint M'], '[[1, 2, 3]]', 'MULTIPOINT M (1 2 3)'],
    [[], '[[1, 2]]', 'MULTIPOINT (1 2)'],
  ])('reads interleaved positions of %j', async (geometry_types, value, wkt) => {
    const stated = { encoding: 'geoarrow.multipoint', geometry_types };
    expect(await loaded('DOUBLE[][]', stated, [value, '[]', 'NULL'])).toEqual([
      wkt,
      `${wkt.slice(0, wkt.indexOf('('))}EMPTY`,
      null,
    ]);
  });

  it('reads each of several files of one layout in its own encoding', async () => {
    const value = [`[${structs('1 2, 3 4')}]`];
    const lines = await written(`${XY}[]`, { encoding: 'linestring' }, value);
    const points = await written(`${XY}[]`, { encoding: 'multipoint' }, value);
    const wkb = await written('BLOB', { encoding: 'WKB' }, ["ST_AsWKB('POINT (5 6)'::GEOMETRY)"]);
    expect(await geometries([lines, points, wkb])).toEqual([
      'LINESTRING (1 2, 3 4)',
      'MULTIPOINT (1 2, 3 4)',
      'POINT (5 6)',
    ]);
  });
});

describe('F42 refused GeoArrow', () => {
  it.each<[string, string, string, string, string]>([
    [
      'a null among points',
      'linestring',
      `${XY}[]`,
      `[NULL, ${structs('1 2')}]`,
      "[NULL, {'x': 1.0, 'y': 2.0}]",
    ],
    ['a null number', 'linestring', `${XY}[]`, "[{'x': NULL, 'y': 2}]", "[{'x': NULL, 'y': 2.0}]"],
    ['a point of nulls', 'point', XY, "{'x': NULL, 'y': NULL}", "{'x': NULL, 'y': NULL}"],
    ['a null ring', 'polygon', `${XY}[][]`, `[NULL, [${structs('1 2')}]]`, "[NULL, [{'x': 1.0, 'y': 2.0}]]"],
    ['a null member', 'multipoint', `${XY}[]`, '[NULL]', '[NULL]'],
    ['a null polygon', 'multipolygon', `${XY}[][][]`, '[NULL]', '[NULL]'],
    [
      'a position that is too long',
      'linestring',
      'DOUBLE[][]',
      '[[1, 2], [1, 2, 3]]',
      '[[1.0, 2.0], [1.0, 2.0, 3.0]]',
    ],
    ['a position that is too short', 'point', 'DOUBLE[]', '[1]', '[1.0]'],
    ['a null in an interleaved position', 'point', 'DOUBLE[]', '[1, NULL]', '[1.0, NULL]'],
  ])('refuses %s', async (_, encoding, type, value, shown) => {
    const path = await written(type, { encoding }, ['NULL', value]);
    const error = await own.loadError(snapshot({ datasetId: 'bad', columns, files: [path] }));
    expect(error).toBeInstanceOf(DataError);
    expect(error.message).toBe(
      `The file geometry-${files}.parquet of bad holds in the column "geometry" the value ` +
        `${JSON.stringify(shown)}, which cannot become a geometry without being changed; ` +
        'it must have no null inside, and at every position the numbers that the file states.',
    );
  });

  const POINT = "{'x': 1.0, 'y': 2.0}";
  it.each<[string, StatedGeometry, string, string, string]>([
    ['an encoding that is not known', { encoding: 'geoarrow.box' }, XY, POINT, POINT],
    ['lists of another depth', { encoding: 'polygon' }, `${XY}[]`, '[]', '[]'],
    ['structs under the name of WKB', { encoding: 'WKB' }, `${XY}[]`, `[${POINT}]`, `[${POINT}]`],
    ['bytes under the name of GeoArrow', { encoding: 'point' }, 'BLOB', "'a'", 'a'],
    [
      'fields that are no coordinates',
      { encoding: 'point' },
      'STRUCT(lon DOUBLE, lat DOUBLE)',
      "{'lon': 1.0, 'lat': 2.0}",
      "{'lon': 1.0, 'lat': 2.0}",
    ],
    ['coordinates of less precision', { encoding: 'point' }, 'STRUCT(x FLOAT, y FLOAT)', POINT, POINT],
    [
      'interleaved positions of several dimensions',
      { encoding: 'point', geometry_types: ['Point', 'Point Z'] },
      'DOUBLE[]',
      '[1, 2]',
      '[1.0, 2.0]',
    ],
  ])('refuses %s', async (_, stated, type, value, shown) => {
    const path = await written(type, stated, ['NULL', value]);
    const error = await own.loadError(snapshot({ datasetId: 'bad', columns, files: [path] }));
    expect(error).toBeInstanceOf(DataError);
    expect(error.message).toBe(
      `The file geometry-${files}.parquet of bad holds in the column "geometry" the value ${JSON.stringify(shown)} of type ` +
        `${type} in the encoding "${stated.encoding}", which is another family of types than geometry.`,
    );
  });
});
