/** A file at `destination.path` that is no mirror: every command says so alike, and leaves it as it is. */

import { spawnSync } from 'node:child_process';
import { mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { describe, expect, it, onTestFinished } from 'vitest';
import { stillClock } from '../../fixtures/feed/clock.ts';
import { startFixtureFeed } from '../../fixtures/feed/feed.ts';
import { type CommandLine, commandLine } from '../support/command-line.ts';
import { duckdb } from '../support/duckdb-mirror.ts';
import { CANARY_KEY } from '../support/feed-client.ts';
import { publishSmall } from '../support/started-feed.ts';

const NOW = '2026-03-01T12:00:00.000Z';

const COMMANDS: readonly (readonly string[])[] = [
  ['once'],
  ['once', '--dry-run'],
  ['query', 'SELECT 1'],
  ['verify'],
  ['doctor'],
  ['status'],
  ['compact'],
];

/** `query` and `compact` read no checkpoint. */
const OF_THE_CHECKPOINT = [74, 74, 0, 74, 74, 74, 0];

interface Place {
  readonly line: CommandLine;
  readonly mirrorPath: string;
}

async function installed(): Promise<Place> {
  const feed = await startFixtureFeed({ apiKey: CANARY_KEY, clock: stillClock(NOW) });
  onTestFinished(feed.close);
  feed.publisher.subscribe({ subscriptionId: 'sub_1', datasetIds: ['parcels'] });
  publishSmall(feed, ['parcels']);
  const environment = { FEED_SYNC_LOG_LEVEL: 'silent' };
  const line = commandLine({ feed, now: () => new Date(NOW), environment });
  onTestFinished(() => line.remove());
  mkdirSync(line.dataDirectory, { mode: 0o700 });
  return { line, mirrorPath: join(line.dataDirectory, 'mirror.duckdb') };
}

/** Expects every command to refuse the file and to leave it as it is, and returns what each of them said. */
async function refusalsOf({ line, mirrorPath }: Place): Promise<readonly string[]> {
  const before = readFileSync(mirrorPath);
  const refusals: string[] = [];
  for (const words of COMMANDS) {
    const { exitCode, stdout, stderr } = await line.run(...words);
    const said = `${stdout}${stderr}`;
    expect(exitCode, said).toBe(78);
    expect(readFileSync(mirrorPath).equals(before)).toBe(true);
    refusals.push(said);
  }
  return refusals;
}

function writeSqlite(path: string): void {
  const database = new Database(path);
  database.exec('CREATE TABLE letters (text)');
  database.close();
}

/** As ext4 makes one: nothing for 1,024 bytes, then the superblock. */
function imageOfDisk(): Buffer {
  return Buffer.alloc(20_000, 0xa5).fill(0, 0, 1_024);
}

const FOREIGN: Readonly<Record<string, (path: string) => Promise<unknown>>> = {
  'a database of SQLite': async (path) => writeSqlite(path),
  'a Parquet file': (path) => duckdb(`COPY (SELECT 1 AS a) TO '${path}' (FORMAT parquet)`),
  'bytes of any kind': (path) => writeFile(path, Buffer.alloc(20_000, 0xa5)),
  'a text shorter than any header': (path) => writeFile(path, 'a letter'),
  'an image of a disk, which begins with zeroes': (path) => writeFile(path, imageOfDisk()),
  'more zeroes than a new mirror has': (path) => writeFile(path, Buffer.alloc(1_000_001)),
};

describe('a file that never was a DuckDB database', () => {
  it.each(Object.entries(FOREIGN))(
    'F05 F66 every command names a file that never was a DuckDB database, and leaves it: %s',
    async (_, make) => {
      const place = await installed();
      const { mirrorPath } = place;
      await make(mirrorPath);
      for (const said of await refusalsOf(place)) {
        expect(said).toContain(`${mirrorPath} is no DuckDB database, so it is left as it is.`);
        expect(said).toContain('→ Set destination.path (FEED_SYNC_DESTINATION_PATH) to a file of its own');
        expect(said).not.toMatch(/extension|\\u000a/i);
      }
    },
  );

  it('does not wait for a named pipe that nobody writes', async () => {
    const { line, mirrorPath } = await installed();
    expect(spawnSync('mkfifo', [mirrorPath]).status).toBe(0);
    for (const words of COMMANDS) {
      const { exitCode, stdout, stderr } = await line.run(...words);
      expect(exitCode).toBe(78);
      expect(`${stdout}${stderr}`).toContain(`${mirrorPath} is no DuckDB database, so it is left as it is.`);
      expect(statSync(mirrorPath).isFIFO()).toBe(true);
    }
  });

  it.each(['mirror.duckdb.wal', 'checkpoint.sqlite-journal', 'checkpoint.sqlite-wal'])(
    'F66 does not wait for a named pipe in the place of %s',
    async (name) => {
      const { line, mirrorPath } = await installed();
      expect(await line.run('once')).toMatchObject({ exitCode: 0 });
      const pipe = join(line.dataDirectory, name);
      expect(spawnSync('mkfifo', [pipe]).status).toBe(0);
      const exitCodes = name.startsWith('checkpoint') ? OF_THE_CHECKPOINT : COMMANDS.map(() => 74);
      for (const [index, words] of COMMANDS.entries()) {
        const { exitCode, stdout, stderr } = await line.run(...words);
        expect([words, exitCode], stdout + stderr).toEqual([words, exitCodes[index]]);
        const says = exitCode === 0 ? '' : `${pipe} is a named pipe.`;
        expect(`${stdout}${stderr}`).toContain(says);
      }
      expect([statSync(pipe).isFIFO(), statSync(mirrorPath).isFile()]).toEqual([true, true]);
    },
  );

  it('status --json reports a foreign file with what to do', async () => {
    const { line, mirrorPath } = await installed();
    writeSqlite(mirrorPath);
    const { stdout } = await line.run('status', '--json');
    expect(JSON.parse(stdout).mirror).toMatchObject({
      state: 'unusable',
      problem: `${mirrorPath} is no DuckDB database, so it is left as it is.`,
      hint: expect.stringContaining('destination.path'),
    });
  });
});

describe('a file of DuckDB that this program cannot open', () => {
  it('leaves an encrypted file of DuckDB as it is, with the reason that DuckDB gives', async () => {
    const place = await installed();
    await duckdb(
      "SET force_mbedtls_unsafe = 'true'",
      `ATTACH '${place.mirrorPath}' AS sealed (ENCRYPTION_KEY 'open sesame')`,
      'CREATE TABLE sealed.letters (text VARCHAR)',
    );
    for (const said of await refusalsOf(place)) {
      expect(said).toContain('encrypted');
      expect(said).not.toContain('is no DuckDB database');
    }
  });
});

describe('a file without content', () => {
  it.each([
    ['an empty one', 0],
    ['F59 one of zeroes, as a power cut may leave a new mirror', 12_288],
  ])('a file without content counts as no mirror yet, and becomes one: %s', async (_, bytes) => {
    const { line, mirrorPath } = await installed();
    writeFileSync(mirrorPath, Buffer.alloc(bytes));
    expect((await line.run('status')).stdout).toContain(`There is no mirror yet at ${mirrorPath}.`);
    expect(await line.run('query', 'SELECT 1')).toMatchObject({ exitCode: 75 });
    expect(await line.run('once')).toMatchObject({ exitCode: 0 });
    expect(await line.run('query', 'SELECT 1')).toMatchObject({ exitCode: 0 });
    expect(readdirSync(line.dataDirectory).filter((name) => name.includes('.corrupt-'))).toEqual([]);
  });
});

describe('a mirror whose first sector was lost', () => {
  it('F58 once quarantines a mirror whose first sector was lost, and builds it again', async () => {
    const { line, mirrorPath } = await installed();
    await line.run('once');
    const file = readFileSync(mirrorPath);
    writeFileSync(mirrorPath, file.fill(0, 0, 512));
    expect(await line.run('verify')).toMatchObject({ exitCode: 74 });
    expect(readFileSync(mirrorPath)).toEqual(file);
    expect(await line.run('once')).toMatchObject({ exitCode: 0 });
    expect(await line.run('verify', '--deep')).toMatchObject({ exitCode: 0 });
    expect(readdirSync(line.dataDirectory).filter((name) => name.includes('.corrupt-'))).toHaveLength(1);
  });
});

describe('a mirror that is missing', () => {
  it.each([
    ['query', 'SELECT 1'],
    ['query', 'SELECT 1', '--load', 'spatial'],
    ['diff', 'parcels', '--from-version', '1'],
    ['verify'],
    ['verify', '--deep'],
    ['rollback', 'parcels', '--to-version', '1'],
    ['dbt-sources'],
  ])('%s reports that there is no mirror yet, with the command that makes it: 75', async (...words) => {
    const { line, mirrorPath } = await installed();
    expect(await line.run(...words)).toMatchObject({
      exitCode: 75,
      stdout: '',
      stderr: `feed-sync: There is no mirror yet at ${mirrorPath}. [mirror_missing]\n→ Make it with: feed-sync once\n`,
    });
  });
});
