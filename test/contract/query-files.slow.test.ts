/** `feed-sync query`: where the statement comes from, and where the rows go. */

import { spawnSync } from 'node:child_process';
import {
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { parquetMetadataAsync, parquetReadObjects } from 'hyparquet';
import { compressors } from 'hyparquet-compressors';
import { describe, expect, it, onTestFinished } from 'vitest';
import { type CommandLine, commandLine } from '../support/command-line.ts';
import { countyFeed } from '../support/county-feed.ts';
import { tableNameOf } from '../support/published.ts';

interface Mirrored {
  readonly installed: CommandLine;
  readonly home: string;
  readonly table: string;
}

async function mirrored(standardInput = ''): Promise<Mirrored> {
  const { feed, datasetIds } = await countyFeed({ kinds: ['parcels'], rowsPerDataset: 10 });
  const installed = commandLine({ feed, now: () => feed.clock.now(), standardInput, pid: process.pid });
  onTestFinished(() => installed.remove());
  expect((await installed.run('once')).exitCode).toBe(0);
  return { installed, home: join(installed.dataDirectory, '..'), table: tableNameOf(datasetIds[0] ?? '') };
}

function bufferOf(path: string): ArrayBuffer {
  const bytes = readFileSync(path);
  return bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength) as ArrayBuffer;
}

describe('the statement', () => {
  it('query reads the statement from standard input where there is no other, or where it is named', async () => {
    const { installed } = await mirrored('SELECT 7 AS seven;\n');
    const expected = { exitCode: 0, stdout: 'seven\n7\n' };
    expect(await installed.run('query', '--format', 'csv')).toMatchObject(expected);
    expect(await installed.run('query', '-', '--format', 'csv')).toMatchObject(expected);
    expect(await installed.run('query', '-f', '-', '--format', 'csv')).toMatchObject(expected);
  });

  it('query reads the statement from a file, and ends with 64 for a missing file or two statements', async () => {
    const { installed, home } = await mirrored();
    writeFileSync(join(home, 'seven.sql'), '-- as always\nSELECT 7 AS seven\n');
    const expected = { exitCode: 0, stdout: 'seven\n7\n' };
    expect(await installed.run('query', '-f', 'seven.sql', '--format', 'csv')).toMatchObject(expected);
    const missing = await installed.run('query', '--file', 'eight.sql');
    expect(missing).toMatchObject({
      exitCode: 64,
      stderr: expect.stringContaining('eight.sql cannot be read'),
    });
    expect(await installed.run('query', 'SELECT 1', '-f', 'seven.sql')).toMatchObject({ exitCode: 64 });
    expect(await installed.run('query')).toMatchObject({ exitCode: 64 });
  });
});

describe('the rows', () => {
  it('query writes rows to a file in the format of its ending, with the values of standard output', async () => {
    const { installed, home, table } = await mirrored();
    const sql = `FROM ${table} ORDER BY 1`;
    for (const format of ['csv', 'json'] as const) {
      expect(await installed.run('query', sql, '--output', `rows.${format}`)).toMatchObject({
        stdout: '',
        stderr: expect.stringContaining('(10 rows)'),
        exitCode: 0,
      });
      const { stdout } = await installed.run('query', sql, '--format', format);
      expect(readFileSync(join(home, `rows.${format}`), 'utf8')).toBe(stdout);
    }
    expect(readdirSync(home).toSorted()).toEqual(['data', 'rows.csv', 'rows.json']);
  });

  it('query writes GeoParquet that another reader reads', async () => {
    const { installed, home, table } = await mirrored();
    const ended = await installed.run('query', `FROM ${table};`, '--output', 'rows.geoparquet');
    expect(ended).toMatchObject({ exitCode: 0, stderr: expect.stringContaining('(10 rows)') });
    const file = bufferOf(join(home, 'rows.geoparquet'));
    const { key_value_metadata: metadata = [] } = await parquetMetadataAsync(file);
    const geo = JSON.parse(metadata.find(({ key }) => key === 'geo')?.value ?? '{}');
    expect(geo).toMatchObject({ version: expect.stringMatching(/^1\./), primary_column: 'geometry' });
    expect(await parquetReadObjects({ file, compressors })).toHaveLength(10);
    const plain = await installed.run('query', 'SELECT 1 AS one', '--output', 'rows.parquet');
    expect(plain).toMatchObject({ exitCode: 0 });
    const without = await installed.run('query', 'SELECT 1', '--output', 'none.geoparquet');
    expect(without).toMatchObject({
      exitCode: 64,
      stderr: expect.stringContaining('needs a column of geometries'),
    });
    expect(existsSync(join(home, 'none.geoparquet'))).toBe(false);
  });

  it('query replaces a file only with --yes, and a failing statement leaves the file as it is', async () => {
    const { installed, home } = await mirrored();
    const path = join(home, 'rows.csv');
    writeFileSync(path, 'mine');
    expect(await installed.run('query', 'SELECT 1', '--output', 'rows.csv')).toMatchObject({ exitCode: 64 });
    const failing = await installed.run('query', "SELECT error('no')", '--output', 'rows.csv', '--yes');
    expect(failing).toMatchObject({ exitCode: 64 });
    expect(readFileSync(path, 'utf8')).toBe('mine');
    expect(await installed.run('query', 'SELECT 1 AS a', '--output', 'rows.csv', '--yes')).toMatchObject({
      exitCode: 0,
    });
    expect(readFileSync(path, 'utf8')).toBe('a\n1\n');
    const nowhere = await installed.run('query', 'SELECT 1', '--output', 'no/such/rows.csv');
    expect(nowhere).toMatchObject({ exitCode: 74, stderr: expect.stringContaining('There is no folder') });
    expect(existsSync(join(home, 'no'))).toBe(false);
    expect(await installed.run('query', 'SELECT 1', '--output', 'rows.xyz')).toMatchObject({ exitCode: 64 });
    expect(await installed.run('query', 'SELECT 1', '--format', 'parquet')).toMatchObject({ exitCode: 64 });
    expect(readdirSync(home).toSorted()).toEqual(['data', 'rows.csv']);
  });

  it('query replaces no pipe, device, link or folder, and no file of feed-sync itself', async () => {
    const { installed, home } = await mirrored();
    expect(spawnSync('mkfifo', [join(home, 'pipe.csv')]).status).toBe(0);
    symlinkSync('/dev/null', join(home, 'device.csv'));
    symlinkSync('nowhere', join(home, 'broken.csv'));
    mkdirSync(join(home, 'folder.csv'));
    for (const name of ['pipe.csv', 'device.csv', 'broken.csv', 'folder.csv']) {
      const before = lstatSync(join(home, name)).mode;
      const refused = await installed.run('query', 'SELECT 1 AS a', '--output', name, '--yes');
      expect(refused, name).toMatchObject({
        exitCode: 64,
        stderr: expect.stringContaining('left as it is'),
      });
      expect(lstatSync(join(home, name)).mode, name).toBe(before);
    }
    for (const name of ['mirror.duckdb', 'checkpoint.sqlite', 'lock.sqlite']) {
      const path = join(installed.dataDirectory, name);
      const words = ['query', 'SELECT 1 AS a', '--format', 'csv', '--output', path, '--yes'];
      const refused = await installed.run(...words);
      expect(refused, name).toMatchObject({
        exitCode: 64,
        stderr: expect.stringContaining('of feed-sync itself'),
      });
    }
    expect(await installed.run('status')).toMatchObject({ exitCode: 0 });
  });

  it('rows that end in an error are no result: query reports its words, and leaves no file', async () => {
    const { installed, home } = await mirrored();
    const late = "SELECT CASE WHEN i = 200000 THEN error('too late') ELSE i END AS a FROM range(400000) t(i)";
    const cast =
      "SELECT CAST(CASE WHEN i = 200000 THEN 'x' ELSE '1' END AS INTEGER) AS a FROM range(400000) t(i)";
    for (const [sql, words] of [
      [late, 'too late'],
      [cast, 'Could not convert'],
    ] as const) {
      for (const further of [
        ['--format', 'csv'],
        ['--format', 'json'],
        ['--output', 'rows.csv'],
      ]) {
        const ended = await installed.run('query', sql, ...further);
        expect(ended, further.join()).toMatchObject({ exitCode: 64, stderr: expect.stringContaining(words) });
      }
    }
    expect(readdirSync(home)).toEqual(['data']);
    expect(await installed.run('query', 'SELECT 1 AS a', '--format', 'csv')).toMatchObject({
      stdout: 'a\n1\n',
    });
  });

  it('two queries into one file at the same time leave one whole result', async () => {
    const { installed, home } = await mirrored();
    mkdirSync(join(home, '.rows.csv.writing'));
    const numbers = (who: string) => `SELECT i, '${who}' AS who FROM range(50000) t(i) ORDER BY i`;
    const ended = await Promise.all(
      ['one', 'two'].map((who) => installed.run('query', numbers(who), '--output', 'rows.csv', '--yes')),
    );
    expect(ended.map(({ exitCode, stderr }) => [exitCode, stderr])).toEqual([
      [0, expect.stringContaining('Wrote')],
      [0, expect.stringContaining('Wrote')],
    ]);
    const lines = readFileSync(join(home, 'rows.csv'), 'utf8').trimEnd().split('\n');
    expect(lines).toHaveLength(50_001);
    expect(new Set(lines.slice(1).map((line) => line.split(',')[1])).size).toBe(1);
    expect(readdirSync(home).toSorted()).toEqual(['.rows.csv.writing', 'data', 'rows.csv']);
  });

  it('a statement cannot reach a file beside the output', async () => {
    const { installed, home } = await mirrored();
    mkdirSync(join(home, 'private'));
    writeFileSync(join(home, 'private', 'secret.csv'), 'a\n1\n');
    const sql = `FROM '${join(home, 'private', 'secret.csv')}'`;
    const ended = await installed.run('query', sql, '--output', join(home, 'rows.csv'));
    expect(ended).toMatchObject({ exitCode: 64 });
  });

  it('query shows rows wider than the screen one column under another, and a plan as DuckDB draws it', async () => {
    const { installed, table } = await mirrored();
    const sql = `FROM ${table} LIMIT 2`;
    const { stdout } = await installed.runOn({ width: 80, resultWidth: 80 }, 'query', sql);
    expect(stdout).toMatch(/^row 1 ─+\nparcel_id +\S+\n[\s\S]*\nrow 2 ─+\n[\s\S]*\(2 rows\)\n$/);
    const narrow = await installed.runOn({ width: 80, resultWidth: 80 }, 'query', 'SELECT 1 AS a');
    expect(narrow.stdout).toBe('a\n─\n1\n(1 row)\n');
    const plan = await installed.run('query', 'EXPLAIN SELECT 1');
    expect(plan.stdout).toContain('┌');
    expect(plan.stdout).not.toContain('\\u000a');
  });
});

it('query names a missing extension with what to do, and refuses a path as the name of one', async () => {
  const { installed } = await mirrored();
  const missing = await installed.run('query', 'SELECT 1', '--load', 'no_such_extension');
  expect(missing).toMatchObject({
    exitCode: 64,
    stderr: expect.stringContaining('INSTALL no_such_extension'),
  });
  const path = await installed.run('query', 'SELECT 1', '--load', '/tmp/evil.duckdb_extension');
  expect(path).toMatchObject({ exitCode: 64, stderr: expect.stringContaining('is no name of an extension') });
});
