import { createHash } from 'node:crypto';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DuckDBBlobValue, type DuckDBValue } from '@duckdb/node-api';
import { afterAll, describe, expect, it } from 'vitest';
import type {
  Cell,
  Content,
  Geometry,
  Json,
  Row,
  SourceColumn,
  SourceSchema,
} from '../../fixtures/source/content.ts';
import { generateDatasets } from '../../fixtures/source/generate.ts';
import { writeSnapshot } from '../../fixtures/source/snapshot.ts';
import { columnsOf } from '../../fixtures/source/wire.ts';
import { wkbFromGeometry } from '../../fixtures/source/wkb.ts';
import { parquetSource, queryRows, readSnapshot } from '../support/parquet-reader.ts';

const folder = mkdtempSync(join(tmpdir(), 'fixture-source-snapshot-'));
afterAll(() => rmSync(folder, { recursive: true }));
const path = join(folder, 'part-0.parquet');

const columnOf = (type: SourceColumn['type']): SourceColumn => ({ name: 'value', type, nullable: true });
const schemaOf = (...columns: SourceColumn[]): SourceSchema => ({
  schemaVersion: '1',
  columns,
  keyColumns: [],
  envelopeColumns: [],
});

/** Writes one nullable column, with a null at its end, and gives back what an SQL expression makes of it. */
async function writtenAndRead(type: SourceColumn['type'], cells: readonly Cell[], expression = 'value') {
  const rows = [...cells, null].map((cell) => [cell]);
  await writeSnapshot({ schema: schemaOf(columnOf(type)), rows, path });
  const read = await queryRows(`SELECT ${expression} FROM ${parquetSource(path)}`);
  expect(read.at(-1)).toEqual([null]);
  return read.slice(0, -1).flat();
}

/** The time that DuckDB, not the writer under test, takes a timestamp for. */
async function microsecondsByDuckDB(timestamps: readonly string[]): Promise<DuckDBValue[]> {
  if (timestamps.length === 0) return [];
  const values = timestamps.map((text, index) => `(${index}, epoch_us(TIMESTAMPTZ '${text}'))`);
  return (await queryRows(`SELECT micros FROM (VALUES ${values.join(', ')}) v(i, micros) ORDER BY i`)).flat();
}

describe('writeSnapshot, column by column', () => {
  it('keeps integers to both ends of 64 bits', async () => {
    const integers = [-(2n ** 63n), 2n ** 63n - 1n, 2n ** 53n + 1n, 0n, -1n];
    expect(await writtenAndRead('integer', [...integers, 7])).toEqual([...integers, 7n]);
  });

  it('keeps numbers to the last bit, and the sign of zero', async () => {
    const numbers = [0.1 + 0.2, -0, 0, Number.MAX_VALUE, Number.MIN_VALUE, 1e21];
    expect(await writtenAndRead('number', numbers)).toEqual(numbers);
  });

  it('keeps texts of every kind', async () => {
    const texts = [
      '',
      ' ',
      `'"\`“”\\`,
      '\u0001\u001f\u007f\u0085\r\n\t',
      'null',
      'עברית 中文 𐤀 😀',
      'é e\u0301',
    ];
    expect(await writtenAndRead('string', texts)).toEqual(texts);
  });

  it('keeps booleans', async () => {
    expect(await writtenAndRead('boolean', [true, false])).toEqual([true, false]);
  });

  it('keeps dates from year 1 to year 9999', async () => {
    const dates = ['1970-01-01', '1969-12-31', '0001-01-01', '9999-12-31', '1582-10-10', '2024-02-29'];
    expect(await writtenAndRead('date', dates, 'CAST(value AS VARCHAR)')).toEqual(dates);
  });

  it('keeps timestamps to the microsecond, whatever their offset', async () => {
    const timestamps = [
      '1970-01-01T00:00:00Z',
      '1969-12-31T23:59:59.999999Z',
      '0001-01-01T00:00:00.000001Z',
      '9999-12-31T23:59:59.999999Z',
      '2024-02-29T23:59:59.9+14:00',
      '2024-03-10T02:30:00.000001-06:00',
      '2024-07-01T12:34:56.123456+05:45',
    ];
    const read = await writtenAndRead('timestamp', timestamps, 'epoch_us(value)');
    expect(read).toEqual(await microsecondsByDuckDB(timestamps));
  });

  it('keeps geometry of every type', async () => {
    const ring = [
      [0, 0],
      [1, 0],
      [1, 1],
      [0, 0],
    ];
    const read = await writtenAndRead(
      'geometry',
      [
        { type: 'Point', coordinates: [-97.5, 30.25] },
        { type: 'Point', coordinates: [] },
        {
          type: 'LineString',
          coordinates: [
            [0, 0, 1],
            [1, 1, 2],
          ],
        },
        { type: 'MultiPolygon', coordinates: [[ring], [ring]] },
        { type: 'GeometryCollection', geometries: [{ type: 'Polygon', coordinates: [ring] }] },
      ],
      'ST_AsText(value)',
    );
    expect(read).toEqual([
      'POINT (-97.5 30.25)',
      'POINT EMPTY',
      'LINESTRING Z (0 0 1, 1 1 2)',
      'MULTIPOLYGON (((0 0, 1 0, 1 1, 0 0)), ((0 0, 1 0, 1 1, 0 0)))',
      'GEOMETRYCOLLECTION (POLYGON ((0 0, 1 0, 1 1, 0 0)))',
    ]);
  });

  it('keeps JSON of every kind apart from null', async () => {
    const values = [null, 'null', [], [1, [2, { a: null }]], { b: 'ü' }, 0.5, false];
    const cells = values.map((json): Json => ({ json }));
    expect(await writtenAndRead('json', cells)).toEqual(values.map((value) => JSON.stringify(value)));
    expect(await queryRows(`SELECT DISTINCT typeof(value) FROM ${parquetSource(path)}`)).toEqual([['JSON']]);
  });
});

describe('writeSnapshot', () => {
  it('writes every row of every kind of dataset so that DuckDB reads the same values', async () => {
    const seed = 20_261;
    for (const dataset of generateDatasets({ seed, counties: 2, rowsPerDataset: 300 })) {
      for (const content of [dataset.initial(), dataset.next(dataset.initial(), seed)]) {
        const { rowCount } = await writeSnapshot({
          schema: content.schema,
          rows: content.rows(),
          path,
          rowGroupRows: 64,
        });
        expect(rowCount).toBe(content.rowCount);
        const read = await readSnapshot(path, content.schema);
        expect(read, `${dataset.datasetId}, seed ${seed}`).toEqual(await expectedRows(content));
      }
    }
  });

  it('writes a table without rows', async () => {
    const [dataset] = generateDatasets({ seed: 1, counties: 1, rowsPerDataset: 0, kinds: ['parcels'] });
    const content = dataset?.initial();
    if (content === undefined) throw new Error('The generator made no dataset.');
    const { rowCount } = await writeSnapshot({ schema: content.schema, rows: content.rows(), path });
    expect(rowCount).toBe(0);
    expect(await readSnapshot(path, content.schema)).toEqual([]);
    const columns = await queryRows(
      `SELECT column_name FROM (DESCRIBE SELECT * FROM ${parquetSource(path)})`,
    );
    expect(columns.flat()).toEqual(columnsOf(content.schema).map((column) => column.name));
  });

  it('returns length and digest of the file, and writes the same bytes for the same rows', async () => {
    const rows: Row[] = [[1n], [null], [3]];
    const first = await writeSnapshot({ schema: schemaOf(columnOf('integer')), rows, path });
    const bytes = readFileSync(path);
    expect(first).toEqual({
      rowCount: 3,
      bytes: bytes.length,
      sha256: createHash('sha256').update(bytes).digest('hex'),
    });
    expect(await writeSnapshot({ schema: schemaOf(columnOf('integer')), rows, path })).toEqual(first);
  });

  it('writes the same bytes for datasets generated twice from the same seed', async () => {
    const digests = async () => {
      const written: string[] = [];
      for (const dataset of generateDatasets({ seed: 8, counties: 1, rowsPerDataset: 100 })) {
        const { schema, rows } = dataset.next(dataset.initial(), 8);
        written.push((await writeSnapshot({ schema, rows: rows(), path })).sha256);
      }
      return written;
    };
    expect(await digests()).toEqual(await digests());
  });

  it('describes each geometry column in the footer, and writes no footer entry without one', async () => {
    const geometryColumn = (name: string): SourceColumn => ({ name, type: 'geometry', nullable: true });
    const line: Geometry = {
      type: 'LineString',
      coordinates: [
        [3, -4, 5],
        [1, 2, 0],
      ],
    };
    const rows: Row[] = [
      [{ type: 'Point', coordinates: [-1.5, 7] }, null],
      [line, null],
    ];
    await writeSnapshot({
      schema: schemaOf(geometryColumn('geometry'), geometryColumn('"other"')),
      rows,
      path,
    });
    expect(await footerEntries()).toEqual({
      geo: {
        version: '1.1.0',
        primary_column: 'geometry',
        columns: {
          geometry: {
            encoding: 'WKB',
            geometry_types: ['LineString Z', 'Point'],
            bbox: [-1.5, -4, 0, 3, 7, 5],
          },
          '"other"': { encoding: 'WKB', geometry_types: [] },
        },
      },
    });
    await writeSnapshot({ schema: schemaOf(columnOf('string')), rows: [['text']], path });
    expect(await footerEntries()).toEqual({});
  });

  it.each<[string, SourceColumn, Cell]>([
    ['a fraction as an integer', columnOf('integer'), 1.5],
    ['an integer past 64 bits', columnOf('integer'), 2n ** 63n],
    ['text as a boolean', columnOf('boolean'), 'yes'],
    ['a date that does not exist', columnOf('date'), '2024-02-30'],
    ['a timestamp without an offset', columnOf('timestamp'), '2024-02-03T04:05:06'],
    ['a timestamp of nanoseconds', columnOf('timestamp'), '2024-02-03T04:05:06.1234567Z'],
    ['half a surrogate pair', columnOf('string'), '\ud800'],
    ['null where it may not be', { ...columnOf('string'), nullable: false }, null],
  ])('refuses %s, naming row and column, and leaves no file', async (_what, column, cell) => {
    const writing = writeSnapshot({ schema: schemaOf(column), rows: [[cell]], path });
    await expect(writing).rejects.toThrow(`Row 1: The column "value" of type ${column.type}`);
    expect(existsSync(path)).toBe(false);
  });
});

async function footerEntries(): Promise<Record<string, unknown>> {
  const entries = await queryRows(`SELECT key, value FROM parquet_kv_metadata('${path}')`);
  const textOf = (value: DuckDBValue | undefined) =>
    value instanceof DuckDBBlobValue ? Buffer.from(value.bytes).toString('utf8') : String(value);
  return Object.fromEntries(entries.map(([key, value]) => [textOf(key), JSON.parse(textOf(value))]));
}

/** The rows of some content in the form that `readSnapshot` returns. */
async function expectedRows({ schema, rows }: Content): Promise<unknown[][]> {
  const columns = columnsOf(schema);
  const expected = [...rows()].map((row) =>
    columns.map((column, index) => comparable(column, row[index] ?? null)),
  );
  for (const [index, column] of columns.entries()) {
    if (column.type !== 'timestamp') continue;
    const withTimestamp = expected.filter((row) => row[index] !== null);
    const micros = await microsecondsByDuckDB(withTimestamp.map((row) => String(row[index])));
    for (const [position, row] of withTimestamp.entries()) row[index] = micros[position];
  }
  return expected;
}

function comparable(column: SourceColumn, cell: Cell): unknown {
  if (cell === null) return null;
  if (column.type === 'integer') return BigInt(cell as number | bigint);
  if (column.type === 'geometry') return Buffer.from(wkbFromGeometry(cell as Geometry)).toString('hex');
  if (column.type === 'json') return JSON.stringify((cell as Json).json);
  return cell;
}
