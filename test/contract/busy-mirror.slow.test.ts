/** Commands that wait for a mirror which another process has open: each says so once, and ends when `lock.wait` has passed. */

import { join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { startChild } from '../support/child.ts';
import { commandLine } from '../support/command-line.ts';
import { countyFeed } from '../support/county-feed.ts';

it.each([['query', 'SELECT 1'], ['verify'], ['compact'], ['dbt-sources']])(
  '%s reports once which process it waits for, and ends with 75',
  async (...words) => {
    const { feed } = await countyFeed({ counties: 1, kinds: ['parcels'], rowsPerDataset: 10 });
    const installed = commandLine({
      feed,
      now: () => new Date(),
      onWait: () => {},
      environment: { FEED_SYNC_LOG_FORMAT: 'json', FEED_SYNC_LOG_LEVEL: 'warn', FEED_SYNC_LOCK_WAIT: '5s' },
    });
    onTestFinished(() => installed.remove());
    expect((await installed.run('once')).exitCode).toBe(0);
    const holder = startChild(
      'duckdb-holder-child.ts',
      join(installed.dataDirectory, 'mirror.duckdb'),
      'READ_WRITE',
    );
    onTestFinished(() => holder.kill());
    await holder.nextLine();
    const { exitCode, stderr } = await installed.run(...words);
    expect(exitCode, stderr).toBe(75);
    const lines = stderr.split('\n').filter((line) => line.includes('"msg"'));
    expect(lines.map((line) => JSON.parse(line))).toMatchObject([
      { msg: 'Another process holds the mirror: waiting for it.', holderProcess: holder.pid },
    ]);
  },
);
