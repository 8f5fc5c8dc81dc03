/** F42 C10 C17 over the wire: geometries of change rows in every form, compared as WKB with what was published; and what is none. */

import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import type { Geometry, Row, SourceSchema } from '../../fixtures/source/content.ts';
import { EXTREME_GEOMETRIES } from '../../fixtures/source/extreme-geometries.ts';
import { wkbFromGeometry } from '../../fixtures/source/wkb.ts';
import {
  badChanges,
  expectEachFailsAlone,
  publishChanges,
  respondWithChanges,
} from '../support/bad-content.ts';
import { duckdb, inMirror, parquet } from '../support/duckdb-mirror.ts';
import { GEOMETRIES_WITH_EMPTY_PARTS } from '../support/empty-parts.ts';
import { mirrorDifferences } from '../support/mirror-comparison.ts';
import { everythingPublished } from '../support/published.ts';
import { withRealMirror } from '../support/served-world.ts';
import { column, SMALL_SCHEMA, smallContent } from '../support/small-content.ts';
import { kinds } from '../support/small-world.ts';

const SCHEMA: SourceSchema = {
  ...SMALL_SCHEMA,
  columns: [column('id', 'integer', false), column('v', 'geometry')],
};
const GEOMETRIES: readonly (Geometry | null)[] = [
  null,
  ...EXTREME_GEOMETRIES,
  ...GEOMETRIES_WITH_EMPTY_PARTS,
];
const ROWS: readonly Row[] = GEOMETRIES.map((geometry, id) => [id, geometry]);

const hexOf = (geometry: Geometry): string => Buffer.from(wkbFromGeometry(geometry)).toString('hex');

/** With the mark of EWKB for heights in place of the number of ISO, and the number of WGS 84. */
function ewkbOf(geometry: Geometry): string {
  const wkb = Buffer.from(wkbFromGeometry(geometry));
  const type = wkb.readUInt32LE(1);
  const head = Buffer.alloc(9);
  head[0] = 1;
  head.writeUInt32LE(((type >= 1_000 ? 0x8000_0000 : 0) | 0x2000_0000 | (type % 1_000)) >>> 0, 1);
  head.writeUInt32LE(4_326, 5);
  return Buffer.concat([head, wkb.subarray(5)]).toString('hex');
}

/** One by one, because a text that is wrong is wrong alone. */
async function wktOf(geometries: readonly Geometry[]): Promise<readonly string[]> {
  const texts = geometries.map((geometry) => `ST_AsText(ST_GeomFromWKB(unhex('${hexOf(geometry)}')))`);
  const [row = []] = await duckdb(`SELECT ${texts.join(', ')}`);
  return row.map(String);
}

it('F42 C10 applies geometries as GeoJSON, WKT and hexadecimal WKB: all types, with heights, empty, null, nested', async () => {
  const world = await withRealMirror();
  const { feed, folder } = world;
  const wkt = await wktOf([...EXTREME_GEOMETRIES, ...GEOMETRIES_WITH_EMPTY_PARTS]);
  const isSingle = ({ type }: Geometry): boolean => ['Point', 'LineString', 'Polygon'].includes(type);
  const forms: Readonly<Record<string, (geometry: Geometry, index: number) => string>> = {
    geojson: (geometry) => JSON.stringify(geometry),
    'geojson-in-another-order': (geometry) =>
      JSON.stringify({ bbox: [0, 0], ...Object.fromEntries(Object.entries(geometry).toReversed()) }, null, 1),
    wkt: (_, index) => JSON.stringify(wkt[index]),
    wkb: (geometry) => JSON.stringify(hexOf(geometry)),
    'wkb-in-capitals': (geometry) => JSON.stringify(hexOf(geometry).toUpperCase()),
    ewkb: (geometry) => JSON.stringify(isSingle(geometry) ? ewkbOf(geometry) : hexOf(geometry)),
  };
  feed.publisher.subscribe({ subscriptionId: 'sub_forms', datasetIds: Object.keys(forms) });
  for (const datasetId of Object.keys(forms)) {
    feed.publisher.addDataset({ datasetId });
    feed.publisher.publish(
      datasetId,
      smallContent([[-1, { type: 'Point', coordinates: [1, 2] }], ...ROWS.slice(0, 1)], [], SCHEMA),
    );
  }
  await world.catchUp();
  for (const [datasetId, textOf] of Object.entries(forms)) {
    const added = ROWS.slice(1);
    const texts = added.map(
      ([id, geometry], index) =>
        `{"op":"added","row":{"id":${Number(id)},"v":${textOf(geometry as Geometry, index)}}}`,
    );
    const changes = [
      { op: 'changed' as const, row: [-1, null] },
      ...added.map((row) => ({ op: 'added' as const, row })),
    ];
    feed.publisher.publish(datasetId, smallContent([[-1, null], ...ROWS], changes, SCHEMA));
    respondWithChanges(feed, datasetId, 2, [['{"op":"changed","row":{"id":-1}}', ...texts]]);
  }
  const applied = Object.fromEntries(Object.keys(forms).map((id) => [id, 'applied']));
  expect(kinds(await world.catchUp())).toMatchObject(applied);
  expect(await mirrorDifferences(join(folder, 'mirror.duckdb'), everythingPublished(feed))).toEqual([]);
});

it('C17 applies WKT, and WKB that names the coordinate system of the table, unchanged', async () => {
  const world = await withRealMirror();
  const { feed, folder } = world;
  const crs = { name: 'NAD83', id: { authority: 'EPSG', code: 2277 } };
  const columns = { v: { encoding: 'WKB', geometry_types: ['Point'], crs } };
  const geo = JSON.stringify({ version: '1.1.0', primary_column: 'v', columns });
  const select = "SELECT 0::BIGINT AS id, ST_AsWKB('POINT (3100000 10000000)'::GEOMETRY) AS v";
  const path = await parquet(folder, 'texas.parquet', select, `, KV_METADATA {geo: '${geo}'}`);
  const bytes = await readFile(path);
  const sha256 = createHash('sha256').update(bytes).digest('hex');
  const files = [{ path, bytes: bytes.byteLength, rowCount: 1, sha256 }];
  feed.publisher.addDataset({ datasetId: 'texas' });
  feed.publisher.subscribe({ subscriptionId: 'sub_texas', datasetIds: ['texas'] });
  feed.publisher.publish('texas', { ...smallContent([[0, null]], [], SCHEMA), files });
  await world.catchUp();
  publishChanges(feed, 'texas', [
    '{"op":"added","row":{"id":1,"v":"POINT (3100001 10000001)"}}',
    '{"op":"added","row":{"id":2,"v":"0101000020E5080000000000000000F03F0000000000000040"}}',
  ]);
  expect(kinds(await world.catchUp())).toMatchObject({ texas: 'applied' });
  expect(await inMirror(folder, 'SELECT ST_AsText(v) FROM texas ORDER BY id')).toEqual([
    ['POINT (3100000 10000000)'],
    ['POINT (3100001 10000001)'],
    ['POINT (1 2)'],
  ]);
});

it('F42 C13 fails only the dataset with an invalid geometry, or one in another coordinate system', async () => {
  const point = (coordinates: string): string => `{"type":"Point","coordinates":${coordinates}}`;
  const none = [
    '{"type":"Feature","geometry":null}',
    '{"type":"Point","coordinates":[1,2],"crs":{"type":"name","properties":{"name":"EPSG:2277"}}}',
    point('[1,null]'),
    point('["1",2]'),
    point('[1,2,3,4,5]'),
    point('[1e400,2]'),
    '{"type":"LineString","coordinates":[[1,2],[1,2,3]]}',
    '{"type":"Polygon","coordinates":[[]]}',
    '{"type":"GeometryCollection","geometries":[null]}',
    '"POINT (nan 1)"',
    '"SRID=4326;POINT (1 2)"',
    '"0101000000000000000000F03F0000000000000040FF"',
  ];
  const table = { schema: SCHEMA, rows: [[0, null]] };
  const row = (value: string): string => `{"op":"added","row":{"id":1,"v":${value}}}`;
  const foreign = '"0101000020E5080000000000000000F03F0000000000000040"';
  await expectEachFailsAlone([
    ...none.map((value, index) =>
      badChanges(
        `none-${index}`,
        table,
        [[row(value)]],
        `page 1, row 1: the column "v" holds ${value}, which is no geometry`,
      ),
    ),
    badChanges(
      'foreign',
      table,
      [[row(foreign)]],
      `holds ${foreign}, which is in another coordinate system than the table`,
    ),
  ]);
});
