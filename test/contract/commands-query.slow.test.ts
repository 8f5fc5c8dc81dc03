/** `feed-sync query`: reads the mirror, changes nothing, and loses nothing of a value on its way out. */

import { spawn, spawnSync } from 'node:child_process';
import { once as onceEvent } from 'node:events';
import { existsSync, mkdirSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import process from 'node:process';
import { describe, expect, it } from 'vitest';
import { builtProgram } from '../support/built-program.ts';
import { countyFeed } from '../support/county-feed.ts';
import { expectMirrored, once } from '../support/expect-mirrored.ts';
import { type Program, program } from '../support/program.ts';

const VALUES = `SELECT * FROM (VALUES
  (1, NULL, '', 9223372036854775807, chr(27) || '[2J' || chr(10) || 'x', TIMESTAMPTZ '2024-01-01 00:00:00.000001+05:45', '{"a": [1.0, null]}'::JSON),
  (2, 'NULL' || chr(13), ' a,"b" ', -9223372036854775808, '日本 😀', NULL, 'null'::JSON)) AS t(i, n, t, b, c, m, j) ORDER BY i`;

const REFUSED = [
  ['SELEC 1', /syntax error/],
  ['SELECT * FROM nowhere', /nowhere does not exist/],
  ['SELECT 1; SELECT 2', /One statement is run at a time/],
  [' ', /The SQL is empty/],
  ["SELECT error('in row')", /in row/],
  ['DROP TABLE us_az_cedarville_permits', /read-only/],
  ["INSERT INTO feed_sync.meta VALUES ('a', 'b')", /read-only/],
  ['UPDATE feed_sync.datasets SET version = 9', /read-only/],
  ["COPY feed_sync.meta TO 'leak.csv'", /disabled by configuration/],
  ["SELECT * FROM read_text('/etc/hostname')", /disabled by configuration/],
  ["ATTACH 'other.duckdb'", /disabled by configuration/],
  ['INSTALL spatial', /disabled|configuration/],
  ['SET enable_external_access = true', /locked|cannot|disabled/i],
] as const;

describe('query', () => {
  it('query writes a table in which nothing moves the cursor', async () => {
    const installed = await mirrored();
    const { stdout, exitCode } = await installed.run('query', VALUES);
    expect(exitCode).toBe(0);
    const [head, rule, first, second, count] = stdout.split('\n');
    expect(head).toMatch(/^i {2}n +t +b +c +m +j$/);
    expect(rule).toMatch(/^─+$/);
    expect(first).toContain('\\u001b[2J\\u000ax');
    expect(first).toContain('9223372036854775807');
    expect(first).toContain('2023-12-31T18:15:00.000001Z');
    expect(second).toContain('日本 😀');
    expect(count).toBe('(2 rows)');
    expect(stdout).not.toContain('\u001b');
  });

  it('query writes JSON lines that keep every digit and distinguish NULL from text', async () => {
    const installed = await mirrored();
    const { stdout } = await installed.run('query', VALUES, '--format', 'json');
    const lines = stdout.trimEnd().split('\n');
    expect(lines).toHaveLength(2);
    expect(lines[0]).toBe(
      '{"i":1,"n":null,"t":"","b":9223372036854775807,"c":"\\u001b[2J\\nx","m":"2023-12-31T18:15:00.000001Z","j":{"a": [1.0, null]}}',
    );
    expect(lines[1]).toContain('"b":-9223372036854775808,');
    expect(JSON.parse(lines[1] ?? '')).toMatchObject({
      n: 'NULL\r',
      t: ' a,"b" ',
      c: '日本 😀',
      m: null,
      j: null,
    });
  });

  it('query writes CSV that distinguishes NULL from empty text', async () => {
    const installed = await mirrored();
    const { stdout } = await installed.run('query', VALUES, '--format', 'csv');
    expect(stdout).toBe(
      'i,n,t,b,c,m,j\n' +
        '1,,"",9223372036854775807,"\u001b[2J\nx",2023-12-31T18:15:00.000001Z,"{""a"": [1.0, null]}"\n' +
        '2,"NULL\r"," a,""b"" ",-9223372036854775808,日本 😀,,null\n',
    );
  });

  it('query writes geometries as text', async () => {
    const installed = await mirrored();
    const sql = `SELECT location FROM us_az_cedarville_permits WHERE location IS NOT NULL LIMIT 1`;
    expect((await installed.run('query', sql, '--format', 'json')).stdout).toMatch(/^\{"location":"POINT \(/);
  });

  it('query refuses with 64 SQL that does not run, writes, or reads elsewhere', async () => {
    const { feed } = await countyFeed({ kinds: ['permits'] });
    const installed = await program({ feed });
    await once(installed);
    const runs = REFUSED.map(async ([sql, words]) => ({
      sql,
      words,
      ended: await installed.run('query', sql),
    }));
    for (const { sql, words, ended } of await Promise.all(runs)) {
      expect(ended, sql).toMatchObject({ exitCode: 64, stdout: '', stderr: expect.stringMatching(words) });
      expect(ended.stderr, sql).not.toMatch(/\n\s+at /);
    }
    expect(existsSync(join(installed.home, 'work', 'leak.csv'))).toBe(false);
    await expectMirrored(installed, feed);
  });

  it('query ends quietly when its reader has enough', async () => {
    const installed = await mirrored();
    const command = [process.execPath, builtProgram(), 'query', '--data-dir', installed.dataDirectory];
    const sql = "SELECT i, repeat('x', 100) FROM range(1000000) AS r(i)";
    const shell = spawn('sh', ['-c', '"$@" --format csv | head -n 2; echo done', 'sh', ...command, sql], {
      env: { PATH: process.env['PATH'] },
    });
    const printed = { out: '', err: '' };
    shell.stdout.on('data', (text) => {
      printed.out += text;
    });
    shell.stderr.on('data', (text) => {
      printed.err += text;
    });
    await onceEvent(shell, 'close');
    expect(printed.err).toBe('');
    expect(printed.out.split('\n')).toHaveLength(4);
  });

  it('query without a mirror says how to make one: 75', async () => {
    const installed = await program();
    const ended = await installed.run('query', 'SELECT 1');
    expect(ended).toMatchObject({ exitCode: 75 });
    expect(ended.stderr).toContain('Make it with: feed-sync once');
  });
});

async function mirrored(): Promise<Program> {
  const { feed } = await countyFeed({ kinds: ['permits'] });
  const installed = await program({ feed });
  await once(installed);
  return installed;
}

it('query loads an extension that DuckDB has installed for this user', async ({ skip }) => {
  const installed = await mirrored();
  const file = 'spatial.duckdb_extension';
  // The PyPI package duckdb-extension-spatial of the version of DuckDB contains it.
  const find = `import duckdb_extension_spatial as it, pathlib; print(*pathlib.Path(it.__file__).parent.rglob('${file}'))`;
  const { stdout: found, status } = spawnSync('python3', ['-c', find], { encoding: 'utf8' });
  skip(status !== 0, 'Without the PyPI package duckdb-extension-spatial --load spatial was not tried.');
  const version = found.split('/').at(-2) ?? '';
  const platform = `linux_${process.arch === 'x64' ? 'amd64' : process.arch}`;
  const folder = join(installed.home, '.duckdb', 'extensions', version, platform);
  mkdirSync(folder, { recursive: true });
  symlinkSync(found.trim(), join(folder, file));
  const sql = "SELECT ST_Area('POLYGON ((0 0, 2 0, 2 2, 0 0))'::GEOMETRY) AS area";
  const ended = await installed.runWith(
    { HOME: installed.home },
    'query',
    '--load',
    'spatial',
    sql,
    '--format',
    'csv',
  );
  expect(ended).toMatchObject({ exitCode: 0, stdout: 'area\n2\n' });
});
