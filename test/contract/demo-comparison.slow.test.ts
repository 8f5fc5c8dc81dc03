/** The comparison of a mirror with the files of its datasets: what is equal, and everything that can differ. */

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { compareCaptured } from '../support/compare-captured.ts';
import { writeDatasetFolders } from '../support/dataset-folder.ts';
import { writeChangedCopy, writeMirror } from '../support/mirror-file.ts';

const MIRROR = [
  'CREATE SCHEMA feed_sync',
  'CREATE TABLE feed_sync.datasets (dataset_id VARCHAR, table_name VARCHAR, version BIGINT, row_count BIGINT, key_columns VARCHAR[])',
  `INSERT INTO feed_sync.datasets VALUES
    ('stations', 'stations', 1, 4, ['id']), ('us-xx-areas', 'us_xx_areas', 1, 10, ['county', 'number'])`,
  `CREATE TABLE stations (id BIGINT, name VARCHAR, height DOUBLE, is_open BOOLEAN, opened DATE,
    seen_at TIMESTAMPTZ, notes JSON, lat DOUBLE, lon DOUBLE, spot GEOMETRY('OGC:CRS84'))`,
  `INSERT INTO stations VALUES
    (3, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 7, NULL),
    (9223372036854775807, 'Łódź "A", first' || chr(13) || chr(10) || 'second', 0.3, true, '2024-02-29',
      '2024-03-10 07:30:00.123456+00', '{"a":[1,null]}', 1.5, -2.25, 'POINT (-2.25 1.5)'),
    (2, '', CAST('-0.0' AS DOUBLE), false, '0001-01-01', '1969-12-31 23:59:59.999999+00', NULL, 0, 0, 'POINT (0 0)'),
    (-9223372036854775808, '  padded ', 5e-324, true, '2024-01-01', '2023-12-31 10:00:00+00', '"x"',
      -33.333333333333336, 151.2, 'POINT (151.2 -33.333333333333336)')`,
  `CREATE TABLE us_xx_areas (county VARCHAR, number BIGINT, "a/b ~ ""c""" VARCHAR, shape GEOMETRY)`,
  `INSERT INTO us_xx_areas VALUES
    ('a', 9007199254740993, 'café', 'POINT (0.30000000000000004 0.0000001)'),
    ('a', 2, NULL, 'MULTIPOINT (1 2, 3 4)'),
    ('b', 2, NULL, 'LINESTRING Z (1 2 3, 4 5 6)'),
    ('b', 3, NULL, 'MULTILINESTRING ((1 2, 3 4), (5 6, 7 8))'),
    ('b', 4, NULL, 'POLYGON ((0 0, 4 0, 4 4, 0 0), (1 1, 2 1, 2 2, 1 1))'),
    ('b', 5, NULL, 'MULTIPOLYGON (((0 0, 4 0, 4 4, 0 0)), ((9 9, 8 9, 8 8, 9 9)))'),
    ('c', 1, NULL, 'GEOMETRYCOLLECTION (POINT (1 2), LINESTRING (1 2, 3 4))'),
    ('c', 2, NULL, 'POLYGON EMPTY'), ('c', 3, NULL, 'POINT EMPTY'), ('c', 4, NULL, NULL)`,
];

let folder: string;
let data: string;
let mirror: string;
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'demo-comparison-'));
  data = join(folder, 'data');
  mirror = join(folder, 'mirror.duckdb');
  writeDatasetFolders(data);
  await writeMirror(mirror, ...MIRROR);
});
afterAll(() => rmSync(folder, { recursive: true }));

async function compareAfter(...statements: readonly string[]) {
  const changed = join(folder, 'changed.duckdb');
  await writeChangedCopy(mirror, changed, ...statements);
  return compareCaptured('--mirror', changed, '--data', data);
}

describe('the comparison of a mirror that equals the files', () => {
  it('the comparison finds a mirror equal in every dataset, every type and every kind of geometry', async () => {
    expect(await compareCaptured('--mirror', mirror, '--data', data)).toEqual({
      exitCode: 0,
      stdout: `stations version 1: 4 rows, 10 columns, equal
us-xx-areas version 1: 10 rows, 4 columns, equal

stations: 1 version, 1 equal
us-xx-areas: 1 version, 1 equal
`,
      stderr: '',
    });
  });

  it("the comparison ignores the sign of a zero, which DuckDB's storage does not keep", async () => {
    const unsigned = `SELECT * REPLACE (CASE id WHEN 2 THEN 0.0 ELSE height END AS height) FROM stations`;
    const { exitCode } = await compareAfter(`CREATE OR REPLACE TABLE stations AS ${unsigned}`);
    expect(exitCode).toBe(0);
  });

  it('the comparison uses the version that the mirror says it has, unless another one is named', async () => {
    const second = await compareAfter(
      'DELETE FROM stations WHERE id <> 3',
      `UPDATE feed_sync.datasets SET version = 2, row_count = 1 WHERE dataset_id = 'stations'`,
    );
    expect(second).toMatchObject({
      exitCode: 0,
      stdout: expect.stringContaining('stations version 2: 1 row,'),
    });
    const asked = await compareCaptured('--mirror', mirror, '--data', data, '--version', '2');
    expect(asked.exitCode).toBe(1);
    expect(asked.stdout).toContain('version: 2 expected, the mirror says 1\n');
    expect(asked.stdout).toContain('3 keys only in the mirror, first id = 9223372036854775807\n');
    expect(asked.stdout).toContain('stations: 1 version, 0 equal\nus-xx-areas: 1 version, 1 equal\n');
  });
});

/** What is done to the mirror, and the lines that report it. */
const DIFFERENCES: readonly (readonly [string, string, readonly string[]])[] = [
  [
    'a character of a text',
    `UPDATE stations SET name = replace(name, 'Ł', 'L') WHERE name LIKE 'Ł%'`,
    [
      'column "name": 1 cell different, first at id = 9223372036854775807',
      String.raw`  file    "Łódź \"A\", first\r\nsecond"`,
      String.raw`  mirror  "Lódź \"A\", first\r\nsecond"`,
      '1 row only in the file, all columns together, such as',
      '1 row only in the mirror, all columns together, such as',
    ],
  ],
  [
    'null in the place of empty text',
    'UPDATE stations SET name = NULL WHERE id = 2',
    ['column "name": 1 cell different, first at id = 2', '  file    ""', '  mirror  null'],
  ],
  [
    'empty text in the place of null',
    `UPDATE stations SET name = '' WHERE id = 3`,
    ['column "name": 1 cell different, first at id = 3', '  file    null', '  mirror  ""'],
  ],
  [
    'blanks cut off',
    'UPDATE stations SET name = trim(name)',
    ['  file    "  padded "', '  mirror  "padded"'],
  ],
  [
    'a double by one unit in its last place',
    'UPDATE stations SET height = 0.30000000000000004 WHERE height = 0.3',
    [
      'column "height": 1 cell different, first at id = 9223372036854775807',
      '  file    0.3',
      '  mirror  0.30000000000000004',
    ],
  ],
  [
    'a boolean',
    'UPDATE stations SET is_open = NOT is_open WHERE id = 2',
    ['  file    false', '  mirror  true'],
  ],
  [
    'a date',
    'UPDATE stations SET opened = opened + 1 WHERE id = 2',
    ['  file    0001-01-01', '  mirror  0001-01-02'],
  ],
  [
    'a microsecond',
    `UPDATE stations SET seen_at = seen_at + INTERVAL 1 MICROSECOND WHERE id = 2`,
    ['  file    1969-12-31 23:59:59.999999+00', '  mirror  1970-01-01 00:00:00+00'],
  ],
  [
    "F78 JSON's null in the place of no value",
    `UPDATE stations SET notes = 'null' WHERE id = 3`,
    ['column "notes": 1 cell different, first at id = 3', '  file    null', '  mirror  "null"'],
  ],
  [
    "F78 JSON's null where the file has it, too, which is no value",
    `UPDATE stations SET notes = 'null' WHERE id = 2`,
    ['column "notes": 1 cell different, first at id = 2', '  file    null', '  mirror  "null"'],
  ],
  [
    'F78 a JSON text with a blank that means nothing',
    `UPDATE stations SET notes = '{"a": [1,null]}' WHERE id = 9223372036854775807`,
    [
      'column "notes": 1 cell different, first at id = 9223372036854775807',
      String.raw`  file    "{\"a\":[1,null]}"`,
      String.raw`  mirror  "{\"a\": [1,null]}"`,
    ],
  ],
  [
    'a coordinate',
    `UPDATE us_xx_areas SET shape = 'POLYGON ((0 0, 4 0, 4 4, 0 0), (1 1, 2 1, 2 2.0000000000000004, 1 1))'
      WHERE county = 'b' AND number = 4`,
    [
      'column "shape": 1 cell different, first at county = "b", number = 4',
      '  file    POLYGON ((0 0, 4 0, 4 4, 0 0), (1 1, 2 1, 2 2, 1 1))',
      '  mirror  POLYGON ((0 0, 4 0, 4 4, 0 0), (1 1, 2 1, 2 2.0000000000000004, 1 1))',
    ],
  ],
  [
    'null in the place of an empty geometry',
    `UPDATE us_xx_areas SET shape = NULL WHERE county = 'c' AND number = 2`,
    ['  file    POLYGON EMPTY', '  mirror  null'],
  ],
  [
    'several cells of several columns',
    'UPDATE stations SET lat = lat + 1, lon = 0 WHERE lat IS NOT NULL',
    [
      'column "lat": 3 cells different, first at id = 9223372036854775807',
      'column "lon": 2 cells different, first at id = 9223372036854775807',
    ],
  ],
  [
    'an integer beyond the precision of a double',
    `UPDATE us_xx_areas SET number = 9007199254740992 WHERE county = 'a' AND number > 2`,
    [
      '1 key only in the file, first county = "a", number = 9007199254740993',
      '1 key only in the mirror, first county = "a", number = 9007199254740992',
    ],
  ],
  [
    'a row removed',
    'DELETE FROM stations WHERE id = 2',
    [
      'row count of feed_sync.datasets: 3 expected, the mirror says 4',
      '1 key only in the file, first id = 2',
      '1 row only in the file, all columns together, such as',
    ],
  ],
  [
    'a row added',
    `INSERT INTO us_xx_areas VALUES ('z', 1, NULL, NULL)`,
    [
      '1 key only in the mirror, first county = "z", number = 1',
      '1 row only in the mirror, all columns together, such as',
    ],
  ],
  [
    'a row twice',
    'INSERT INTO stations SELECT * FROM stations WHERE id = 3',
    [
      '1 key more than once in the mirror, first id = 3',
      '1 row only in the mirror, all columns together, such as',
    ],
  ],
  ['a column missing', 'ALTER TABLE stations DROP COLUMN height', ['column "height": only in the file']],
  [
    'a key column missing',
    'ALTER TABLE us_xx_areas DROP COLUMN number',
    ['column "number": only in the file'],
  ],
  [
    'a column too many',
    'ALTER TABLE stations ADD COLUMN extra INTEGER',
    ['column "extra": only in the mirror'],
  ],
  [
    'a column of another name',
    'ALTER TABLE stations RENAME COLUMN height TO "Height"',
    ['column "height": only in the file', 'column "Height": only in the mirror'],
  ],
  [
    'a column of another type',
    'ALTER TABLE stations ALTER COLUMN id TYPE HUGEINT',
    ['column "id": type BIGINT expected, the mirror has HUGEINT'],
  ],
  [
    'columns in another order',
    'CREATE OR REPLACE TABLE us_xx_areas AS SELECT number, county, * EXCLUDE (number, county) FROM us_xx_areas',
    [
      'order of columns',
      '  file    county, number, a/b ~ "c", shape',
      '  mirror  number, county, a/b ~ "c", shape',
    ],
  ],
  [
    'other key columns',
    `UPDATE feed_sync.datasets SET key_columns = ['name'] WHERE dataset_id = 'stations'`,
    ['key columns: id expected, the mirror says name'],
  ],
  ['a table missing', 'DROP TABLE stations', ['The mirror does not have it.']],
  [
    'a dataset missing',
    `DELETE FROM feed_sync.datasets WHERE dataset_id = 'stations'`,
    ['The mirror does not have it.'],
  ],
];

describe('the comparison of a mirror that differs', () => {
  it.each(DIFFERENCES)('the comparison reports a mirror that differs in %s', async (_what, change, lines) => {
    const { exitCode, stdout } = await compareAfter(change);
    expect(stdout).toContain('NOT equal');
    const [changed, other] = change.includes('us_xx_areas')
      ? ['us-xx-areas', 'stations']
      : ['stations', 'us-xx-areas'];
    const paragraph = new RegExp(`^${changed} version [\\s\\S]*?(?=^\\S|^$)`, 'm').exec(stdout)?.[0] ?? '';
    const reported = paragraph.split('\n').map((line) => line.slice(2));
    expect(reported).toEqual(expect.arrayContaining([...lines]));
    expect(stdout).toContain(`${changed}: 1 version, 0 equal\n`);
    expect(stdout).toContain(`${other}: 1 version, 1 equal\n`);
    expect(exitCode).toBe(1);
  });

  it('the comparison shows a long value around the first character that differs', async () => {
    const text = `${'x'.repeat(5_000)}%${'y'.repeat(5_000)}`;
    writeFileSync(join(data, 'stations', 'v2.csv.gz'), gzipSync(`id,name\n3,${text.replace('%', 'A')}\n`));
    const { exitCode, stdout } = await compareAfter(
      `CREATE OR REPLACE TABLE stations AS
        SELECT * REPLACE ('${text.replace('%', 'B')}' AS name, NULL::DOUBLE AS lon) FROM stations WHERE id = 3`,
      `UPDATE feed_sync.datasets SET version = 2, row_count = 1 WHERE dataset_id = 'stations'`,
    );
    expect(exitCode).toBe(1);
    expect(stdout).toContain(`    file    …${'x'.repeat(30)}A${'y'.repeat(69)}…\n`);
    expect(stdout).toContain(`    mirror  …${'x'.repeat(30)}B${'y'.repeat(69)}…\n`);
    writeDatasetFolders(data);
  });
});

describe('a comparison that cannot be made', () => {
  it('the comparison refuses folders, datasets, mirrors, versions and words that make no sense with 64', async () => {
    const empty = mkdtempSync(join(folder, 'empty-'));
    const noMirror = join(empty, 'x', 'mirror.duckdb');
    const foreign = join(folder, 'foreign.duckdb');
    await writeMirror(foreign, 'CREATE TABLE a (b INTEGER)');
    const cases: readonly (readonly [readonly string[], string])[] = [
      [['--mirror', mirror, '--data', join(empty, 'x')], `There is no folder ${join(empty, 'x')}`],
      [['--mirror', mirror, '--data', empty], `The folder ${empty} contains no dataset`],
      [['--mirror', noMirror, '--data', data], `There is no mirror ${noMirror}`],
      [['--mirror', foreign, '--data', data], 'is no mirror: it has no table feed_sync.datasets'],
      [['--mirror', mirror, '--data', data, '--version', '0'], '--version must be a number from 1, not 0'],
      [['--mirror', mirror], "required option '--data <folder>' not specified"],
      [['--mirror', mirror, '--data', data, '--fast'], "unknown option '--fast'"],
    ];
    for (const [words, message] of cases) {
      const { exitCode, stdout, stderr } = await compareCaptured(...words);
      expect([exitCode, stdout]).toEqual([64, '']);
      expect(stderr).toContain(message);
    }
  });

  it('the comparison ends with 70 where a file does not contain what its description says', async () => {
    writeFileSync(join(data, 'stations', 'v1.csv.gz'), gzipSync('id,name\n1.5,a\n'));
    const { exitCode, stderr } = await compareCaptured('--mirror', mirror, '--data', data);
    writeDatasetFolders(data);
    expect(exitCode).toBe(70);
    expect(stderr).toMatch(/v1\.csv\.gz cannot be read as its description says: .*is no integer: 1\.5/);
  });
});
