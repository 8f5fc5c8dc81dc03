/** The content of a feed may be private: every folder and file that the program makes is its owner's alone, whatever the umask. */

import { execFile } from 'node:child_process';
import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import process from 'node:process';
import { expect, it, onTestFinished } from 'vitest';
import { builtProgram } from '../support/built-program.ts';
import { type CountyFeed, countyFeed } from '../support/county-feed.ts';
import { notingProgram } from '../support/hook-program.ts';
import { eventually } from '../support/patience.ts';

const MAIN = builtProgram();

/** The program under that umask, in a folder with a configuration that makes it create every kind of file. */
function installation({ feed }: CountyFeed, umask: string) {
  const home = mkdtempSync(join(tmpdir(), 'feed-sync-modes-'));
  onTestFinished(() => rmSync(home, { recursive: true, force: true }));
  const settings = {
    dataDir: join(home, 'data'),
    destination: {
      path: join(home, 'elsewhere', 'deep', 'mirror.duckdb'),
      publish: join(home, 'out', 'copy.duckdb'),
      publishEvery: '1s',
    },
    hooks: { afterCommit: notingProgram(join(home, 'noted')) },
    webhook: { secretFile: join(home, 'webhook-secrets') },
    status: { listen: '127.0.0.1:0' },
    poll: { every: '1s' },
    disk: { reserve: '0MB' },
  };
  const file = join(home, 'settings.yaml');
  writeFileSync(file, JSON.stringify(settings), { mode: 0o600 });
  const environment = {
    PATH: process.env['PATH'],
    FEED_SYNC_BASE_URL: feed.baseUrl,
    FEED_SYNC_API_KEY: feed.apiKey,
    FEED_SYNC_CONFIG: file,
  };
  const start = (...words: readonly string[]) => {
    const line = ['-c', `umask ${umask}; exec "$@"`, 'sh', process.execPath, MAIN, ...words];
    const child = execFile('sh', line, { env: environment, cwd: home });
    const ended = new Promise<number | null>((resolve) => child.once('close', resolve));
    return { child, ended };
  };
  return { home, start, run: (...words: readonly string[]) => start(...words).ended };
}

/** Every path below the folder with its mode; one that goes meanwhile is none. */
function modesIn(home: string): ReadonlyMap<string, string> {
  const found = readdirSync(home, { recursive: true }).flatMap((path) => {
    const name = String(path);
    const stats = statSync(join(home, name), { throwIfNoEntry: false });
    return stats === undefined
      ? []
      : [[name, `${stats.isDirectory() ? 'd' : '-'}${(stats.mode & 0o777).toString(8)}`] as const];
  });
  return new Map(found);
}

function expectPrivate(home: string, ...others: readonly string[]): void {
  const open = [...modesIn(home)].filter(
    ([name, mode]) => !others.includes(name) && !['d700', '-600'].includes(mode),
  );
  expect(open).toEqual([]);
}

it.each(['000', '022'])('makes every file and folder private under the umask %s', async (umask) => {
  const made = await countyFeed({ kinds: ['zoning', 'permits'], rowsPerDataset: 5 });
  const { home, start, run } = installation(made, umask);
  // Made by the command after commits, which has the umask of feed-sync.
  expect(await run('once')).toBe(0);
  expectPrivate(home);
  for (const words of [
    ['doctor'],
    ['status'],
    ['query', 'SELECT 1'],
    ['once', '--dry-run'],
    ['init', 'made.yaml'],
    ['resync', '--all', '--yes'],
  ]) {
    expect(await run(...words), words.join(' ')).toBe(0);
  }
  expect(await run('webhook', 'add', 'https://receiver.example/webhook')).toBe(0);
  expectPrivate(home);
  const daemon = start('run');
  for (let round = 0; round < 3; round += 1) {
    made.publishNext(made.datasetOf('permits'));
    const reported = round + 2;
    await eventually(() => {
      expectPrivate(home);
      expect(readFileSync(join(home, 'noted'), 'utf8').split('\n').length).toBeGreaterThan(reported);
    });
  }
  daemon.child.kill('SIGKILL');
  await daemon.ended;
  expectPrivate(home);
  expect([...modesIn(home).keys()]).toEqual(
    expect.arrayContaining([
      'data/checkpoint.sqlite',
      'data/lock.sqlite',
      'elsewhere/deep/mirror.duckdb',
      'out/copy.duckdb',
      'made.yaml',
      'webhook-secrets',
    ]),
  );
});

it('keeps the modes of files and folders that were there before', async () => {
  const made = await countyFeed({ kinds: ['zoning'], rowsPerDataset: 5 });
  const { home, run } = installation(made, '022');
  mkdirSync(join(home, 'out'));
  chmodSync(join(home, 'out'), 0o755);
  mkdirSync(join(home, 'data'));
  chmodSync(join(home, 'data'), 0o750);
  expect(await run('once')).toBe(0);
  chmodSync(join(home, 'elsewhere', 'deep', 'mirror.duckdb'), 0o640);
  chmodSync(join(home, 'out', 'copy.duckdb'), 0o644);
  made.publishNext(made.datasetOf('zoning'));
  expect(await run('once')).toBe(0);
  const modes = modesIn(home);
  expect([modes.get('out'), modes.get('data')]).toEqual(['d755', 'd750']);
  expect(modes.get('elsewhere/deep/mirror.duckdb')).toBe('-640');
  expect(modes.get('out/copy.duckdb')).toBe('-644');
});
