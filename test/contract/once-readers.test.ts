/** `once` for those who build on the mirror: the copy it publishes and the command that it notifies, on a real feed. */

import { readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { duckdb } from '../support/duckdb-mirror.ts';
import { hookProgram, notedBy, notedLines, notingProgram } from '../support/hook-program.ts';
import { localInstallation } from '../support/local-installation.ts';
import { numberedRows, smallContent } from '../support/small-content.ts';
import { publishSmall, startedFeed } from '../support/started-feed.ts';

const DATASET = 'us-tx-travis-parcels';

async function installed(environment: Readonly<Record<string, string>> = {}) {
  const feed = await startedFeed();
  publishSmall(feed, [DATASET]);
  const here = localInstallation({ feed, environment });
  const copy = join(here.home, 'out', 'copy.duckdb');
  const noted = join(here.home, 'noted');
  const settings = join(here.home, 'feed-sync.yaml');
  const useHook = (command: readonly string[]): void =>
    writeFileSync(settings, `hooks: {afterCommit: ${JSON.stringify(command)}}\n`);
  useHook(notingProgram(noted));
  return { ...here, feed, copy, noted, useHook };
}

it('once publishes a copy of what was committed, then notifies the command, and does neither where nothing was', async () => {
  const { run, environment, copy, noted, feed } = await installed();
  environment['FEED_SYNC_DESTINATION_PUBLISH'] = copy;
  const first = await run('once');
  expect(first.exitCode, first.stderr).toBe(0);
  expect(first.stdout).toMatch(
    /\nPublished a copy at .*\/out\/copy\.duckdb: [\d.]+ MB(?:, as a clone)?\.\nThe command after commits was notified of 1 commit\.\n$/,
  );
  const at = statSync(copy).mtimeMs;
  const second = await run('once');
  expect(second.stdout).toMatch(/^1 dataset in 1 subscription: .*\n$/);
  expect(statSync(copy).mtimeMs).toBe(at);

  feed.publisher.publish(DATASET, smallContent(numberedRows(3)));
  await feed.prepareSnapshots();
  await run('once');
  const rows = await duckdb(
    `ATTACH '${copy}' AS c (READ_ONLY)`,
    'SELECT count(*) FROM c.us_tx_travis_parcels',
  );
  expect(rows).toEqual([['3']]);
  expect(notedLines(noted)).toEqual([[1], [2]]);
  expect(notedBy(noted)[1]).toMatchObject({ publishedCopy: copy, commits: [{ toVersion: 2, rows: 3 }] });

  rmSync(copy);
  const third = await run('once');
  expect(third.stdout).toContain('Published a copy');
  expect(third.stdout).not.toContain('The command');
});

it('F03 a lost checkpoint does not notify the command of old commits again', async () => {
  const { run, home, noted, feed } = await installed();
  await run('once');
  const republish = async (rows: number): Promise<void> => {
    feed.publisher.publish(DATASET, smallContent(numberedRows(rows)));
    await feed.prepareSnapshots();
    const { exitCode, stderr } = await run('once');
    expect(exitCode, stderr).toBe(0);
  };
  await republish(3);
  for (const name of readdirSync(join(home, 'data')).filter((one) => one.startsWith('checkpoint.sqlite')))
    rmSync(join(home, 'data', name));
  await run('once');
  expect(notedLines(noted)).toEqual([[1], [2]]);
  await republish(4);
  expect(notedLines(noted)).toEqual([[1], [2], [3]]);
});

it('once ends with 75 for a command that fails and with 78 for one that is missing, and loses no commit', async () => {
  const { run, noted, useHook } = await installed({ FEED_SYNC_LOG_LEVEL: 'warn' });
  useHook(hookProgram("console.error('the warehouse is shut'); process.exit(2);"));
  const failed = await run('once');
  expect(failed.exitCode).toBe(75);
  expect(failed.stdout).toMatch(/^1 dataset in 1 subscription: 1 loaded/);
  expect(failed.stdout).toContain('ended with 2.');
  expect(failed.stdout).not.toContain('the warehouse is shut');
  expect(failed.stderr).toContain('the warehouse is shut');
  useHook(['feed-sync-no-such-program']);
  const missing = await run('once');
  expect(missing.exitCode).toBe(78);
  expect(missing.stdout).toContain('feed-sync-no-such-program, cannot be run');
  useHook(notingProgram(noted));
  expect((await run('once')).exitCode).toBe(0);
  expect(notedLines(noted)).toEqual([[1]]);
});

it('once ends with 74 for a copy that cannot be made, and the command waits for it', async () => {
  const { run, environment, copy, noted } = await installed();
  environment['FEED_SYNC_DESTINATION_PUBLISH'] = copy;
  environment['FEED_SYNC_DISK_RESERVE'] = '0MB';
  await run('once');
  rmSync(copy);
  environment['FEED_SYNC_DISK_RESERVE'] = '1000TB';
  const full = await run('once');
  expect(full.exitCode).toBe(74);
  expect(full.stdout).toContain('Not enough space in');
  expect(full.stdout).toContain('The previous copy stays in place');
  expect(notedLines(noted)).toEqual([[1]]);
});

it('the command after commits has the environment of once without the key, and its working folder', async () => {
  const { run, useHook, home, feed } = await installed({ WAREHOUSE: 'of parcels' });
  useHook(
    hookProgram(`fs.writeFileSync(${JSON.stringify(join(home, 'env'))}, JSON.stringify(process.env));`),
  );
  await run('once');
  const seen = readFileSync(join(home, 'env'), 'utf8');
  expect(JSON.parse(seen)).toMatchObject({ WAREHOUSE: 'of parcels', FEED_SYNC_DISK_RESERVE: '0MB' });
  expect(seen).not.toContain(feed.apiKey);
});

it('once refuses a wrong place for the copy before any request', async () => {
  const { run, environment, mirrorPath, dataDirectory, feed } = await installed();
  environment['FEED_SYNC_DESTINATION_PUBLISH'] = mirrorPath;
  const same = await run('once');
  expect([same.exitCode, same.stderr]).toEqual([78, expect.stringContaining('destination.publish')]);
  environment['FEED_SYNC_DESTINATION_PUBLISH'] = join(dataDirectory, 'staging', 'copy.duckdb');
  const staged = await run('once');
  expect([staged.exitCode, staged.stderr]).toEqual([78, expect.stringContaining('which feed-sync needs')]);
  environment['FEED_SYNC_DESTINATION_PUBLISH'] = '/proc/feed-sync/copy.duckdb';
  const unwritable = await run('once');
  expect([unwritable.exitCode, unwritable.stderr]).toEqual([
    74,
    expect.stringContaining('No copy can be published'),
  ]);
  expect(feed.requests.entries()).toEqual([]);
});
