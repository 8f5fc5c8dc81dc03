/** F48: a table without geometries takes the coordinate system of the first geometry that changes bring. */

import { describe, expect, it } from 'vitest';
import { InapplicableChangesError } from '../../src/model/errors.ts';
import { firstContent, sourceSchema } from '../support/duckdb-changes.ts';
import { inMirror, column as modelColumn, snapshot } from '../support/duckdb-mirror.ts';
import { geoParquet, type StatedGeometry } from '../support/geo-files.ts';
import { errorOf } from '../support/mirror-at-work.ts';
import { column } from '../support/small-content.ts';
import { type WrittenTable, writtenTable } from '../support/written-changes.ts';

const SHAPES = [column('id', 'integer', false), column('g', 'geometry')];
const GEOJSON = '{"type":"Point","coordinates":[1,2]}';
const changed = (id: number, g: string): string => `{"op":"changed","row":{"id":${id},"g":${g}}}`;
const TEXAS = { encoding: 'WKB', crs: { id: { authority: 'EPSG', code: 2277 } } };
/** Two rows without a geometry, whose file says of them that they are in another coordinate system than GeoJSON. */
const NULLS = 'SELECT unnest([1, 2])::BIGINT AS id, NULL::BLOB AS g';
const ROWS = [
  [1, null],
  [2, null],
] as const;

/** A table that was loaded from `NULLS`. */
async function tableOfNulls(): Promise<WrittenTable> {
  const table = await writtenTable(SHAPES, ROWS);
  await load(table, NULLS, TEXAS);
  return table;
}

async function load({ world }: WrittenTable, select: string, stated: StatedGeometry, datasetId = 'parcels') {
  const path = await geoParquet(world.folder, `${datasetId}.parquet`, select, stated, 'g');
  const plannedFrom = await world.observed(datasetId);
  const { version } = plannedFrom;
  const columns = [modelColumn('id', 'integer'), modelColumn('g', 'geometry')];
  const job = { datasetId, columns, keyColumns: ['id'], version, plannedFrom, digest: 'again' };
  expect(await world.execute(snapshot({ ...job, files: [path] }))).toMatchObject([{ kind: 'committed' }]);
}

async function crsOf(folder: string, datasetId = 'parcels'): Promise<unknown> {
  const rows = await inMirror(
    folder,
    `SELECT crs FROM feed_sync.columns WHERE dataset_id = '${datasetId}' AND type = 'geometry'`,
  );
  return rows[0]?.[0];
}

describe('F48 C17 changes with the first geometry of a table', () => {
  it('records the coordinate system of GeoJSON when it brings the first geometry of a table', async () => {
    const table = await tableOfNulls();
    expect(await crsOf(table.world.folder)).toBeNull();
    expect(await table.apply([[changed(1, GEOJSON)]])).toMatchObject({ kind: 'committed' });
    expect(await crsOf(table.world.folder)).toBe('OGC:CRS84');
    expect(await table.apply([[changed(2, GEOJSON)]])).toMatchObject({ kind: 'committed' });
    expect(await table.rows('id, ST_AsText(g)')).toEqual([
      ['1', 'POINT (1 2)'],
      ['2', 'POINT (1 2)'],
    ]);
  });

  it('falls back to the snapshot for GeoJSON after WKT brought the first geometry of a table', async () => {
    const table = await tableOfNulls();
    await table.apply([[changed(1, '"POINT (3000000 1)"')]]);
    expect(await crsOf(table.world.folder)).toBeNull();
    const error = errorOf(await table.apply([[changed(2, GEOJSON)]]));
    expect(error).toBeInstanceOf(InapplicableChangesError);
    expect(error.message).toContain('the column "g" is in an unknown coordinate system');
    expect(await table.rows('id, ST_AsText(g)')).toEqual([
      ['1', 'POINT (3000000 1)'],
      ['2', null],
    ]);
  });

  it('takes GeoJSON into a table that lost its geometries or rows, whatever its coordinate system was', async () => {
    const table = await tableOfNulls();
    await table.apply([[changed(1, '"POINT (3000000 1)"')]]);
    await table.apply([[changed(1, 'null')]]);
    expect(await table.apply([[changed(2, GEOJSON)]])).toMatchObject({ kind: 'committed' });
    expect(await crsOf(table.world.folder)).toBe('OGC:CRS84');

    const emptied = await writtenTable(SHAPES, ROWS);
    await load(emptied, "SELECT 1::BIGINT AS id, ST_AsWKB('POINT (3000000 1)'::GEOMETRY) AS g", TEXAS);
    expect(await crsOf(emptied.world.folder)).toBe('EPSG:2277');
    await emptied.apply([['{"op":"removed","key":{"id":1}}']]);
    expect(await emptied.apply([[changed(3, GEOJSON)]])).toMatchObject({ kind: 'committed' });
    expect(await crsOf(emptied.world.folder)).toBe('OGC:CRS84');
  });

  it('judges the coordinate system of each table of a batch by itself', async () => {
    const table = await tableOfNulls();
    const { world } = table;
    const others = await Promise.all(
      ['a', 'b'].map((name) => world.loaded(firstContent(sourceSchema(SHAPES), ROWS), name)),
    );
    await load(table, NULLS, TEXAS, 'a');
    await load(table, NULLS, { ...TEXAS, crs: null }, 'b');
    for (const course of others) {
      course.publishRows([
        [1, { type: 'Point', coordinates: [1, 2] }],
        [2, null],
      ]);
    }
    await world.byHand("UPDATE b SET g = 'POINT (3000000 1)'::GEOMETRY WHERE id = 2");
    const jobs = await Promise.all(
      others.map(async (course) => course.changes(await world.observed(course.datasetId))),
    );
    expect((await world.execute(...jobs)).map(({ kind }) => kind)).toEqual(['committed', 'failed']);
    expect(await crsOf(world.folder, 'a')).toBe('OGC:CRS84');
    expect(await crsOf(world.folder, 'b')).toBeNull();
  });
});
