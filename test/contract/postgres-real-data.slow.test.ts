/**
 * The real histories and the GeoParquet files of other writers in PostgreSQL, with PostGIS and without, compared with the files by
 * psql and PostGIS: no code of ours reads the tables.
 */

import { execFileSync } from 'node:child_process';
import { copyFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import process from 'node:process';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { DEBIAN, type PostgresServer, startPostgres } from '../../fixtures/postgres-server.ts';
import type { Content } from '../../fixtures/source/content.ts';
import { readDatasetFolder } from '../../fixtures/source/folder.ts';
import {
  type FolderDescription,
  type FolderVersion,
  parseFolderDescription,
} from '../../fixtures/source/folder-description.ts';
import { present } from '../../src/lib/assert.ts';
import type { ColumnType } from '../../src/model/records.ts';
import { load, snapshot } from '../support/duckdb-mirror.ts';
import {
  decodedFile,
  describeFiles,
  GEOPARQUET_FILES,
  GEOPARQUET_FOLDER,
  plain,
} from '../support/geoparquet-files.ts';
import { databaseAtWork, withSortedMembers } from '../support/postgres-destination.ts';
import { literal, psql, quoted } from '../support/psql.ts';

const realData = GEOPARQUET_FOLDER === null ? null : dirname(GEOPARQUET_FOLDER);
const isSkipped = realData === null || DEBIAN.folder === null;
if (DEBIAN.folder === null) {
  process.stderr.write(
    `SKIPPED: ${DEBIAN.name} is not installed, so real data is compared with no PostGIS.\n`,
  );
}

/** How PostgreSQL itself reads the text of a cell. */
const TYPES: Readonly<Record<Exclude<ColumnType, 'geometry'>, string>> = {
  string: 'text',
  integer: 'bigint',
  number: 'double precision',
  boolean: 'boolean',
  date: 'date',
  timestamp: 'timestamptz',
  json: 'jsonb',
};

/** Loads a file of a history into the temporary table `file` of psql, and returns the select of what the table of ours must have. */
function fileInPsql(folder: string, description: FolderDescription, { file }: FolderVersion): string {
  const path = join(folder, file);
  const text = execFileSync('gunzip', ['--stdout', path], { maxBuffer: 1e9 }).toString();
  const { columns, geometry, nullText } = description;
  const from = `FROM PROGRAM 'gunzip --stdout ${path}' WITH`;
  const named = columns.map(({ name }) => quoted(name)).join(', ');
  const stored = columns.flatMap(({ name, type }) => (type === 'geometry' ? [] : [{ name, type }]));
  if (file.endsWith('.ndjson.gz')) {
    const cells = columns.map(({ name, type }) =>
      type === 'geometry'
        ? `ST_AsEWKB(ST_SetSRID(ST_GeomFromGeoJSON(line->>${literal(name)}), 4326))`
        : `(line->>${literal(name)})::${TYPES[type]}`,
    );
    return `CREATE TEMPORARY TABLE file (line json);
\\copy file ${from} (FORMAT csv, QUOTE E'\\x01', DELIMITER E'\\x02')
CREATE TEMPORARY VIEW expected (${named}) AS SELECT ${cells.join(', ')} FROM file;`;
  }
  const header = (text.split('\n')[0] ?? '').split(',').map((name) => quoted(name.replaceAll(/["\r]/g, '')));
  const cells = columns.map(({ name, type }) => {
    if (type !== 'geometry') return quoted(name);
    const { longitude, latitude } = present(geometry, 'a CSV file has points');
    return `ST_AsEWKB(ST_SetSRID(ST_MakePoint(${quoted(longitude)}, ${quoted(latitude)}), 4326))`;
  });
  const nulls = `NULL ${literal(nullText)}, FORCE_NULL (${header.join(', ')})`;
  return `CREATE TEMPORARY TABLE file (${stored.map(({ name, type }) => `${quoted(name)} ${TYPES[type]}`).join(', ')});
\\copy file (${header.join(', ')}) ${from} (FORMAT csv, HEADER, ${nulls})
CREATE TEMPORARY VIEW expected (${named}) AS SELECT ${cells.join(', ')} FROM file;`;
}

/** The number of rows of the table, and of those that only the table or only the file has. */
async function comparedWithFile(
  address: string,
  table: string,
  folder: string,
  description: FolderDescription,
  version: FolderVersion,
): Promise<readonly string[]> {
  const cells = description.columns.map(({ name, type }) =>
    type === 'geometry' ? `ST_AsEWKB(${quoted(name)})` : quoted(name),
  );
  return await psql(
    address,
    `${fileInPsql(folder, description, version)}
CREATE TEMPORARY VIEW actual AS SELECT ${cells.join(', ')} FROM feeds.${quoted(table)};
SELECT count(*) FROM actual;
SELECT count(*) FROM (TABLE actual EXCEPT ALL TABLE expected) AS only_in_the_table;
SELECT count(*) FROM (TABLE expected EXCEPT ALL TABLE actual) AS only_in_the_file;`,
  );
}

describe.skipIf(isSkipped)(`${DEBIAN.name}: real data`, () => {
  let withPostgis: PostgresServer;
  let without: PostgresServer;
  beforeAll(async () => {
    withPostgis = await startPostgres(DEBIAN);
    without = await startPostgres({ ...DEBIAN, hasPostgis: false });
  });
  afterAll(async () => {
    await withPostgis?.stop();
    await without?.stop();
  });

  async function history(name: string) {
    const folder = join(realData ?? '', name);
    const description = parseFolderDescription(await readFile(join(folder, 'dataset.json'), 'utf8'), folder);
    const { datasetId, content } = await readDatasetFolder(folder);
    return { folder, description, datasetId, content, versions: description.versions };
  }

  it.each(['ourairports-navaids', 'toronto-short-term-rentals', 'us-counties'])(
    '%s equals its file at each version, by changes and by reloads, and without PostGIS as WKB',
    async (name) => {
      const { folder, description, datasetId, content, versions } = await history(name);
      const address = await withPostgis.database();
      const world = await databaseAtWork(address);
      const first: Content = await content(1);
      const course = await world.loaded(first, datasetId);
      const { tableName } = await world.observed(datasetId);
      for (const [index, version] of versions.entries()) {
        if (index > 0) {
          course.publish(await content(index + 1));
          const isReload = index % 5 === 0;
          const result = isReload ? await world.load(course) : await world.apply(course);
          expect(result, `version ${version.version}`).toMatchObject({ kind: 'committed' });
        }
        const seen = await comparedWithFile(address, tableName, folder, description, version);
        expect(seen, `version ${version.version}`).toEqual([String(version.rowCount), '0', '0']);
      }
      const plainAddress = await without.database();
      const plainWorld = await databaseAtWork(plainAddress);
      await plainWorld.loaded(await content(versions.length), datasetId);
      const cells = (wkb: string): string =>
        description.columns
          .map(({ name: column, type }) =>
            type === 'geometry' ? `encode(${wkb.replace('?', quoted(column))}, 'hex')` : quoted(column),
          )
          .join(', ');
      const select = (wkb: string): string =>
        `SELECT line FROM (SELECT json_build_array(${cells(wkb)})::text AS line FROM feeds.${quoted(tableName)}) AS lines
          ORDER BY line COLLATE "C";`;
      const bytes = await psql(plainAddress, select('?'));
      expect(bytes).toHaveLength(versions.at(-1)?.rowCount ?? -1);
      expect(bytes).toEqual(await psql(address, select('ST_AsBinary(?)')));
    },
  );

  it('F42 GeoParquet files equal what another library decodes, and without PostGIS as WKB', async () => {
    const columnsOf = await describeFiles();
    const [address, plainAddress] = [await withPostgis.database(), await without.database()];
    const worlds = [await databaseAtWork(address), await databaseAtWork(plainAddress)] as const;
    const tableOf = (file: string): string => `file_${GEOPARQUET_FILES.indexOf(file)}`;
    for (const { folder, destination } of worlds) {
      for (const file of GEOPARQUET_FILES)
        copyFileSync(join(GEOPARQUET_FOLDER ?? '', file), join(folder, file));
      const jobs = GEOPARQUET_FILES.map((file) =>
        snapshot({ datasetId: tableOf(file), columns: columnsOf(file), files: [join(folder, file)] }),
      );
      const results = await load(destination, ...jobs);
      expect(results.map(({ kind }) => kind)).toEqual(Array.from({ length: 29 }, () => 'committed'));
    }
    for (const file of GEOPARQUET_FILES) {
      const columns = columnsOf(file);
      const decoded = await decodedFile(file, columns);
      const srid = await psql(
        address,
        `SELECT crs FROM feed_sync.columns WHERE dataset_id = '${tableOf(file)}' AND type = 'geometry'`,
      );
      expect([['EPSG:4326'], ['OGC:CRS84'], []]).toContainEqual(srid);
      // PostGIS makes the expected geometries of text. EWKB has no empty members, so texts are compared, too.
      const shown = (geometry: string): string =>
        `json_build_array(encode(ST_AsEWKB(${geometry}), 'hex'), ST_AsText(${geometry}))`;
      const read = (geometryOf: (name: string) => string): string => {
        const members = columns.map(({ name, type }) =>
          type === 'geometry'
            ? `${literal(name)}, ${geometryOf(quoted(name))}`
            : `${literal(name)}, ${quoted(name)}`,
        );
        return `SELECT json_build_object(${members.join(', ')}) FROM feeds.${tableOf(file)};`;
      };
      const others = decoded.map(({ geometry, ...rest }) => rest);
      const hasGeometry = columns.some(({ type }) => type === 'geometry');
      const geometries = hasGeometry
        ? await psql(
            address,
            decoded
              .map(
                ({ geometry }) => `ST_SetSRID(ST_GeomFromText(${literal(geometry as string | null)}), 4326)`,
              )
              .map((geometry) => `SELECT ${shown(geometry)};`)
              .join('\n'),
          )
        : [];
      const expected = others.map((rest, index) =>
        hasGeometry ? { ...rest, geometry: JSON.parse(geometries[index] ?? '') } : rest,
      );
      expect(inOrder(await psql(address, read(shown))), file).toEqual(inOrder(expected));
      expect(expected.length).toBeGreaterThan(0);

      const bytes = await psql(
        plainAddress,
        read((name) => `encode(${name}, 'hex')`),
      );
      const texts = hasGeometry
        ? await psql(
            address,
            bytes
              .map((row) => (JSON.parse(row) as { geometry: string | null }).geometry)
              .map((hex) => (hex === null ? 'NULL::bytea' : `'\\x${hex}'::bytea`))
              .map((wkb) => `SELECT ${shown(`ST_GeomFromWKB(${wkb}, 4326)`)};`)
              .join('\n'),
          )
        : [];
      const asPostgis = bytes.map((row, index) =>
        hasGeometry ? { ...JSON.parse(row), geometry: JSON.parse(texts[index] ?? '') } : JSON.parse(row),
      );
      expect(inOrder(asPostgis), `${file} without PostGIS`).toEqual(inOrder(expected));
    }
  });
});

/** The rows in one order, whatever the order of the table; members of objects in the order of their names. */
function inOrder(rows: readonly unknown[]): readonly string[] {
  return rows
    .map((row) => JSON.stringify(withSortedMembers(plain(typeof row === 'string' ? JSON.parse(row) : row))))
    .toSorted((left, right) => (left < right ? -1 : 1));
}
