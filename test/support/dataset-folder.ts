/** Small datasets in the form of a folder: a CSV file with every type, and geometries of every kind as JSON lines. */

import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { column } from './small-content.ts';

/** Key `id`; `-` stands for null, so that empty text is text. A point from `lon` and `lat`. */
export const STATIONS = {
  datasetId: 'stations',
  name: 'Stations',
  keyColumns: ['id'],
  columns: [
    column('id', 'integer', false),
    column('name', 'string'),
    column('height', 'number'),
    column('is_open', 'boolean'),
    column('opened', 'date'),
    column('seen_at', 'timestamp'),
    column('notes', 'json'),
    column('lat', 'number'),
    column('lon', 'number'),
    column('spot', 'geometry'),
  ],
  nullText: '-',
  geometry: { column: 'spot', type: 'Point', longitude: 'lon', latitude: 'lat' },
  versions: [version(1, 'v1.csv.gz', 4), version(2, 'v2.csv.gz', 1)],
};

/** The columns stand in another order than described. */
const STATION_HEADER = 'name,id,height,is_open,opened,seen_at,notes,lat,lon';
const STATION_ROWS = [
  '"Łódź ""A"", first\r\nsecond",9223372036854775807,0.3,true,2024-02-29,2024-03-10T02:30:00.123456-05:00,"{""a"":[1,null]}",1.5,-2.25',
  '"",2,-0.0,false,0001-01-01,1969-12-31T23:59:59.999999Z,null,0,0',
  '-,3,-,-,-,-,-,-,7',
  '  padded ,-9223372036854775808,5e-324,true,2024-01-01,2024-01-01T00:00:00+14:00,"""x""",-33.333333333333336,151.2',
];

/** Key of two columns; everything but the key may be missing. */
export const AREAS = {
  datasetId: 'us-xx-areas',
  name: 'Areas',
  keyColumns: ['county', 'number'],
  columns: [
    column('county', 'string', false),
    column('number', 'integer', false),
    column('a/b ~ "c"', 'string'),
    column('shape', 'geometry'),
  ],
  versions: [version(1, 'v1.ndjson.gz', 10)],
};

/** As text, because JSON in a program cannot represent such integers. */
const AREA_ROWS = [
  '{"county":"a","number":9007199254740993,"a/b ~ \\"c\\"":"café","shape":{"type":"Point","coordinates":[0.30000000000000004,1e-7]}}',
  '{"county":"a","number":2,"shape":{"type":"MultiPoint","coordinates":[[1,2],[3,4]]}}',
  '{"county":"b","number":2,"shape":{"type":"LineString","coordinates":[[1,2,3],[4,5,6]]}}',
  '{"county":"b","number":3,"shape":{"type":"MultiLineString","coordinates":[[[1,2],[3,4]],[[5,6],[7,8]]]}}',
  '{"county":"b","number":4,"shape":{"type":"Polygon","coordinates":[[[0,0],[4,0],[4,4],[0,0]],[[1,1],[2,1],[2,2],[1,1]]]}}',
  '{"county":"b","number":5,"shape":{"type":"MultiPolygon","coordinates":[[[[0,0],[4,0],[4,4],[0,0]]],[[[9,9],[8,9],[8,8],[9,9]]]]}}',
  '{"county":"c","number":1,"shape":{"type":"GeometryCollection","geometries":[{"type":"Point","coordinates":[1,2]},{"type":"LineString","coordinates":[[1,2],[3,4]]}]}}',
  '{"county":"c","number":2,"shape":{"type":"Polygon","coordinates":[]}}',
  '{"county":"c","number":3,"shape":{"type":"Point","coordinates":[]}}',
  '{"county":"c","number":4,"a/b ~ \\"c\\"":null,"shape":null}',
];

function version(number: number, file: string, rowCount: number) {
  return { version: number, file, publishedAt: `2024-01-0${number}T00:00:00Z`, rowCount };
}

/** Writes both datasets below `folder`, and a folder that is none. */
export function writeDatasetFolders(folder: string): void {
  writeDataset(folder, STATIONS, {
    'v1.csv.gz': [STATION_HEADER, ...STATION_ROWS, ''].join('\n'),
    'v2.csv.gz': [STATION_HEADER, STATION_ROWS[2], ''].join('\n'),
  });
  writeDataset(folder, AREAS, { 'v1.ndjson.gz': `${AREA_ROWS.join('\n')}\n` });
  mkdirSync(join(folder, 'not-a-dataset'), { recursive: true });
}

function writeDataset(
  folder: string,
  description: { readonly datasetId: string },
  files: Readonly<Record<string, string>>,
): void {
  const path = join(folder, description.datasetId);
  mkdirSync(path, { recursive: true });
  writeFileSync(join(path, 'dataset.json'), JSON.stringify(description));
  for (const [name, text] of Object.entries(files)) writeFileSync(join(path, name), gzipSync(text));
}
