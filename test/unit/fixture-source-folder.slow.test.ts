import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { readDatasetFolder, readDatasetFolders } from '../../fixtures/source/folder.ts';
import { realDataDirectory } from '../support/real-data.ts';

const DESCRIPTION = {
  datasetId: 'stations',
  name: 'Stations',
  keyColumns: ['id'],
  columns: [
    { name: 'id', type: 'integer', nullable: false },
    { name: 'name', type: 'string', nullable: true },
    { name: 'latitude', type: 'number', nullable: true },
    { name: 'longitude', type: 'number', nullable: true },
    { name: 'open', type: 'boolean', nullable: true },
    { name: 'geometry', type: 'geometry', nullable: true },
  ],
  geometry: { column: 'geometry', type: 'Point', longitude: 'longitude', latitude: 'latitude' },
  nullText: '-',
};
const version = (number: number, file: string, rowCount: number) => ({
  version: number,
  file,
  publishedAt: `2024-01-0${number}T00:00:00-05:00`,
  rowCount,
});

let parent: string;
let folder: string;
beforeEach(() => {
  parent = mkdtempSync(join(tmpdir(), 'fixture-source-folder-'));
  folder = join(parent, 'stations');
  mkdirSync(folder);
});
afterEach(() => rmSync(parent, { recursive: true }));

const describeAs = (description: object) =>
  writeFileSync(join(folder, 'dataset.json'), JSON.stringify({ ...DESCRIPTION, ...description }));
const writeTable = (file: string, text: string) => writeFileSync(join(folder, file), gzipSync(text));

describe('readDatasetFolder', () => {
  it('reads CSV exactly, builds points, and lists the differences from the version before', async () => {
    describeAs({ versions: [version(1, 'a.csv.gz', 3), version(2, 'b.csv.gz', 2)] });
    writeTable(
      'a.csv.gz',
      'id,name,latitude,longitude,open\n9223372036854775807,"a, ""b""\nc",1.5,-2,true\n2,-,-,3,-\n3,,0,0,false\n',
    );
    writeTable('b.csv.gz', 'id,latitude,longitude,name,open\n2,4,3,,-\n3,0,0,,false\n');
    const dataset = await readDatasetFolder(folder);
    expect(dataset).toMatchObject({ datasetId: 'stations', name: 'Stations', versionCount: 2 });

    const first = await dataset.content(1);
    expect(first).toMatchObject({ rowCount: 3, changes: null, publishedAt: '2024-01-01T00:00:00-05:00' });
    expect([...first.rows()]).toEqual([
      [2n ** 63n - 1n, 'a, "b"\nc', 1.5, -2, true, { type: 'Point', coordinates: [-2, 1.5] }],
      [2n, null, null, 3, null, null],
      [3n, '', 0, 0, false, { type: 'Point', coordinates: [0, 0] }],
    ]);

    const second = await dataset.content(2);
    expect(second.changes).toEqual([
      { op: 'changed', row: [2n, '', 4, 3, null, { type: 'Point', coordinates: [3, 4] }] },
      { op: 'removed', key: [2n ** 63n - 1n] },
    ]);
  });

  it('reads newline-delimited JSON exactly', async () => {
    describeAs({ geometry: undefined, versions: [version(1, 'a.ndjson.gz', 2)] });
    const geometry = {
      type: 'LineString',
      coordinates: [
        [1, 2, 3],
        [4, 5, 6],
      ],
    };
    writeTable(
      'a.ndjson.gz',
      `{"id": 9007199254740993, "geometry": ${JSON.stringify(geometry)}}\n{"name": "b", "id": 2}\n`,
    );
    const content = await (await readDatasetFolder(folder)).content(1);
    expect([...content.rows()]).toEqual([
      [9_007_199_254_740_993n, null, null, null, null, geometry],
      [2n, 'b', null, null, null, null],
    ]);
  });

  it('names the file, the record and the fault of a description or a table', async () => {
    describeAs({ versions: [version(1, 'a.csv.gz', 5)] });
    const dataset = await readDatasetFolder(folder);
    writeTable('a.csv.gz', 'id\n1\n');
    await expect(dataset.content(1)).rejects.toThrow(/a\.csv\.gz has 1 rows where dataset\.json says 5/);
    writeTable('a.csv.gz', 'id\n1.5\n');
    await expect(dataset.content(1)).rejects.toThrow(
      /a\.csv\.gz, record 1, column "id".*"1\.5" is not an integer/,
    );
    writeTable('a.csv.gz', 'id,colour\n1,red\n');
    await expect(dataset.content(1)).rejects.toThrow(/columns that the dataset's description lacks: colour/);
    await expect(dataset.content(2)).rejects.toThrow('stations has no version 2');
    describeAs({ versions: [] });
    await expect(readDatasetFolder(folder)).rejects.toThrow(/dataset\.json does not describe a dataset/);
  });
});

describe('readDatasetFolders', () => {
  it('ignores folders without a description', async () => {
    describeAs({ versions: [version(1, 'a.csv.gz', 0)] });
    mkdirSync(join(parent, 'geoparquet'));
    expect((await readDatasetFolders(parent)).map((dataset) => dataset.datasetId)).toEqual(['stations']);
  });
});

const realData = realDataDirectory();

describe.skipIf(realData === null)('the real datasets', () => {
  it('reads every version of the real datasets, with the row counts of their descriptions', async () => {
    const datasets = await readDatasetFolders(realData ?? '');
    const versionCounts = Object.fromEntries(
      datasets.map((dataset) => [dataset.datasetId, dataset.versionCount]),
    );
    expect(versionCounts).toEqual({
      'ca-on-toronto-short-term-rentals': 31,
      'ourairports-navaids': 24,
      'us-counties': 1,
    });
    for (const dataset of datasets) {
      let rowCount = 0;
      for (let number = 1; number <= dataset.versionCount; number++) {
        const content = await dataset.content(number);
        const operations = content.changes?.map((change) => change.op) ?? [];
        const count = (op: string) => operations.filter((operation) => operation === op).length;
        if (number > 1) expect(content.rowCount).toBe(rowCount + count('added') - count('removed'));
        rowCount = content.rowCount;
      }
    }
  });

  it('reads an empty version of the navigation aids that the next version restores', async () => {
    const navaids = (await readDatasetFolders(realData ?? '')).find(
      ({ datasetId }) => datasetId === 'ourairports-navaids',
    );
    const empty = await navaids?.content(14);
    const restored = await navaids?.content(15);
    expect([empty?.rowCount, empty?.changes?.length]).toEqual([0, 11_020]);
    expect([restored?.rowCount, restored?.changes?.length]).toEqual([11_020, 11_020]);
  });
});
