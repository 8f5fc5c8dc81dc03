/** `feed-sync once` where it cannot go on: the service is down, a signal comes, another process locks what it needs. */

import { existsSync, globSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { expectAtOnce } from '../support/at-once.ts';
import { startChild } from '../support/child.ts';
import { countyFeed } from '../support/county-feed.ts';
import { downloadsOf, expectMirrored, once } from '../support/expect-mirrored.ts';
import { until } from '../support/patience.ts';
import { type Program, program } from '../support/program.ts';

const QUICKLY = { FEED_SYNC_RETRY_BASE_DELAY: '5ms', FEED_SYNC_RETRY_MAX_ATTEMPTS: '2' };
/** Of the service, after the first piece of a download. */
const SILENT_MS = 20 * 60_000;

describe('a service that is down', () => {
  it('F14 a service that is down ends once with 75 and what was tried, and nothing is lost', async () => {
    const { feed, datasetOf, publishNext } = await countyFeed();
    const installed = await program({ feed, environment: QUICKLY });
    await once(installed);
    publishNext(datasetOf('permits'));
    const gone = { FEED_SYNC_BASE_URL: 'http://127.0.0.1:9' };
    const ended = await installed.runWith(gone, 'once');
    expect(ended).toMatchObject({ exitCode: 75 });
    expect(ended.stdout).toMatch(/^Nothing was caught up\. /);
    expect(ended.stdout).toMatch(/Could not list subscriptions: .*127\.0\.0\.1:9.* after 2 attempts/);
    await once(installed);
    await expectMirrored(installed, feed);
  });

  it('F14 a service that answers 500 everywhere ends once with 75', async () => {
    const { feed } = await countyFeed({ kinds: ['permits'] });
    const installed = await program({ feed, environment: QUICKLY });
    const fault = feed.faults.add({ match: { times: 'always' }, act: { kind: 'respond', status: 500 } });
    const { stdout } = await once(installed, 75);
    expect(stdout).toContain('500');
    feed.faults.remove(fault.id);
    await once(installed);
    await expectMirrored(installed, feed);
  });

  it('F15 once waits for a service that answers 503 with Retry-After', async () => {
    const { feed } = await countyFeed({ kinds: ['permits'] });
    for (const operation of ['manifest', 'file'] as const) {
      feed.faults.add({
        match: { operation },
        act: { kind: 'respond', status: 503, headers: { 'retry-after': '1' } },
      });
    }
    const installed = await program({ feed });
    const startedMs = performance.now();
    await once(installed);
    expect(performance.now() - startedMs).toBeGreaterThan(2_000);
    await expectMirrored(installed, feed);
  });

  it('F14 an outage for one dataset does not delay the others', async () => {
    const { feed, datasetOf } = await countyFeed();
    const permits = datasetOf('permits');
    feed.faults.add({
      match: { operation: 'versions', datasetId: permits, times: 'always' },
      act: { kind: 'reset' },
    });
    const installed = await program({ feed, environment: QUICKLY });
    const { stdout } = await once(installed, 75);
    expect(stdout).toContain('4 loaded, 0 already up to date, 1 failed');
    await expectMirrored(installed, feed, { only: (id) => id !== permits });
    feed.faults.clear();
    await once(installed);
    await expectMirrored(installed, feed);
  });
});

describe('signals during a download', () => {
  it.for([['SIGINT'], ['SIGTERM']] as const)(
    'F12 %s ends once with 75 within the grace period, and the next one fetches the rest',
    async ([signal]) => {
      const { feed, datasetOf } = await countyFeed({ kinds: ['parcels', 'permits'], rowsPerDataset: 200 });
      const parcels = datasetOf('parcels');
      feed.faults.add({
        match: { operation: 'file', datasetId: parcels },
        act: { kind: 'drip', bytes: 2_000, everyMs: SILENT_MS },
      });
      const installed = await program({ feed });
      const running = installed.start('once');
      // The other dataset is done by then: nothing but the download is under way.
      await until('the other dataset', () => running.stderr().includes('Loaded a snapshot.'));
      await until('the first piece on the disk', () => partBytes(installed) > 0);
      const signalledMs = performance.now();
      running.kill(signal);
      const ended = await running.ended;
      const tookMs = performance.now() - signalledMs;
      expect(ended).toMatchObject({ exitCode: 75, signal: null });
      expect(ended.stdout).toContain(`Interrupted by ${signal} before everything was caught up.`);
      expect(ended.stdout).toContain('the next catch-up carries on from there');
      await expectAtOnce(tookMs, installed);

      feed.requests.clear();
      await once(installed);
      const [resumed] = feed.requests.entries('file').filter(({ datasetId }) => datasetId === parcels);
      expect(resumed).toMatchObject({ range: expect.stringMatching(/^bytes=[1-9]\d*-$/), status: 206 });
      await expectMirrored(installed, feed);
    },
  );

  it('F12 two signals end once immediately', async () => {
    const { feed } = await countyFeed({ kinds: ['permits'] });
    feed.faults.add({ match: { operation: 'subscriptions' }, act: { kind: 'delay', delayMs: 60_000 } });
    const installed = await program({ feed });
    const running = installed.start('once');
    await until('the first request', () => feed.requests.entries('subscriptions').length > 0);
    running.kill('SIGINT');
    running.kill('SIGINT');
    const ended = await running.ended;
    expect([75, 130]).toContain(ended.exitCode);
  });
});

describe('a second instance', () => {
  it('F09 a second instance on the same data directory ends immediately with 75 and names the first, which goes on', async () => {
    const { feed } = await countyFeed({ kinds: ['permits', 'parcels'] });
    const observed = Promise.withResolvers<void>();
    const match = { operation: 'file', times: 'always' } as const;
    feed.faults.add({ match, act: { kind: 'wait', until: () => observed.promise } });
    const installed = await program({ feed });
    const first = installed.start('once');
    await until('a download', () => feed.requests.entries('file').length > 0);
    const second = await once(installed, 75);
    expect(second.stderr).toMatch(
      new RegExp(`Another feed-sync works on this data directory: process ${first.pid} on \\S+, \`once\``),
    );
    const status = JSON.parse((await installed.run('status', '--json')).stdout);
    expect(status.runningInstance).toMatchObject({ pid: first.pid, command: 'once' });
    observed.resolve();
    expect(await first.ended).toMatchObject({ exitCode: 0 });
    await expectMirrored(installed, feed);
  });
});

describe('a reader that locks the mirror', () => {
  it('F10 once waits for a reader, then ends with 75 and keeps what was downloaded', async () => {
    const { feed, datasetOf, publishNext } = await countyFeed({ kinds: ['permits', 'parcels'] });
    const installed = await program({ feed, environment: { FEED_SYNC_LOCK_WAIT: '1s' } });
    await once(installed);
    publishNext(datasetOf('permits'), undefined, { notRecordedAs: 'flag' });
    const reader = startChild('duckdb-holder-child.ts', installed.mirrorPath);
    onTestFinished(() => reader.kill());
    expect(await reader.nextLine()).toBe('held');

    expect((await installed.run('query', 'SELECT count(*) FROM feed_sync.datasets')).stdout).toContain('2');
    const status = JSON.parse((await installed.run('status', '--json')).stdout);
    // Elsewhere than on Linux the system does not list them.
    if (existsSync('/proc/locks')) expect(status.mirror.lockHolders).toEqual([reader.pid]);
    const { stdout } = await once(installed, 75);
    expect(stdout).toMatch(/mirror .* (open|held|busy|use)/i);
    expect(downloadsOf(feed)).toContain(datasetOf('permits'));
    await reader.kill();

    feed.requests.clear();
    await once(installed);
    expect(downloadsOf(feed)).toEqual([]);
    await expectMirrored(installed, feed);
  });
});

/** Of files that are not whole yet. */
function partBytes({ dataDirectory }: Program): number {
  const paths = globSync('staging/**/*.part', { cwd: dataDirectory });
  return paths.reduce((sum, path) => sum + statSync(join(dataDirectory, path)).size, 0);
}
