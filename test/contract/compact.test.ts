/** `feed-sync compact` and what `status` says about it: the command on real files, what it reports and how it ends. */

import { existsSync, mkdirSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { acquireInstanceLock, instanceLockPath } from '../../src/checkpoint/instance-lock.ts';
import { type CompactionView, progressLine } from '../../src/cli/commands/compact.ts';
import { judgeMirror } from '../../src/cli/doctor/stores.ts';
import { renderStatus } from '../../src/cli/render/status.ts';
import { NEVER_SCRUBBED } from '../../src/model/scrub.ts';
import { reportOf } from '../../src/reporting/report.ts';
import { type StatusJson, statusJson } from '../../src/reporting/status.ts';
import { isWorthCompacting } from '../../src/reporting/stores.ts';
import { commandLine, IDENTITY } from '../support/command-line.ts';
import { mirrorIn } from '../support/duckdb-mirror.ts';
import { expectGolden, withPlaceholders } from '../support/golden.ts';
import { writeMirror } from '../support/mirror-file.ts';

const FEED = { baseUrl: 'http://127.0.0.1:9', apiKey: 'fs_live_a key that nobody reads' };
const NOW = new Date('2026-02-28T08:00:00.000Z');

function installation() {
  // It needs neither the address of the service nor the key.
  const environment = { FEED_SYNC_BASE_URL: '', FEED_SYNC_API_KEY: '', FEED_SYNC_DISK_RESERVE: '0MB' };
  const installed = commandLine({ feed: FEED, now: () => NOW, environment });
  onTestFinished(() => installed.remove());
  const path = join(installed.dataDirectory, 'mirror.duckdb');
  const reported = (text: string) => withPlaceholders(text, { data: installed.dataDirectory });
  const view = async <T>(command: string): Promise<T> =>
    JSON.parse(reported((await installed.run(command, '--json')).stdout));
  return { installed, path, reported, view };
}

/** A mirror without tables, most of whose file is free space. */
async function emptiedMirror(dataDirectory: string, path: string): Promise<void> {
  mkdirSync(dataDirectory, { recursive: true });
  const mirror = await mirrorIn(dataDirectory);
  await mirror.enroll({
    origin: 'https://feed.example',
    subscriptionIds: ['sub_1'],
    forgottenSubscriptionIds: [],
    datasetIds: ['parcels'],
  });
  await mirror.close();
  await writeMirror(
    path,
    'CREATE TABLE much AS SELECT hash(i) AS h FROM range(1_000_000) r(i)',
    'CHECKPOINT',
    'CREATE TABLE behind AS SELECT 1 AS one',
    'CHECKPOINT',
    'DROP TABLE much',
  );
}

it('compact reports the size of the mirror before and after, and that there is none', async () => {
  const { installed, path, reported, view } = installation();
  expectGolden('compact/absent', await view('compact'));
  expect(await installed.run('compact')).toMatchObject({
    exitCode: 0,
    stdout: `There is no mirror yet at ${path}, and nothing to compact.\n`,
  });
  expect(existsSync(installed.dataDirectory)).toBe(false);
  await emptiedMirror(installed.dataDirectory, path);
  const { mirror: before } = await view<StatusJson>('status');
  expect(before).toMatchObject({ bytes: statSync(path).size, isWorthCompacting: false });
  expect(before.freeBytes).toBeGreaterThan(before.bytes / 2);
  const compaction = await view<CompactionView>('compact');
  expect(compaction).toMatchObject({ bytesBefore: before.bytes, bytesAfter: statSync(path).size });
  expectGolden('compact/compacted', { ...compaction, bytesBefore: 12_600_000, bytesAfter: 4_200_000 });
  expect((await view<StatusJson>('status')).mirror.freeBytes).toBeLessThan((before.freeBytes ?? 0) / 2);
  expect(reported((await installed.run('compact')).stdout)).toMatch(
    /^The mirror \{data\}\/mirror\.duckdb is compacted: [\d.]+ KB before, [\d.]+ KB now\. All 12 tables were compared\.\n$/,
  );
});

it('compact --compress reports that texts and geometries are compressed', async () => {
  const { installed, path, reported } = installation();
  await emptiedMirror(installed.dataDirectory, path);
  expect(reported((await installed.run('compact', '--compress')).stdout)).toMatch(
    /^The mirror \{data\}\/mirror\.duckdb is compacted, and its texts and geometries are compressed: [\d.]+ KB before, [\d.]+ KB now\. All 12 tables were compared\.\n$/,
  );
  const compaction: CompactionView = JSON.parse(
    (await installed.run('compact', '--compress', '--json')).stdout,
  );
  expect(compaction).toMatchObject({ result: 'compacted', isCompressed: true, tables: 12 });
});

it('compact changes nothing beside another instance or where the file is no mirror: 75 and 78', async () => {
  const { installed, path } = installation();
  await emptiedMirror(installed.dataDirectory, path);
  const { ino } = statSync(path);
  const lock = await acquireInstanceLock({
    path: instanceLockPath(installed.dataDirectory),
    uid: null,
    holder: { ...IDENTITY, startedAt: NOW, command: 'run' },
  });
  const busy = await installed.run('compact');
  expect(busy).toMatchObject({ exitCode: 75, stdout: '' });
  expect(busy.stderr).toContain(String(IDENTITY.pid));
  lock.release();
  expect(statSync(path).ino).toBe(ino);
  writeFileSync(path, 'id,name\n');
  expect(await installed.run('compact')).toMatchObject({ exitCode: 78, stdout: '' });
});

it('compact shows its progress on a screen in one line that fits', () => {
  const progress = {
    phase: 'proving',
    table: 'main.us_tx_travis_parcels',
    done: 1_233,
    tables: 3_000,
    share: () => 0.419,
  } as const;
  expect(progressLine(progress, 80)).toBe('Comparing: 41 %, table 1,234 of 3,000, main.us_tx_travis_parcels');
  expect(progressLine(progress, 40)).toBe('Comparing: 41 %, table 1,234 of 3,000,…');
});

it('status and doctor recommend compact once it is worth it', () => {
  const observed = {
    service: null,
    progress: null,
    retired: [],
    datasets: new Map(),
    bytes: null,
    freeBytes: 700_000_000,
    pastLogs: [],
    unions: [],
    leaseHolder: null,
  };
  const status = {
    ...reportOf({
      mirror: observed,
      checkpoint: null,
      choices: { include: ['*'], exclude: [] },
      keyHash: null,
    }),
    dataDirectory: '/data',
    mirrorFile: { path: '/data/mirror.duckdb', bytes: 1_200_000_000, lockHolders: [] },
    runningInstance: null,
    leaseHolder: null,
    publishedCopy: null,
    export: null,
    hook: null,
    scrub: NEVER_SCRUBBED,
  };
  expect(statusJson(status).mirror).toMatchObject({ bytes: 1.2e9, freeBytes: 7e8, isWorthCompacting: true });
  expect(renderStatus(status, { now: NOW, width: 80 })).toContain(
    [
      'The mirror is /data/mirror.duckdb (1.2 GB).',
      '→ 700.0 MB of it are unused. To give them back, while no instance is running: feed-sync compact',
    ].join('\n'),
  );
  const findings = judgeMirror(
    { path: '/data/mirror.duckdb', bytes: 1.2e9, freeBytes: 7e8, format: 2 },
    observed,
    null,
  );
  expect(findings.map(({ about, state }) => `${about}: ${state}`)).toEqual([
    'file: ok',
    'space: warning',
    'content: ok',
  ]);
});

it('compact is worth it where more than half is free, and 256 MB are won', () => {
  const worth = (bytes: number, freeBytes: number | null) => isWorthCompacting({ bytes, freeBytes });
  expect(worth(511_000_000, 256_000_000)).toBe(true);
  expect(worth(512_000_000, 256_000_000)).toBe(false);
  expect(worth(500_000_000, 255_999_999)).toBe(false);
  expect(worth(10_000_000_000, 4_900_000_000)).toBe(false);
  expect(worth(10_000_000_000, null)).toBe(false);
});
