/** `feed-sync run` with incidents of its machine: a reader, a file that DuckDB gives up on, a clock that jumps, and signals meanwhile. */

import { createHash } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { expectAtOnce } from '../support/at-once.ts';
import { publishFiles } from '../support/bad-content.ts';
import { scriptPath, startChild } from '../support/child.ts';
import { type CountyFeed, countyFeed } from '../support/county-feed.ts';
import { downloadsOf, expectMirrored, once } from '../support/expect-mirrored.ts';
import { LastingDaemon } from '../support/lasting-daemon.ts';
import { until } from '../support/patience.ts';
import { poisonedFile } from '../support/poisoned-files.ts';
import { type ProgramOptions, program } from '../support/program.ts';
import { numberedRows, smallContent } from '../support/small-content.ts';
import { ask } from '../support/status-server.ts';

const DAY_MS = 86_400_000;
const QUICKLY = { FEED_SYNC_POLL_EVERY: '1s', FEED_SYNC_DISK_RESERVE: '0MB', FEED_SYNC_LOCK_WAIT: '1s' };
const KINDS = ['permits', 'parcels'] as const;

/** An installation that runs, and has loaded everything, also what `prepare` adds to the feed. */
async function running(
  environment: NonNullable<ProgramOptions['environment']> = {},
  validate: (county: CountyFeed) => void = () => {},
) {
  const county = await countyFeed({ kinds: KINDS });
  validate(county);
  const installed = await program({ feed: county.feed, environment: { ...QUICKLY, ...environment } });
  const daemon = new LastingDaemon(installed);
  await daemon.logged('Loaded a snapshot.', county.feed.store.datasets.size);
  return { ...county, installed, daemon, asked: asking(daemon) };
}

/** What the status server of the daemon answers. */
function asking(daemon: LastingDaemon) {
  return async (question: string): Promise<string> => {
    const listens = daemon.lines().find(({ msg }) => msg === 'The status server listens.');
    return (await ask(`${String(listens?.['url'])}/${question}`)).text;
  };
}

it('F10 run names a reader in the log and by the status server; downloads go on, and the write once it has gone', async () => {
  const { feed, datasetOf, publishNext, installed, daemon, asked } = await running();
  const reader = startChild('duckdb-holder-child.ts', installed.mirrorPath);
  onTestFinished(() => reader.kill());
  expect(await reader.nextLine()).toBe('held');
  feed.requests.clear();
  publishNext(datasetOf('permits'), undefined, { notRecordedAs: 'flag' });
  await daemon.logged('Failed; will be tried again.');
  expect(downloadsOf(feed)).toEqual([datasetOf('permits')]);
  const who = `held by the process ${reader.pid}`;
  expect(daemon.lines().find(({ msg }) => msg.startsWith('Failed;'))?.['why']).toContain(who);
  expect(await asked('healthz')).toContain(who);
  await reader.kill();
  await daemon.logged('Loaded a snapshot.', KINDS.length + 1);
  await daemon.logged('Recovered.');
  await daemon.stop();
  expect(downloadsOf(feed)).toEqual([datasetOf('permits')]);
  await expectMirrored(installed, feed);
});

it('F06 a file that DuckDB gives up on fails its dataset, health says so, and the others go on', async () => {
  const { feed, datasetOf, publishNext, installed, daemon, asked } = await running(
    {},
    ({ feed: { publisher } }) => {
      publisher.subscribe({ subscriptionId: 'sub_2', datasetIds: ['poisoned'] });
      publisher.addDataset({ datasetId: 'poisoned' });
      publisher.publish('poisoned', smallContent(numberedRows(2)));
    },
  );
  const [sound] = feed.store.dataset('poisoned').versions;
  const path = await poisonedFile(installed.home, 'poisoned.parquet', "'a'");
  const bytes = readFileSync(path);
  const sha256 = createHash('sha256').update(bytes).digest('hex');
  publishFiles(feed, 'poisoned', [{ path, bytes: bytes.byteLength, rowCount: 1, sha256 }]);
  await daemon.logged('Failed; will be tried again.');
  publishNext(datasetOf('permits'));
  await daemon.logged('Applied changes.');
  const incident = daemon.lines().find(({ msg }) => msg.startsWith('Failed;'));
  expect(incident).toMatchObject({ of: 'dataset poisoned', error: 'data_invalid' });
  expect(incident?.['why']).toMatch(/\.parquet/);
  expect(JSON.parse(await asked('healthz'))).toMatchObject({
    datasets: { failed: 1 },
    datasetsBehind: [{ id: 'poisoned', failure: { error: 'data_invalid' } }],
  });
  expect(await asked('status')).toContain('.parquet');
  await daemon.stop();
  await expectMirrored(installed, feed, { at: sound === undefined ? {} : { poisoned: sound } });
});

it('F13 polls, waits and ages go on when the clock is set by a day, either way', async () => {
  const { feed, datasetOf, publishNext, installed, daemon, asked } = await running({
    CLOCK_OFF_BY: 'off-by',
    NODE_OPTIONS: `--import ${scriptPath('jumping-clock-child.ts')}`,
  });
  for (const [index, offByMs] of [DAY_MS, -DAY_MS].entries()) {
    writeFileSync(join(installed.home, 'work', 'off-by'), String(offByMs));
    publishNext(datasetOf('permits'));
    await daemon.logged('Applied changes.', index + 1);
    const fault = feed.faults.add({ match: { operation: 'events' }, act: { kind: 'respond', status: 503 } });
    await until('a poll that meets the fault', () => fault.fired === 1);
    const metrics = await asked('metrics');
    expect(metrics).toMatch(/_seconds\S* \d/);
    expect(metrics.split('\n').filter((line) => /_seconds(?:\{.*\})? -/.test(line))).toEqual([]);
  }
  publishNext(datasetOf('parcels'));
  await daemon.logged('Applied changes.', 3);
  await daemon.stop();
  await expectMirrored(installed, feed);
});

describe('SIGTERM during work', () => {
  it('F12 SIGTERM while changes are applied interrupts the statement: run ends with 0, once with 75, and the next does it all', async () => {
    const { feed } = await countyFeed({ kinds: KINDS });
    const stuck = { STUCK: 'interruptible', STUCK_FASTER: '1' };
    const environment = {
      ...QUICKLY,
      NODE_OPTIONS: `--import ${scriptPath('stuck-mirror-child.ts')}`,
      ...stuck,
    };
    const installed = await program({ feed });
    for (const [command, exitCode] of [
      ['run', 0],
      ['once', 75],
    ] as const) {
      const process = installed.startWith(environment, command);
      await until('a statement that does not end', () => process.stderr().includes('"stuck"'));
      const signalledMs = performance.now();
      process.kill('SIGTERM');
      expect(await process.ended).toMatchObject({ exitCode, signal: null });
      await expectAtOnce(performance.now() - signalledMs, installed);
    }
    feed.requests.clear();
    await once(installed);
    expect(downloadsOf(feed)).toEqual([]);
    await expectMirrored(installed, feed);
  });

  it('F12 SIGTERM while the service or a reader is waited for: run ends with 0, once with 75, immediately', async () => {
    const { feed, datasetOf, publishNext } = await countyFeed({ kinds: KINDS });
    const installed = await program({ feed, environment: QUICKLY });
    await once(installed);
    publishNext(datasetOf('permits'));
    const stopped = async (
      command: 'run' | 'once',
      isWaiting: (stderr: string) => boolean,
    ): Promise<void> => {
      const process = installed.startWith(
        { FEED_SYNC_LOCK_WAIT: '1h', FEED_SYNC_LOG_LEVEL: 'debug' },
        command,
      );
      await until('the wait', () => isWaiting(process.stderr()));
      const signalledMs = performance.now();
      process.kill('SIGTERM');
      const exitCode = command === 'run' ? 0 : 75;
      expect(await process.ended).toMatchObject({ exitCode, signal: null });
      const tookMs = performance.now() - signalledMs;
      await expectAtOnce(tookMs, installed);
    };
    const headers = { 'retry-after': '600' };
    const act = { kind: 'respond', status: 503, headers } as const;
    const fault = feed.faults.add({ match: { operation: 'versions', times: 'always' }, act });
    for (const command of ['run', 'once'] as const) {
      const before = fault.fired;
      await stopped(command, () => fault.fired > before);
    }
    feed.faults.clear();

    const reader = startChild('duckdb-holder-child.ts', installed.mirrorPath);
    onTestFinished(() => reader.kill());
    expect(await reader.nextLine()).toBe('held');
    for (const command of ['run', 'once'] as const) {
      feed.requests.clear();
      await stopped(command, () => feed.requests.entries('versions').length > 0);
    }
    await reader.kill();
    await once(installed);
    await expectMirrored(installed, feed);
  });
});
