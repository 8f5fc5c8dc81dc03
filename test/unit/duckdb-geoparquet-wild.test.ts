/** F42: the mirror has the files of other writers as another library decodes them, in every column of every row. */

import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Destination } from '../../src/destination/destination.ts';
import { spelled } from '../support/decoded-parquet.ts';
import { inMirror, load, mirrorIn, snapshot, temporaryFolder } from '../support/duckdb-mirror.ts';
import {
  decodedFile,
  describeFiles,
  GEOPARQUET_FILES,
  GEOPARQUET_FOLDER,
  plain,
} from '../support/geoparquet-files.ts';

const source = GEOPARQUET_FOLDER ?? '';
const names = GEOPARQUET_FILES;
const columnsOf = await describeFiles();

function tableOf(name: string): string {
  return `file_${names.indexOf(name)}`;
}

type Row = Readonly<Record<string, unknown>>;

/** The columns of the schema as another library decodes them, the geometry as text. */
async function decoded(file: string): Promise<readonly unknown[]> {
  return (await decodedFile(file, columnsOf(file))).map(plain);
}

describe.skipIf(GEOPARQUET_FOLDER === null)('F42 files by other writers', () => {
  let folder: Awaited<ReturnType<typeof temporaryFolder>>;
  let mirror: Destination;
  const kinds: string[] = [];
  const mirrored = new Map<string, Row[]>();

  beforeAll(async () => {
    folder = await temporaryFolder();
    mirror = await mirrorIn(folder.path, { dataDirectory: source });
    const jobs = names.map((name) =>
      snapshot({ datasetId: tableOf(name), columns: columnsOf(name), files: [join(source, name)] }),
    );
    for (const outcome of await load(mirror, ...jobs)) {
      kinds.push(outcome.kind === 'failed' ? outcome.error.message : outcome.kind);
    }
    const selects = names.map((name) => {
      const cells = columnsOf(name).map(({ name, type }) =>
        type === 'geometry' ? `'${name}': ST_AsText("${name}")` : `'${name}': "${name}"`,
      );
      return `SELECT '${name}' AS file, rowid AS place, to_json({${cells.join(', ')}})::VARCHAR FROM ${tableOf(name)}`;
    });
    const rows = await inMirror(folder.path, `${selects.join(' UNION ALL ')} ORDER BY file, place`);
    for (const [file, , row] of rows) {
      mirrored.set(String(file), [...(mirrored.get(String(file)) ?? []), JSON.parse(String(row))]);
    }
  });
  afterAll(async () => {
    await mirror.close();
    await folder[Symbol.asyncDispose]();
  });

  function rowsOf(name: string): readonly Row[] {
    return mirrored.get(name) ?? [];
  }

  it('loads all 29 files of other writers', () => {
    expect(kinds).toEqual(Array.from({ length: 29 }, () => 'committed'));
  });

  it.each(names)('loads %s as another library decodes it', async (name) => {
    const rows = rowsOf(name).map(({ geometry, ...others }) =>
      plain({ ...others, geometry: typeof geometry === 'string' ? spelled(geometry) : null }),
    );
    expect(rows).toEqual(await decoded(name));
    expect(rows.length).toBeGreaterThan(0);
  });

  const native = names.filter((name) => name.includes('encoding_native'));
  it('finds six files with native encodings, each with a twin in WKB', () => {
    expect(native).toHaveLength(6);
  });
  it.each(native)('loads %s equal to its twin in WKB', (name) => {
    const rows = rowsOf(name);
    expect(rows).toEqual(rowsOf(name.replace('native', 'wkb')));
    const geometries = rows.map(({ geometry }) => geometry);
    expect(geometries).toContain(null);
    expect(geometries.join()).toContain(' EMPTY');
  });

  it('records the coordinate systems of the files of other writers', async () => {
    const rows = await inMirror(
      folder.path,
      `SELECT crs, count(*) FROM feed_sync.columns WHERE type = 'geometry' GROUP BY crs ORDER BY crs`,
    );
    expect(rows).toEqual([
      ['EPSG:4326', '5'],
      ['OGC:CRS84', '23'],
    ]);
  });

  it('loads the geometries of all files into columns of one type', async () => {
    const rows = await inMirror(
      folder.path,
      `SELECT DISTINCT data_type FROM duckdb_columns() WHERE column_name = 'geometry' AND schema_name = 'main'`,
    );
    expect(rows).toEqual([['GEOMETRY']]);
  });
});
