/** The past of tables with the real program: what outlives the rewriting of stores and the end of a table, and what is forgotten. */

import { globSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { startFixtureFeed } from '../../fixtures/feed/feed.ts';
import type { Row } from '../../fixtures/source/content.ts';
import { difference } from '../../fixtures/source/diff.ts';
import { inMirror } from '../support/duckdb-mirror.ts';
import { once } from '../support/expect-mirrored.ts';
import { CANARY_KEY } from '../support/feed-client.ts';
import { writeMirror } from '../support/mirror-file.ts';
import { eventually } from '../support/patience.ts';
import { program } from '../support/program.ts';
import { SMALL_SCHEMA, smallContent } from '../support/small-content.ts';

/** What version `version` published: each adds a row, changes one and removes one. */
const rowsOf = (version: number): readonly Row[] => [
  ['a', version],
  ['b', 0],
  [`v${version}`, version],
];

async function mirrored() {
  const feed = await startFixtureFeed({ apiKey: CANARY_KEY });
  onTestFinished(feed.close);
  feed.publisher.subscribe({ subscriptionId: 'sub_1', datasetIds: ['parcels'] });
  feed.publisher.addDataset({ datasetId: 'parcels' });
  const environment = {
    FEED_SYNC_HISTORY_DATASETS: '*',
    FEED_SYNC_HISTORY_EVERY_VERSION: 'on',
    FEED_SYNC_POLL_EVERY: '1s',
  };
  const installed = await program({ feed, environment });
  let version = 0;
  const publish = (): void => {
    version += 1;
    const before = version === 1 ? null : difference(SMALL_SCHEMA, rowsOf(version - 1), rowsOf(version));
    feed.publisher.publish('parcels', smallContent(rowsOf(version), before));
  };
  const read = (sql: string) => inMirror(installed.dataDirectory, sql);
  /** As of the commit, by the functions of the log. */
  const stateAfter = (commit: number, log = 'parcels') =>
    read(`SELECT * FROM history.${log}_as_of_commit(${commit}) ORDER BY id`);
  return { feed, installed, publish, read, stateAfter };
}

/** Where each commit has brought the next version. */
async function expectStates(
  stateAfter: (commit: number) => Promise<unknown>,
  first: number,
  last: number,
): Promise<void> {
  for (let commit = first; commit <= last; commit += 1) {
    const rows = rowsOf(commit).map((row) => row.map(String));
    expect(await stateAfter(commit), `as of commit ${commit}`).toEqual(rows);
  }
}

it('F69 a daemon that catches up forgets states beyond history.keep, and keeps every later one', async () => {
  const { installed, publish, read, stateAfter } = await mirrored();
  publish();
  await once(installed);
  for (let version = 2; version <= 6; version += 1) publish();
  await once(installed);
  await writeMirror(
    installed.mirrorPath,
    'UPDATE feed_sync.commits SET applied_at = applied_at - INTERVAL 100 DAY WHERE commit_number <= 4',
    'UPDATE feed_sync.history_logs SET first_time = first_time - INTERVAL 100 DAY',
  );
  for (let version = 7; version <= 16; version += 1) publish();
  const daemon = installed.start('run');
  const state = async () => JSON.parse((await installed.run('status', '--json')).stdout).datasets;
  await eventually(async () => expect(await state()).toMatchObject([{ version: 16 }]));
  daemon.kill('SIGTERM');
  expect(await daemon.ended).toMatchObject({ exitCode: 0 });
  expect(await read('SELECT first_commit::VARCHAR, row_count::VARCHAR FROM feed_sync.history_logs')).toEqual([
    ['4', '36'],
  ]);
  await expect(stateAfter(3)).rejects.toThrow('The history of parcels begins with commit 4');
  await expectStates(stateAfter, 4, 16);
  expect(await installed.run('rollback', 'parcels', '--to-commit', '3', '--yes')).toMatchObject({
    exitCode: 64,
    stderr: expect.stringContaining('The history of parcels begins with commit 4'),
  });
  expect(await installed.run('verify', '--deep')).toMatchObject({ exitCode: 0 });
});

it('F69 history survives compact, a lost checkpoint, which keeps the pin, too, retirement and return', async () => {
  const { feed, installed, publish, read, stateAfter } = await mirrored();
  publish();
  await once(installed);
  for (let version = 2; version <= 5; version += 1) publish();
  await once(installed);
  expect(await installed.run('compact')).toMatchObject({ exitCode: 0 });
  await expectStates(stateAfter, 1, 5);

  const back = await installed.run('rollback', 'parcels', '--to-version', '2', '--yes');
  expect(back, back.stderr).toMatchObject({ exitCode: 0 });
  for (const path of globSync(`${installed.checkpointPath}*`)) rmSync(path);
  publish();
  expect((await once(installed)).stdout).toContain('1 pinned');
  await expectStates(stateAfter, 1, 5);
  expect(await stateAfter(6)).toEqual(rowsOf(2).map((row) => row.map(String)));

  feed.publisher.remove('parcels', 'left_coverage');
  expect((await once(installed)).stdout).toContain('1 retired');
  feed.publisher.restore('parcels');
  await once(installed);
  const [[frozen = ''] = []] = await read(
    'SELECT log_name FROM feed_sync.history_logs WHERE frozen_commit IS NOT NULL',
  );
  await expectStates((commit) => stateAfter(commit, String(frozen)), 1, 5);
  expect(await stateAfter(8)).toEqual(rowsOf(6).map((row) => row.map(String)));
  const copy = join(installed.home, 'copy.duckdb');
  publish();
  const published = await installed.runWith({ FEED_SYNC_DESTINATION_PUBLISH: copy }, 'once');
  expect(published, published.stderr).toMatchObject({ exitCode: 0 });
  const past = `SELECT count(*) FROM history.${String(frozen)}_as_of_commit(3)`;
  const inCopy = await installed.runWith(
    { FEED_SYNC_DESTINATION_PATH: copy },
    'query',
    '--format',
    'csv',
    past,
  );
  expect(inCopy, inCopy.stderr).toMatchObject({ exitCode: 0, stdout: 'count_star()\n3\n' });
  expect(await installed.run('verify', '--deep')).toMatchObject({ exitCode: 0 });
});

it('F69 once, and a daemon without a service, forget states beyond history.keep where nothing new comes', async () => {
  const { feed, installed, publish, read, stateAfter } = await mirrored();
  publish();
  await once(installed);
  for (let version = 2; version <= 6; version += 1) publish();
  await once(installed);
  const begins = async () => (await read('SELECT first_commit::VARCHAR FROM feed_sync.history_logs')).flat();
  const age = (lastOld: number) =>
    writeMirror(
      installed.mirrorPath,
      `UPDATE feed_sync.commits SET applied_at = applied_at - INTERVAL 100 DAY WHERE commit_number <= ${lastOld}`,
    );
  await once(installed);
  expect(await begins()).toEqual(['1']);
  await age(3);
  expect((await once(installed)).stdout).toContain('already up to date');
  expect(await begins()).toEqual(['3']);
  await expect(stateAfter(2)).rejects.toThrow('The history of parcels begins with commit 3');
  await expectStates(stateAfter, 3, 6);

  await age(5);
  await feed.close();
  const daemon = installed.start('run');
  await eventually(async () => expect(await begins()).toEqual(['5']));
  daemon.kill('SIGTERM');
  expect(await daemon.ended).toMatchObject({ exitCode: 0 });
  await expectStates(stateAfter, 5, 6);
});
