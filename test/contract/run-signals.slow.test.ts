/** Signals and exit codes of `feed-sync run` as a process, beside those of run.slow.test.ts. */

import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { scriptPath } from '../support/child.ts';
import { countyFeed } from '../support/county-feed.ts';
import { expectMirrored, once } from '../support/expect-mirrored.ts';
import { LastingDaemon } from '../support/lasting-daemon.ts';
import { eventually } from '../support/patience.ts';
import { program } from '../support/program.ts';
import { ask } from '../support/status-server.ts';

const QUICKLY = { FEED_SYNC_POLL_EVERY: '1s', FEED_SYNC_DISK_RESERVE: '0MB' };
/** The time of the process: what is under way when it is asked to end may take minutes of ours. */
const SLOWER = 5;
/** Signals that come closer together may be one that arrived twice. */
const APART_MS = SLOWER * 300;

describe('a second signal', () => {
  it.for([
    ['SIGTERM', 143],
    ['SIGINT', 130],
  ] as const)(
    'F12 a second %s ends the process immediately, whatever is under way',
    async ([signal, exitCode]) => {
      const { feed } = await countyFeed();
      const stuck = {
        NODE_OPTIONS: `--import ${scriptPath('stuck-mirror-child.ts')}`,
        STUCK_FASTER: String(1 / SLOWER),
      };
      const installed = await program({ feed, environment: QUICKLY });
      const daemon = new LastingDaemon(installed, { ...stuck, STUCK: 'for ever' });
      await daemon.logged('stuck');
      const listens = daemon.lines().find(({ msg }) => msg === 'The status server listens.');
      daemon.signal(signal);
      await eventually(async () =>
        expect((await ask(`${String(listens?.['url'])}/healthz`)).text).toContain('draining'),
      );
      await sleep(APART_MS);
      daemon.signal(signal);
      expect(await daemon.ended()).toMatchObject({ exitCode, signal: null });
      expect(daemon.count('Stopped.')).toBe(0);
      await once(installed);
      await expectMirrored(installed, feed);
    },
  );
});

describe('SIGUSR1', () => {
  it('F65 SIGUSR1 opens no debugger, and the daemon goes on', async () => {
    const { feed, datasetIds, datasetOf, publishNext } = await countyFeed();
    const daemon = new LastingDaemon(await program({ feed, environment: QUICKLY }));
    await daemon.logged('Loaded a snapshot.', datasetIds.length);
    daemon.signal('SIGUSR1');
    publishNext(datasetOf('permits'));
    await daemon.logged('Applied changes.');
    daemon.signal('SIGTERM');
    const { exitCode, stderr } = await daemon.ended();
    expect(exitCode).toBe(0);
    expect(stderr).not.toContain('Debugger listening');
  });
});

describe('SIGHUP', () => {
  it('SIGHUP makes run read the key again, which lifts the refusal of the one before', async () => {
    const { feed, datasetIds, datasetOf, publishNext } = await countyFeed();
    const keyFile = { FEED_SYNC_BASE_URL: feed.baseUrl, FEED_SYNC_API_KEY_FILE: 'api-key' };
    const installed = await program({ environment: { ...QUICKLY, ...keyFile } });
    const keyPath = join(installed.home, 'work', 'api-key');
    writeFileSync(keyPath, feed.apiKey, { mode: 0o600 });
    const daemon = new LastingDaemon(installed);
    await daemon.logged('Loaded a snapshot.', datasetIds.length);
    feed.keys.get(feed.apiKey).revoked = true;
    await daemon.logged('Suspended: an operator must act.');
    publishNext(datasetOf('permits'));
    writeFileSync(keyPath, feed.keys.add('canary-key-that-came-after').secret);
    daemon.signal('SIGHUP');
    await daemon.logged('Applied changes.');
    await daemon.stop();
    await expectMirrored(installed, feed);
    expect(
      daemon
        .lines()
        .map((line) => JSON.stringify(line))
        .join(),
    ).not.toMatch(/canary/);
  });
});

describe('run that ends without a request', () => {
  it('run ends with 64 for a command line that makes no sense, without a request', async () => {
    const { feed } = await countyFeed();
    const installed = await program({ feed, environment: QUICKLY });
    for (const words of [
      ['run', '--for-ever'],
      ['run', 'parcels'],
    ]) {
      expect(await installed.run(...words)).toMatchObject({ exitCode: 64 });
    }
    expect(feed.requests.entries()).toEqual([]);
  });

  it('run ends with 74 where the data directory cannot be one, without a request', async () => {
    const { feed } = await countyFeed();
    const installed = await program({ feed, environment: QUICKLY });
    const taken = join(installed.home, 'work', 'taken');
    writeFileSync(taken, 'a file');
    const ended = await installed.runWith({ FEED_SYNC_DATA_DIR: taken }, 'run');
    expect(ended).toMatchObject({ exitCode: 74 });
    expect(ended.stderr).toContain(taken);
    expect(feed.requests.entries()).toEqual([]);
  });

  it('run ends with 78 where the configuration is wrong, without a request', async () => {
    const { feed } = await countyFeed();
    const installed = await program({ feed, environment: { ...QUICKLY, FEED_SYNC_POLL_EVERY: 'often' } });
    const ended = await installed.run('run');
    expect(ended).toMatchObject({ exitCode: 78 });
    expect(ended.stderr).toContain('FEED_SYNC_POLL_EVERY');
    expect(feed.requests.entries()).toEqual([]);
  });
});
