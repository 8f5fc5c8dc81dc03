/** `feed-sync run` as a process: its first start, its signals, the commands of an operator beside it, its end. */

import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { caughtUp } from '../support/caught-up.ts';
import { countyFeed } from '../support/county-feed.ts';
import { problemOfLine } from '../support/documented-lines.ts';
import { downloadsOf, expectMirrored, operationsOf } from '../support/expect-mirrored.ts';
import { logged } from '../support/logged.ts';
import { until } from '../support/patience.ts';
import { program, type Running } from '../support/program.ts';

const QUICKLY = {
  FEED_SYNC_POLL_EVERY: '1s',
  FEED_SYNC_RETRY_BASE_DELAY: '5ms',
  FEED_SYNC_RETRY_MAX_ATTEMPTS: '2',
  FEED_SYNC_DISK_RESERVE: '0MB',
};
const SELDOM = { FEED_SYNC_POLL_EVERY: '1h' };

/** An installation that runs, and has loaded everything. */
async function running(environment: Readonly<Record<string, string>> = {}) {
  const made = await countyFeed();
  const { feed } = made;
  const installed = await program({ feed, environment: { ...QUICKLY, ...environment } });
  const run = installed.start('run');
  await logged(run, 'Loaded a snapshot.', made.datasetIds.length);
  return { ...made, installed, run };
}

async function stopped(run: Running, signal: 'SIGTERM' | 'SIGINT' = 'SIGTERM'): Promise<void> {
  run.kill(signal);
  expect(await run.ended).toMatchObject({ exitCode: 0, signal: null });
  const written = run.stderr().split('\n');
  // What stands in for a mirror that is stuck says so on the same stream.
  const lines = written.filter((line) => line.startsWith('{"level":'));
  expect(
    lines.map((line) => problemOfLine(JSON.parse(line))).filter((difference) => difference !== null),
  ).toEqual([]);
}

describe('a daemon', () => {
  it('run loads everything at its first start, follows what is published, and ends with 0 when it is asked to', async () => {
    const { feed, run, installed, datasetOf, publishNext } = await running();
    publishNext(datasetOf('permits'));
    publishNext(datasetOf('parcels'));
    await logged(run, 'Applied changes.', 2);
    await stopped(run);
    await expectMirrored(installed, feed);
  });

  it('run ends immediately with SIGINT while nothing is published, and starts again where it was', async () => {
    const { feed, run, installed, datasetOf, publishNext } = await running();
    await stopped(run, 'SIGINT');
    publishNext(datasetOf('zoning'));
    feed.requests.clear();
    const again = installed.start('run');
    await logged(again, 'Applied changes.');
    await stopped(again);
    expect(downloadsOf(feed)).toEqual([]);
    await expectMirrored(installed, feed);
  });

  it('F09 run keeps a second instance away', async () => {
    const { run, installed } = await running();
    const second = await installed.run('run');
    expect(second).toMatchObject({ exitCode: 75 });
    expect(second.stderr).toContain(String(run.pid));
    await stopped(run);
  });

  it('run polls immediately with SIGUSR2', async () => {
    const { run, datasetOf, publishNext } = await running(SELDOM);
    publishNext(datasetOf('permits'));
    run.kill('SIGUSR2');
    await logged(run, 'Applied changes.');
    await stopped(run);
  });
});

describe('SIGHUP', () => {
  it('SIGHUP restarts run with the configuration as it is by then, and keeps the previous one where that is wrong', async () => {
    const { feed, datasetIds, datasetOf, publishNext } = await countyFeed();
    const installed = await program({ feed, environment: QUICKLY });
    const file = join(installed.home, 'work', 'feed-sync.yaml');
    writeFileSync(file, `datasets:\n  include: ["${datasetOf('permits')}"]\n`);
    const run = installed.start('run');
    await logged(run, 'Loaded a snapshot.');
    writeFileSync(file, 'datasets:\n  inclood: ["*"]\n');
    run.kill('SIGHUP');
    await logged(run, 'The new configuration cannot be used: the previous one stays in use.');
    expect(run.stderr()).toContain('inclood');
    publishNext(datasetOf('permits'));
    await logged(run, 'Applied changes.');
    writeFileSync(file, '');
    run.kill('SIGHUP');
    await logged(run, 'Loaded a snapshot.', datasetIds.length);
    await stopped(run);
    await expectMirrored(installed, feed);
  });
});

describe('SIGHUP with a configuration that the service refuses', () => {
  it('SIGHUP with a configuration that only the service finds wrong goes back to the previous one', async () => {
    const { feed, datasetOf, publishNext } = await countyFeed();
    const installed = await program({ feed, environment: QUICKLY });
    const file = join(installed.home, 'work', 'feed-sync.yaml');
    writeFileSync(file, '');
    const run = installed.start('run');
    await logged(run, 'Loaded a snapshot.', 5);
    writeFileSync(file, 'subscriptions: ["sub_9"]\n');
    run.kill('SIGHUP');
    await logged(run, 'The new configuration cannot be used: the previous one stays in use.');
    publishNext(datasetOf('permits'));
    await logged(run, 'Applied changes.');
    await stopped(run);
    await expectMirrored(installed, feed);
  });
});

describe('commands beside run', () => {
  it('run does a resync of an operator within a second', async () => {
    const { feed, run, installed, datasetIds, datasetOf } = await running(SELDOM);
    feed.requests.clear();
    expect(await installed.run('resync', datasetOf('permits'))).toMatchObject({ exitCode: 0 });
    await logged(run, 'Loaded a snapshot.', datasetIds.length + 1);
    expect(new Set(downloadsOf(feed))).toEqual(new Set([datasetOf('permits')]));
    await stopped(run);
  });

  it('run asks a workspace again that an operator resumes, and asked nothing before', async () => {
    const { feed, run, installed, datasetOf, publishNext } = await running();
    feed.keys.get(feed.apiKey).revoked = true;
    publishNext(datasetOf('permits'));
    await logged(run, 'Suspended: an operator must act.');
    feed.requests.clear();
    // Each start has everything due at once.
    for (const starts of [2, 3]) {
      run.kill('SIGHUP');
      await logged(run, 'Suspended: an operator must act.', starts);
      run.kill('SIGUSR2');
    }
    expect(feed.requests.entries()).toEqual([]);
    feed.keys.get(feed.apiKey).revoked = false;
    expect(await installed.run('resume', '--workspace')).toMatchObject({ exitCode: 0 });
    await logged(run, 'Applied changes.');
    expect(operationsOf(feed)).toContain('subscriptions');
    await stopped(run);
    await expectMirrored(installed, feed);
  });
});

describe('the end of run', () => {
  it('run ends with 77 where the key is refused and there is no mirror yet', async () => {
    const { feed } = await countyFeed();
    const installed = await program({ feed, environment: { ...QUICKLY, FEED_SYNC_API_KEY: 'wrong' } });
    const ended = await installed.run('run');
    expect(ended).toMatchObject({ exitCode: 77 });
    expect(ended.stderr).toContain('feed-sync resume --workspace');
    feed.requests.clear();
    expect(await installed.run('run')).toMatchObject({ exitCode: 77 });
    expect(feed.requests.entries()).toEqual([]);
  });

  it('run ends with 78 where a subscription was never there', async () => {
    const { feed } = await countyFeed();
    const installed = await program({ feed, environment: { ...QUICKLY, FEED_SYNC_SUBSCRIPTIONS: 'sub_9' } });
    expect(await installed.run('run')).toMatchObject({ exitCode: 78 });
  });

  it('F12 run ends in order while a download is under way, and continues it after the next start', async () => {
    const { feed, datasetIds } = await countyFeed();
    feed.faults.add({ match: { operation: 'file' }, act: { kind: 'drip', bytes: 10, everyMs: 100 } });
    const installed = await program({ feed, environment: QUICKLY });
    const run = installed.start('run');
    await until('a download of every dataset', () => downloadsOf(feed).length >= datasetIds.length);
    await stopped(run);
    const again = installed.start('run');
    await caughtUp(again, feed);
    await stopped(again);
    await expectMirrored(installed, feed);
  });
});

describe('a statement of the mirror that never ends', () => {
  const stuckIn = (mode: string) => ({
    NODE_OPTIONS: `--import ${new URL('../support/stuck-mirror-child.ts', import.meta.url).href}`,
    STUCK: mode,
  });

  it('run interrupts a statement of the mirror when nothing has moved for five minutes, and goes on', async () => {
    const { feed } = await countyFeed();
    const installed = await program({ feed, environment: { ...QUICKLY, ...stuckIn('interruptible') } });
    const run = installed.start('run');
    await logged(run, 'Nothing has moved for minutes: running work is interrupted.');
    await logged(run, 'Following the subscriptions.', 2);
    await caughtUp(run, feed);
    await stopped(run);
    await expectMirrored(installed, feed);
  });

  it('run ends with 70 where a statement of the mirror cannot be interrupted', async () => {
    const { feed } = await countyFeed();
    const installed = await program({ feed, environment: { ...QUICKLY, ...stuckIn('for ever') } });
    expect(await installed.run('run')).toMatchObject({ exitCode: 70, signal: null });
    const again = await installed.runWith({ NODE_OPTIONS: '' }, 'once');
    expect(again).toMatchObject({ exitCode: 0 });
    await expectMirrored(installed, feed);
  });
});
