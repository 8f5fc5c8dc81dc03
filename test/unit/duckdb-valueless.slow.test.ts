/** A column without a value in a file, all null or without rows, decides nothing, whatever the schema of the file states. */

import { ParquetSchema, ParquetWriter } from '@dsnp/parquetjs';
import { describe, expect, it } from 'vitest';
import { writeSnapshot } from '../../fixtures/source/snapshot.ts';
import { DataError } from '../../src/model/errors.ts';
import { COLUMN_TYPES, type ColumnType } from '../../src/model/records.ts';
import { castOfNothing, strict } from '../../src/staging/snapshot/casts.ts';
import { sourceSchema } from '../support/duckdb-changes.ts';
import { column, duckdb, snapshot } from '../support/duckdb-mirror.ts';
import { geoParquet } from '../support/geo-files.ts';
import { mirrorOfFile } from '../support/own-mirror.ts';
import { column as sourceColumn } from '../support/small-content.ts';

const own = mirrorOfFile();

const TEXAS = { crs: { id: { authority: 'EPSG', code: 2277 } } };
const UTM = { crs: { id: { authority: 'EPSG', code: 32614 } } };
const CRS_OF_TYPE = '{"type":"GeographicCRS","name":"Texas","id":{"authority":"EPSG","code":2277}}';
const columns = [column('n', 'integer'), column('geometry', 'geometry')];

let count = 0;
const fileName = (): string => `part-${++count}.parquet`;
const write = (select: string, options?: string): Promise<string> => own.parquet(fileName(), select, options);
const writeGeo = (select: string, stated: Parameters<typeof geoParquet>[3]): Promise<string> =>
  geoParquet(own.path, fileName(), select, stated);

/** Rows with the point of their number. */
const points = (first: number): string =>
  `SELECT n, ST_AsWKB(format('POINT ({} 1)', n)::GEOMETRY) AS geometry FROM range(${first}, ${first + 2}) t(n)`;

/** Parts with the rows 8 and 9 and no geometry, or without rows, by writers that each state something else of the column. */
const VALUELESS: Readonly<Record<string, () => Promise<string>>> = {
  'null geometries without metadata': () => write('SELECT n, NULL::BLOB AS geometry FROM range(8, 10) t(n)'),
  'null geometries in another coordinate system': () =>
    writeGeo('SELECT n, NULL::BLOB AS geometry FROM range(8, 10) t(n)', { encoding: 'WKB' }),
  'null geometries in another coordinate system that is not that of GeoJSON': () =>
    writeGeo('SELECT n, NULL::BLOB AS geometry FROM range(8, 10) t(n)', { encoding: 'WKB', ...UTM }),
  'null geometries in an unknown coordinate system': () =>
    writeGeo('SELECT n, NULL::BLOB AS geometry FROM range(8, 10) t(n)', { encoding: 'WKB', crs: null }),
  'null geometries of the native type': () =>
    write(
      "SELECT n, NULL::GEOMETRY('OGC:CRS84') AS geometry FROM range(8, 10) t(n)",
      ", GEOPARQUET_VERSION 'V2'",
    ),
  'null geometries as GeoArrow': () =>
    writeGeo('SELECT n, NULL::STRUCT(x DOUBLE, y DOUBLE) AS geometry FROM range(8, 10) t(n)', {
      encoding: 'point',
    }),
  'null geometries as GeoArrow without metadata': () =>
    write('SELECT n, NULL::STRUCT(x DOUBLE, y DOUBLE)[] AS geometry FROM range(8, 10) t(n)'),
  'nulls of an integer type': () => write('SELECT n, NULL::INTEGER AS geometry FROM range(8, 10) t(n)'),
  'null geometries without statistics': async () => {
    const path = `${own.path}/${fileName()}`;
    const schema = sourceSchema([sourceColumn('n', 'integer'), sourceColumn('geometry', 'geometry')]);
    await writeSnapshot({
      schema,
      rows: [
        [8, null],
        [9, null],
      ],
      path,
    });
    return path;
  },
  'no rows and no metadata': () => write('SELECT 1::BIGINT AS n, NULL::BLOB AS geometry WHERE FALSE'),
  'no rows and columns of other types': () => write("SELECT 'a' AS n, 1 AS geometry WHERE FALSE"),
  'no rows and not all columns': () => write('SELECT 1::BIGINT AS n WHERE FALSE'),
};

let tables = 0;
/** Loads a table from each list of files, all together, and returns their names. */
async function loadedEach(
  lists: readonly (readonly string[])[],
  rest: Partial<Parameters<typeof snapshot>[0]> = {},
): Promise<readonly string[]> {
  const jobs = lists.map((files) => snapshot({ datasetId: `t${++tables}`, columns, files, ...rest }));
  return (await own.load(...jobs)).map((outcome) => {
    if (outcome.kind === 'committed') return outcome.committed.tableName;
    throw outcome.kind === 'failed' ? outcome.error : new Error(outcome.kind);
  });
}

async function loaded(
  files: readonly string[],
  rest: Partial<Parameters<typeof snapshot>[0]> = {},
): Promise<string> {
  return String(await loadedEach([files], rest));
}

const rowsOf = (table: string) => own.query(`SELECT n, ST_AsText(geometry) FROM ${table} ORDER BY n`);
async function crsOf(table: string): Promise<unknown> {
  const rows = await own.query(`SELECT crs FROM feed_sync.columns JOIN feed_sync.datasets USING (dataset_id)
      WHERE table_name = '${table}' AND type = 'geometry'`);
  return rows[0]?.[0];
}

describe('F48 a part without a geometry', () => {
  const FORMS: Readonly<Record<string, () => Promise<string>>> = {
    WKB: () => writeGeo(points(0), { encoding: 'WKB', ...TEXAS }),
    GeoArrow: () =>
      writeGeo("SELECT n, {'x': n::DOUBLE, 'y': 1::DOUBLE} AS geometry FROM range(0, 2) t(n)", {
        encoding: 'point',
        ...TEXAS,
      }),
    native: () =>
      write(
        `SELECT n, format('POINT ({} 1)', n)::GEOMETRY('${CRS_OF_TYPE}') AS geometry FROM range(0, 2) t(n)`,
        ", GEOPARQUET_VERSION 'V2'",
      ),
  };
  const POINTS = [
    ['0', 'POINT (0 1)'],
    ['1', 'POINT (1 1)'],
  ];
  const cases = Object.keys(FORMS).flatMap((form) =>
    Object.keys(VALUELESS).map((part) => [form, part] as const),
  );

  it.each(cases)(
    'ignores the coordinate system of a part without a geometry beside %s: %s',
    async (form, part) => {
      const files = [await FORMS[form]?.(), await VALUELESS[part]?.()].map(String);
      const rows = part.startsWith('no rows') ? POINTS : [...POINTS, ['8', null], ['9', null]];
      for (const table of await loadedEach([files, files.toReversed()])) {
        expect(await rowsOf(table)).toEqual(rows);
        expect(await crsOf(table)).toBe('EPSG:2277');
      }
    },
  );

  it('ignores all kinds of parts without a geometry between two parts that agree', async () => {
    const parts = await Promise.all(Object.values(VALUELESS).map((part) => part()));
    const [first, last] = [points(0), points(2)].map((select) =>
      writeGeo(select, { encoding: 'WKB', ...TEXAS }),
    );
    const table = await loaded([String(await first), ...parts, String(await last)]);
    expect(await crsOf(table)).toBe('EPSG:2277');
    expect((await rowsOf(table)).filter(([, wkt]) => wkt !== null).length).toBe(4);
  });

  it('believes only WGS 84 of parts without a geometry where no part has one', async () => {
    const inWgs84 = [
      'null geometries in another coordinate system',
      'null geometries of the native type',
      'null geometries as GeoArrow',
      'null geometries without statistics',
    ];
    const names = Object.keys(VALUELESS);
    const parts = await Promise.all(Object.values(VALUELESS).map((part) => part()));
    const found = (await loadedEach(parts.map((part) => [part, part]))).map((table) => crsOf(table));
    expect(await Promise.all(found)).toEqual(
      names.map((name) => (inWgs84.includes(name) ? 'OGC:CRS84' : null)),
    );
    expect(await crsOf(await loaded(parts))).toBe('OGC:CRS84');
  });

  it('takes the coordinate system of the first geometry where the snapshot before had none', async () => {
    tables += 1;
    const job = { datasetId: `t${tables}`, columns };
    const [before, after] = [
      await writeGeo('SELECT 8::BIGINT AS n, NULL::BLOB AS geometry', { encoding: 'WKB' }),
      await writeGeo(points(0), { encoding: 'WKB', ...TEXAS }),
    ];
    const first = snapshot({ ...job, files: [before] });
    await own.load(first);
    const second = {
      version: 2,
      digest: 'digest-2',
      plannedFrom: (await own.mirror.has()).datasets.get(`t${tables}`) ?? null,
    };
    await own.load(snapshot({ ...job, ...second, files: [after] }));
    expect(await crsOf(`t${tables}`)).toBe('EPSG:2277');
  });

  it('refuses two parts with geometries in two coordinate systems', async () => {
    const files = [
      await writeGeo(points(0), { encoding: 'WKB', ...TEXAS }),
      await VALUELESS['nulls of an integer type']?.(),
      await writeGeo(points(2), { encoding: 'WKB' }),
    ].map(String);
    const error = await own.loadError(snapshot({ datasetId: 'two', columns, files }));
    expect(error.message).toBe(
      'The files of two hold "geometry" in several coordinate systems: EPSG:2277, OGC:CRS84.',
    );
  });

  it('finds a geometry that comes late in its part', async () => {
    const late = `SELECT n, CASE WHEN n = 299999 THEN ST_AsWKB('POINT (1 1)'::GEOMETRY) END AS geometry FROM range(300000) t(n)`;
    const files = [await writeGeo(points(0), { encoding: 'WKB', ...TEXAS }), await write(late)];
    const error = await own.loadError(snapshot({ datasetId: 'late', columns, files }));
    expect(error.message).toContain('in several coordinate systems: EPSG:2277, an unknown one');
  });
});

describe('F48 V16 a part without a value, with a column of another type', () => {
  const VALUES: Readonly<Record<ColumnType, string>> = {
    string: "'a'",
    integer: '1::BIGINT',
    number: '1.5::DOUBLE',
    boolean: 'true',
    date: "DATE '2024-01-01'",
    timestamp: "TIMESTAMPTZ '2024-01-01 00:00:00+00'",
    geometry: "ST_AsWKB('POINT (1 2)'::GEOMETRY)",
    json: `'{"a":1}'`,
  };
  const others = [
    'BOOLEAN',
    'INTEGER',
    'BLOB',
    'TIME',
    'TIMESTAMPTZ',
    'DECIMAL(9,2)',
    'STRUCT(a BLOB)',
    'BLOB[]',
  ];

  it.each(COLUMN_TYPES)(
    'ignores the other type of a part without a value for a column of type %s',
    async (type) => {
      const both = [column('n', 'integer'), column('v', type)];
      const filled = await write(`SELECT 0::BIGINT AS n, ${VALUES[type]} AS v`);
      const nulls = await Promise.all(
        others.map((other) => write(`SELECT 1::BIGINT AS n, NULL::${other} AS v`)),
      );
      const lists = [[filled, ...nulls], [...nulls, filled], nulls];
      const counts = (await loadedEach(lists, { columns: both })).map((table) =>
        own.query(`SELECT count(*)::INTEGER, count(v)::INTEGER FROM ${table}`),
      );
      const expected = lists.map(({ length }) => [[length, length - nulls.length]]);
      expect(await Promise.all(counts)).toEqual(expected);
    },
  );

  it('refuses a value of another type after a part without a value', async () => {
    const both = [column('n', 'integer'), column('v', 'string')];
    const files = [
      await write('SELECT 1::BIGINT AS n, NULL::BIGINT AS v'),
      await write('SELECT 2::BIGINT AS n, 7::BIGINT AS v'),
    ];
    const error = await own.loadError(snapshot({ datasetId: 'hidden', columns: both, files }));
    expect(error).toBeInstanceOf(DataError);
    expect(error.message).toBe(
      `The file part-${count}.parquet of hidden holds in the column "v" the value "7" of type BIGINT, ` +
        'which is another family of types than string.',
    );
  });

  it('loads nulls of a type whose values DuckDB would cut', async () => {
    const path = `${own.path}/${fileName()}`;
    const schema = new ParquetSchema({ v: { type: 'INT96', optional: true } });
    const writer = await ParquetWriter.openFile(schema, path);
    await writer.appendRow({});
    await writer.close();
    const table = await loaded([path], { columns: [column('v', 'timestamp')] });
    expect(await own.query(`SELECT v FROM ${table}`)).toEqual([[null]]);
  });

  it('fails the load where a value comes in a part that should have none', async () => {
    const value = (sql: string) =>
      `SELECT ${strict(castOfNothing('integer'), 'v')} FROM (SELECT ${sql} AS v)`;
    expect(await duckdb(value('NULL::BLOB'))).toEqual([[null]]);
    await expect(duckdb(value("'a'::BLOB"))).rejects.toThrow('a value would be changed');
  });
});
