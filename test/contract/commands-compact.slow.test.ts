/** `feed-sync compact` as a process: beside readers and instances, stopped by a signal, and what comes after it. */

import { readdirSync, statSync } from 'node:fs';
import { expect, it, onTestFinished } from 'vitest';
import { startChild } from '../support/child.ts';
import { countyFeed } from '../support/county-feed.ts';
import { expectMirrored, once } from '../support/expect-mirrored.ts';
import { eventually } from '../support/patience.ts';
import { program } from '../support/program.ts';

it('F12 compact waits for a reader, keeps others out meanwhile, ends with 75 when asked to, and works without the reader', async () => {
  const { feed, datasetIds, publishNext } = await countyFeed({ rowsPerDataset: 50 });
  const installed = await program({ feed, environment: { FEED_SYNC_DISK_RESERVE: '0MB' } });
  await once(installed);
  const { ino } = statSync(installed.mirrorPath);
  const reader = startChild('duckdb-holder-child.ts', installed.mirrorPath);
  onTestFinished(() => reader.kill());
  expect(await reader.nextLine()).toBe('held');

  const waiting = installed.start('compact');
  await eventually(async () => {
    const { runningInstance } = JSON.parse((await installed.run('status', '--json')).stdout);
    expect(runningInstance).toMatchObject({ pid: waiting.pid, command: 'compact' });
  });
  const refused = await installed.run('once');
  expect(refused, refused.stderr).toMatchObject({ exitCode: 75 });
  expect(refused.stderr).toContain(`${waiting.pid}`);
  waiting.kill('SIGTERM');
  expect(await waiting.ended).toMatchObject({ exitCode: 75, signal: null, stdout: '' });
  const busy = await installed.runWith({ FEED_SYNC_LOCK_WAIT: '100ms' }, 'compact');
  expect(busy).toMatchObject({ exitCode: 75, stdout: '' });
  expect(busy.stderr).toContain(`held by the process ${reader.pid}`);
  expect(statSync(installed.mirrorPath).ino).toBe(ino);

  await reader.kill();
  const done = await installed.run('compact');
  expect(done, done.stderr).toMatchObject({ exitCode: 0 });
  expect(done.stdout).toMatch(
    /is compacted: [\d.]+ MB before, [\d.]+ MB now\. All \d+ tables were compared\.\n$/,
  );
  expect(statSync(installed.mirrorPath).ino).not.toBe(ino);
  expect(readdirSync(installed.dataDirectory).filter((name) => name.includes('compact'))).toEqual([]);
  await expectMirrored(installed, feed);
  for (const datasetId of datasetIds) publishNext(datasetId);
  await once(installed);
  await expectMirrored(installed, feed);
});
