/** `feed-sync doctor` on this machine: configuration, disk, locks and both stores, each also with a problem (F05, F07, F09, F10, F11). */

import { chmodSync, copyFileSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { describe, expect, it, onTestFinished } from 'vitest';
import { systemClock } from '../../src/lib/clock.ts';
import {
  commit,
  event,
  failureOf,
  joined,
  NOON,
  openAt,
  position,
  suspensionOf,
} from '../support/checkpoint-files.ts';
import { type Child, startChild } from '../support/child.ts';
import { countyFeed } from '../support/county-feed.ts';
import { type LocalInstallation, localInstallation } from '../support/local-installation.ts';
import { writeMirror } from '../support/mirror-file.ts';
import { numberedRows, SMALL_SCHEMA, smallContent } from '../support/small-content.ts';
import { startedFeed } from '../support/started-feed.ts';

const DAY_MS = 86_400_000;
const NOWHERE = { baseUrl: 'http://127.0.0.1:1', apiKey: 'canary+key/that=must&stay%secret' };

async function installed(): Promise<LocalInstallation> {
  const { feed } = await countyFeed({ kinds: ['zoning'], rowsPerDataset: 10 });
  const one = localInstallation({ feed });
  expect(await one.run('once')).toMatchObject({ exitCode: 0 });
  // The program makes its files for the owner alone; this process is not the program.
  chmodSync(one.mirrorPath, 0o600);
  return one;
}

async function child(script: string, ...values: readonly string[]): Promise<Child> {
  const started = startChild(script, ...values);
  onTestFinished(() => started.kill());
  expect(await started.nextLine()).toBe('held');
  return started;
}

it('doctor names the tables without history for lack of keys where history.datasets names them', async () => {
  const feed = await startedFeed();
  for (const [datasetId, keyColumns] of [
    ['parcels', ['id']],
    ['scrape', []],
  ] as const) {
    feed.publisher.addDataset({ datasetId, placeId: 'us-tx-travis', topic: datasetId });
    const schema = { ...SMALL_SCHEMA, keyColumns };
    feed.publisher.publish(datasetId, smallContent(numberedRows(2), null, schema));
  }
  const one = localInstallation({ feed });
  expect(await one.run('once')).toMatchObject({ exitCode: 0 });
  const historyFindings = async () =>
    (await one.diagnose()).of('mirror').filter(({ about }) => about === 'history');
  expect(await historyFindings()).toEqual([]);
  one.environment['FEED_SYNC_HISTORY_DATASETS'] = '*';
  expect(await historyFindings()).toMatchObject([
    { state: 'ok', found: 'not of scrape: without key columns a table has none' },
  ]);
  one.environment['FEED_SYNC_HISTORY_DATASETS'] = 'parcels';
  expect(await historyFindings()).toEqual([]);
});

describe('the published copy', () => {
  it('doctor reports when the published copy was made, and that there is none yet', async () => {
    const one = await installed();
    const copy = join(one.home, 'copy.duckdb');
    one.environment['FEED_SYNC_DESTINATION_PUBLISH'] = copy;
    expect((await one.diagnose()).of('mirror')).toContainEqual(
      expect.objectContaining({
        about: 'published copy',
        state: 'warning',
        hints: ['Make it: feed-sync once'],
      }),
    );
    await one.run('once');
    const [found] = (await one.diagnose()).of('mirror').filter(({ about }) => about === 'published copy');
    expect(found?.state).toBe('ok');
    expect(found?.found).toMatch(/^\/.*\/copy\.duckdb \([\d.]+ MB\), published at .* UTC \(just now\)$/);
  });
});

it('doctor reports a manifest of another program or mirror in the export folder as a problem, as once does', async () => {
  const one = await installed();
  const folder = join(one.home, 'export');
  one.environment['FEED_SYNC_EXPORT_PATH'] = folder;
  expect(await one.run('once')).toMatchObject({ exitCode: 0 });
  const manifest = join(folder, 'manifest.json');
  const ours = readFileSync(manifest, 'utf8');
  const found = async () => (await one.diagnose()).of('disk').filter(({ state }) => state === 'problem');
  expect(await found()).toEqual([]);
  for (const [content, says] of [
    ['{"files": []}', 'that is none of an export'],
    [
      ours.replace(one.mirrorPath, '/elsewhere/mirror.duckdb'),
      'is of the mirror at /elsewhere/mirror.duckdb',
    ],
  ] as const) {
    writeFileSync(manifest, content);
    expect(await found()).toMatchObject([
      { about: 'export folder', exitCode: 78, found: expect.stringContaining(says) },
    ]);
    expect(await one.run('once')).toMatchObject({ exitCode: 78 });
  }
});

describe('the command after commits', () => {
  it('doctor reports the command after commits as a problem once its last run failed, until it succeeds', async () => {
    const one = await installed();
    const command = join(one.home, 'refresh.sh');
    one.environment['FEED_SYNC_HOOKS_AFTER_COMMIT'] = command;
    const found = async () =>
      (await one.diagnose()).of('checkpoint').filter(({ about }) => about === 'after commits');
    expect(await found()).toEqual([]);
    expect(await one.run('once')).toMatchObject({ exitCode: 78 });
    expect(await found()).toMatchObject([
      {
        state: 'problem',
        exitCode: 75,
        found: expect.stringMatching(/refresh\.sh, cannot be run: .*\nFailed 1 time in a row, last at /),
      },
    ]);
    // It is a wrong setting, as for once, until there is such a program.
    expect((await one.diagnose()).exitCode).toBe(78);
    writeFileSync(command, '#!/bin/sh\nexit 3\n', { mode: 0o700 });
    expect(await one.run('once')).toMatchObject({ exitCode: 75 });
    expect((await one.diagnose()).exitCode).toBe(75);
    writeFileSync(command, '#!/bin/sh\n', { mode: 0o700 });
    expect(await one.run('once')).toMatchObject({ exitCode: 0 });
    expect(await found()).toEqual([]);
  });

  it('doctor checks before its first run whether the command after commits is there, a program, and may be run', async () => {
    const one = localInstallation();
    const found = async (command: string) => {
      one.environment['FEED_SYNC_HOOKS_AFTER_COMMIT'] = `${command} --all`;
      const findings = (await one.diagnose())
        .of('configuration')
        .filter(({ about }) => about === 'after commits');
      return findings.map(({ state, exitCode, found: text }) => `${state} ${exitCode}: ${text}`);
    };
    const inHome = (name: string) => join(one.home, name);
    const cannot = (command: string, why: string) =>
      `problem 78: The command after commits, ${command}, cannot be run: ${why}.`;
    expect(await found(inHome('none.sh'))).toEqual([cannot(inHome('none.sh'), 'there is no such file')]);
    expect(await found(one.home)).toEqual([cannot(one.home, 'it is a folder (EISDIR)')]);
    writeFileSync(inHome('plain.sh'), '#!/bin/sh\n', { mode: 0o600 });
    expect(await found(inHome('plain.sh'))).toEqual([
      cannot(inHome('plain.sh'), 'permission denied (EACCES)'),
    ]);
    writeFileSync(inHome('dos.sh'), '#!/bin/sh\r\n', { mode: 0o700 });
    const dosEnding =
      'its first line names /bin/sh\\u000d, which is not there, for its lines end as on Windows';
    expect(await found(inHome('dos.sh'))).toEqual([cannot(inHome('dos.sh'), dosEnding)]);
    one.environment['PATH'] = `${one.home}:/bin`;
    expect(await found('no-such-program')).toEqual([
      cannot('no-such-program', 'none of the 2 folders of PATH has a program of this name'),
    ]);
    expect(await found('sh')).toEqual(['ok 0: /bin/sh']);
    expect(existsSync(one.dataDirectory)).toBe(false);
  });
});

describe('an installation that has nothing yet', () => {
  it('doctor before anything is there misses only the address and the key, and makes nothing', async () => {
    const one = localInstallation();
    const diagnosis = await one.diagnose();
    expect(diagnosis).toMatchObject({ exitCode: 78, problems: 2, warnings: 0 });
    expect(diagnosis.of('configuration').map(({ found }) => found)).toEqual([
      'none: everything comes from flags, variables and defaults',
      expect.stringContaining('service.baseUrl is not set'),
      expect.stringContaining('service.apiKey is not set'),
    ]);
    expect(diagnosis.of('disk')[0]).toMatchObject({
      state: 'ok',
      found: expect.stringContaining(`${one.dataDirectory}, which will be made in ${one.home}`),
    });
    expect(diagnosis.of('checkpoint')[0]?.found).toContain('feed-sync once makes it');
    expect(diagnosis.of('mirror')[0]?.found).toContain('feed-sync once makes it');
    const reported = await one.reported();
    expect(reported).toMatch(/\n2 problems, (?:\d warnings?, )?6 not checked\.\n$/);
    expect(reported).toContain('1.2.3 on Node 24.0.0, Linux 6.0 x64');
    expect(diagnosis.of('versions')[1]?.found).toMatch(
      /^DuckDB 1\.\d+\.\d+, SQLite 3\.[\d.]+; formats: checkpoint \d+, mirror \d+$/,
    );
  });
});

describe('configuration', () => {
  it('doctor reports a wrong configuration whole, with every readable setting, and checks what is local all the same', async () => {
    const one = localInstallation({
      feed: NOWHERE,
      environment: { FEED_SYNC_HTTP_TIMEOUT: '30', FEED_SYNC_LOCKWAIT: '1s' },
    });
    writeFileSync(join(one.home, 'feed-sync.yaml'), 'poll:\n  every: often\nretry:\n  maxAttempts: 2\n', {
      mode: 0o600,
    });
    const diagnosis = await one.diagnose('--schema-changes', 'alter');
    expect(diagnosis.exitCode).toBe(78);
    const problems = diagnosis.of('configuration').filter(({ state }) => state === 'problem');
    expect(problems.map(({ found }) => found)).toEqual([
      expect.stringContaining(
        'FEED_SYNC_LOCKWAIT is not a known variable; the nearest is FEED_SYNC_LOCK_WAIT (environment)',
      ),
      expect.stringMatching(/^poll\.every is 'often'.*\(file .*feed-sync\.yaml:2\)$/),
      expect.stringMatching(
        /^http\.timeout is '30', which has no unit.*\(environment FEED_SYNC_HTTP_TIMEOUT\)$/,
      ),
    ]);
    expect(problems.map(({ hints }) => hints.length)).toEqual([0, 0, 2]);
    const settings = Object.fromEntries(
      diagnosis.settings.map(({ key, value, source }) => [key, [value, source]]),
    );
    expect(settings).toMatchObject({
      schemaChanges: ['alter', 'flag --schema-changes'],
      dataDir: [one.dataDirectory, 'environment FEED_SYNC_DATA_DIR'],
      'retry.maxAttempts': ['2', `file ${join(one.home, 'feed-sync.yaml')}:4`],
      'lock.wait': ['60s', 'default'],
      'service.apiKey': ['[secret]', 'environment FEED_SYNC_API_KEY'],
      'http.timeout': [null, 'environment FEED_SYNC_HTTP_TIMEOUT'],
    });
    expect(diagnosis.of('disk')[0]).toMatchObject({ about: 'data directory', state: 'ok' });
    expect(diagnosis.all('problem')).toContain('connection service');
  });

  it('doctor leaves open where things are when the configuration file cannot be read', async () => {
    const one = localInstallation();
    delete one.environment['FEED_SYNC_DATA_DIR'];
    writeFileSync(join(one.home, 'feed-sync.yaml'), 'dataDir: [', { mode: 0o600 });
    const diagnosis = await one.diagnose();
    expect(diagnosis.exitCode).toBe(78);
    expect(diagnosis.all('problem')).toEqual(['configuration setting']);
    expect(diagnosis.all('skipped')).toEqual(
      expect.arrayContaining(['disk data directory', 'locks instance', 'checkpoint file', 'mirror file']),
    );
    expect(diagnosis.settings.find(({ key }) => key === 'dataDir')).toMatchObject({
      value: null,
      source: 'not known, for the file cannot be read',
    });
  });

  it('doctor warns of a key file that others may read, and of a secret that is not there', async () => {
    const one = localInstallation({ feed: NOWHERE });
    delete one.environment['FEED_SYNC_API_KEY'];
    const keyFile = join(one.home, 'api-key');
    writeFileSync(keyFile, NOWHERE.apiKey);
    chmodSync(keyFile, 0o644);
    one.environment['FEED_SYNC_API_KEY_FILE'] = keyFile;
    const diagnosis = await one.diagnose();
    expect(diagnosis.of('configuration').at(-1)).toMatchObject({
      state: 'warning',
      hints: [`chmod 600 ${keyFile}`],
    });
    chmodSync(keyFile, 0o600);
    expect((await one.diagnose()).all('warning')).toEqual([]);
    one.environment['FEED_SYNC_WEBHOOK_SECRET_FILE'] = join(one.home, 'webhook-secret');
    expect((await one.diagnose()).of('configuration').at(-1)).toMatchObject({
      about: 'webhook secret',
      state: 'warning',
      found: expect.stringContaining('is not there'),
    });
  });

  it('doctor strikes out a key that was written into another setting by mistake', async () => {
    const one = localInstallation({
      feed: NOWHERE,
      environment: { FEED_SYNC_SUBSCRIPTIONS: NOWHERE.apiKey },
    });
    expect(await one.reported()).toContain('[secret] (environment FEED_SYNC_SUBSCRIPTIONS)');
  });
});

describe('disk', () => {
  it('F11 F66 doctor reports a file in the place of the data directory', async () => {
    const one = localInstallation({ feed: NOWHERE });
    writeFileSync(one.dataDirectory, 'a letter');
    const diagnosis = await one.diagnose();
    expect(diagnosis.exitCode).toBe(74);
    expect(diagnosis.of('disk')[0]).toMatchObject({
      state: 'problem',
      found: `${one.dataDirectory} is a file, where a folder is needed.`,
      hints: [expect.stringContaining('Move the file away')],
    });
    // One cause is reported once.
    expect(diagnosis.of('mirror')[0]).toMatchObject({ state: 'skipped' });
  });

  it('F11 doctor reports a folder that nobody may write in', async () => {
    // Not a folder without permissions: whoever runs the tests may be allowed everything. /proc takes no files of anybody.
    const one = localInstallation({ feed: NOWHERE, environment: { FEED_SYNC_DATA_DIR: '/proc/self/data' } });
    expect((await one.diagnose()).of('disk')[0]).toMatchObject({
      state: 'problem',
      exitCode: 74,
      found: expect.stringContaining('/proc/self'),
    });
  });

  it('F07 doctor reports less room than disk.reserve keeps free', async () => {
    const one = localInstallation({ feed: NOWHERE, environment: { FEED_SYNC_DISK_RESERVE: '900TB' } });
    const diagnosis = await one.diagnose();
    expect(diagnosis.exitCode).toBe(74);
    expect(diagnosis.of('disk')[1]).toMatchObject({
      state: 'problem',
      found: expect.stringContaining('less than the 900.0 TB that are kept free (disk.reserve)'),
    });
  });

  it('doctor warns of folders and files that others may enter or read, and reports downloads on their way', async () => {
    const one = await installed();
    mkdirSync(join(one.dataDirectory, 'staging', 'x'));
    writeFileSync(join(one.dataDirectory, 'staging', 'x', 'part'), Buffer.alloc(1_500));
    chmodSync(one.dataDirectory, 0o755);
    chmodSync(one.mirrorPath, 0o644);
    const diagnosis = await one.diagnose();
    expect(diagnosis.exitCode).toBe(0);
    expect(diagnosis.of('disk').flatMap(({ hints }) => hints)).toEqual([
      `chmod 700 ${one.dataDirectory}`,
      `Where that is not on purpose: chmod 600 ${one.mirrorPath}`,
    ]);
    expect(diagnosis.of('disk').find(({ about }) => about === 'downloads')?.found).toMatch(
      /^1\.5 KB in 1 file/,
    );
    expect(diagnosis.warnings).toBe(2);
  });
});

describe('locks', () => {
  it('F09 doctor names a running instance, and does not disturb it', async () => {
    const one = localInstallation({ feed: NOWHERE });
    mkdirSync(one.dataDirectory, { mode: 0o700 });
    const holder = await child('instance-lock-holder-child.ts', join(one.dataDirectory, 'lock.sqlite'));
    expect((await one.diagnose()).of('locks')[0]).toMatchObject({
      state: 'ok',
      found: expect.stringMatching(new RegExp(`^process ${holder.pid} on .* runs \`run\` since 20`)),
    });
  });

  it('doctor warns where something else listens on the address of the status server, which run needs', async () => {
    const other = createServer();
    await new Promise<void>((resolve) => other.listen(0, '127.0.0.1', resolve));
    onTestFinished(() => void other.close());
    const taken = `127.0.0.1:${(other.address() as AddressInfo).port}`;
    const diagnosis = await localInstallation({
      feed: NOWHERE,
      environment: { FEED_SYNC_STATUS_LISTEN: taken },
    }).diagnose();
    expect(diagnosis.of('locks').at(-1)).toMatchObject({
      about: 'status address',
      state: 'warning',
      found: expect.stringMatching(/\(EADDRINUSE\).* run ends with exit code 78; once does not need it\.$/),
      hints: ['Give another address in status.listen, or off.'],
    });
    const free = localInstallation({
      feed: NOWHERE,
      environment: { FEED_SYNC_STATUS_LISTEN: '127.0.0.1:0' },
    });
    expect((await free.diagnose()).of('locks').map(({ about }) => about)).not.toContain('status address');
  });

  it('doctor reports a lock file that is none as a problem', async () => {
    const one = localInstallation({ feed: NOWHERE });
    mkdirSync(one.dataDirectory, { mode: 0o700 });
    writeFileSync(join(one.dataDirectory, 'lock.sqlite'), 'a letter to my aunt'.repeat(100));
    expect((await one.diagnose()).of('locks')[0]).toMatchObject({
      state: 'problem',
      exitCode: 74,
      hints: [expect.stringContaining('then remove the file')],
    });
  });

  // Elsewhere than on Linux nobody lists locks.
  it.runIf(existsSync('/proc/locks'))(
    'F10 doctor warns of a reader of the mirror, and names it',
    async () => {
      const one = localInstallation({ feed: NOWHERE });
      mkdirSync(one.dataDirectory, { mode: 0o700 });
      await writeMirror(one.mirrorPath);
      chmodSync(one.mirrorPath, 0o600);
      const reader = await child('duckdb-holder-child.ts', one.mirrorPath);
      const diagnosis = await one.diagnose();
      expect(diagnosis.of('locks')[1]).toMatchObject({
        state: 'warning',
        found: expect.stringMatching(new RegExp(`^process ${reader.pid} \\(.+\\) reads it`)),
      });
      expect(diagnosis.of('mirror')[1]).toMatchObject({ state: 'ok', found: '0 tables, 0 rows' });
    },
  );

  it('F10 doctor reports and names a program that locks the mirror for itself, also where nobody lists locks', async () => {
    const one = localInstallation({ feed: NOWHERE, environment: { FEED_SYNC_LOCK_WAIT: '0s' } });
    mkdirSync(one.dataDirectory, { mode: 0o700 });
    const writer = await child('duckdb-holder-child.ts', one.mirrorPath, 'READ_WRITE');
    const observed = await one.diagnose();
    const problems = [...observed.of('locks'), ...observed.of('mirror')];
    expect(problems.map(({ exitCode }) => exitCode)).toEqual([0, 75, 75]);
    for (const { found } of problems.slice(1)) expect(found).toContain(`process ${writer.pid}`);
    const elsewhere = localInstallation({
      feed: NOWHERE,
      environment: { FEED_SYNC_DESTINATION_PATH: one.mirrorPath, FEED_SYNC_LOCK_WAIT: '0s' },
      context: {
        readFile() {
          throw Object.assign(new Error('ENOENT'), { code: 'ENOENT', errno: -2 });
        },
      },
    });
    const diagnosis = await elsewhere.diagnose();
    expect(diagnosis.of('locks')[1]?.found).toBe('nobody is seen to hold it');
    expect(diagnosis.of('mirror')[0]?.found).toContain(`the process ${writer.pid}`);
  });
});

describe('the checkpoint', () => {
  it('F05 doctor says of a damaged checkpoint that nothing is lost, and reports earlier quarantined files', async () => {
    const one = localInstallation({ feed: NOWHERE });
    mkdirSync(one.dataDirectory, { mode: 0o700 });
    writeFileSync(one.checkpointPath, 'SQLite format 3\0 and nothing else', { mode: 0o600 });
    for (const kept of ['01T000000000Z', '01T000000000Z-wal', '02T000000000Z-wal'])
      writeFileSync(`${one.checkpointPath}.corrupt-202601${kept}`, '', { mode: 0o600 });
    const diagnosis = await one.diagnose();
    expect(diagnosis.exitCode).toBe(74);
    expect(diagnosis.of('checkpoint')).toMatchObject([
      { state: 'problem', hints: [expect.stringContaining('Nothing is lost')] },
      { state: 'warning', found: expect.stringMatching(/^1 damaged file of earlier days: .*corrupt-2026/) },
      {
        state: 'warning',
        found: expect.stringMatching(/^1 damaged log of earlier days: .*corrupt-20260102T/),
      },
    ]);
  });

  it.each([
    ['of another program', 'CREATE TABLE letters (text)', 'but not a checkpoint of feed-sync'],
    ['of a newer program', 'PRAGMA application_id = 1718843758; PRAGMA user_version = 999', 'has format 999'],
  ])('doctor reports a checkpoint %s as a wrong configuration', async (_, sql, said) => {
    const one = localInstallation({ feed: NOWHERE });
    mkdirSync(one.dataDirectory, { mode: 0o700 });
    const database = new Database(one.checkpointPath);
    database.exec(sql);
    database.close();
    chmodSync(one.checkpointPath, 0o600);
    const diagnosis = await one.diagnose();
    expect(diagnosis.exitCode).toBe(78);
    expect(diagnosis.of('checkpoint')[0]).toMatchObject({
      state: 'problem',
      found: expect.stringContaining(said),
    });
  });

  it('doctor reports positions that are about to expire, suspensions and failures, beside whoever has the checkpoint open', async () => {
    const now = () => new Date(NOON.getTime() + 80 * DAY_MS);
    const one = localInstallation({ feed: NOWHERE, context: { clock: { ...systemClock, now } } });
    const checkpoint = await openAt(one.checkpointPath);
    checkpoint.commitFollowStep({
      subscriptionId: 'sub_1',
      subscriptionName: null,
      position: position(event(7n)),
      changes: [],
    });
    commit(checkpoint, 'sub_2', joined('parcels'));
    checkpoint.suspend(suspensionOf({ kind: 'dataset', datasetId: 'parcels' }, 'The county is not covered.'));
    checkpoint.fail(failureOf('parcels'));
    const diagnosis = await one.diagnose();
    expect(diagnosis.of('checkpoint').map(({ about, state, exitCode }) => [about, state, exitCode])).toEqual([
      ['file', 'ok', 0],
      ['content', 'ok', 0],
      ['positions', 'warning', 0],
      ['suspension', 'problem', 77],
      ['failed', 'problem', 65],
    ]);
    expect(diagnosis.of('checkpoint')[3]).toMatchObject({
      found: expect.stringContaining('The county is not covered.'),
      hints: [expect.stringContaining('feed-sync resume --dataset parcels')],
      links: { settings: 'https://app.example/settings' },
    });
    expect(diagnosis.exitCode).toBe(77);
  });
});

describe('the mirror', () => {
  it('F04, F05 doctor reports a mirror of another service, of a newer program, that is no database, or is deleted', async () => {
    const one = await installed();
    copyFileSync(one.mirrorPath, `${one.mirrorPath}.corrupt-1`);
    chmodSync(`${one.mirrorPath}.corrupt-1`, 0o600);
    one.environment['FEED_SYNC_BASE_URL'] = NOWHERE.baseUrl;
    const foreign = await one.diagnose();
    expect(foreign.all('problem')).toEqual(['mirror service', 'connection service']);
    expect(foreign.all('warning')).toEqual(['mirror quarantined']);
    expect(foreign.exitCode).toBe(78);
    expect(foreign.of('mirror')[1]?.found).toBe('1 table, 1 row');

    await writeMirror(one.mirrorPath, `UPDATE feed_sync.meta SET value = '99' WHERE key = 'format_version'`);
    const newer = await one.diagnose();
    expect(newer.of('mirror')[0]).toMatchObject({ state: 'problem', exitCode: 78 });

    writeFileSync(one.mirrorPath, 'a letter to my aunt');
    const broken = await one.diagnose();
    expect(broken.exitCode).toBe(78);
    expect(broken.of('mirror')[0]).toMatchObject({
      state: 'problem',
      found: expect.stringContaining('is no DuckDB database'),
    });

    rmSync(one.mirrorPath);
    const gone = await one.diagnose();
    expect(gone.of('mirror')[0]).toMatchObject({
      state: 'ok',
      found: expect.stringContaining('none yet at'),
    });
    expect(gone.of('checkpoint')[1]?.found).toBe('1 subscription followed, 1 dataset desired');
  });
});
