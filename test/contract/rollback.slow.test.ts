/** A rollback beside a running daemon, which performs it, keeps the pin, and goes on once it is resumed (F69). */

import { expect, it, onTestFinished } from 'vitest';
import { startFixtureFeed } from '../../fixtures/feed/feed.ts';
import { CANARY_KEY } from '../support/feed-client.ts';
import { eventually } from '../support/patience.ts';
import { program } from '../support/program.ts';
import { numberedRows, smallContent } from '../support/small-content.ts';

it('F69 the running daemon performs rollback and resume, and commits nothing to the table in between', async () => {
  const feed = await startFixtureFeed({ apiKey: CANARY_KEY });
  onTestFinished(feed.close);
  feed.publisher.subscribe({ subscriptionId: 'sub_1', datasetIds: ['permits', 'parcels'] });
  const publish = (datasetId: string, rows: number) =>
    feed.publisher.publish(datasetId, smallContent(numberedRows(rows), null));
  for (const datasetId of ['permits', 'parcels']) {
    feed.publisher.addDataset({ datasetId });
    publish(datasetId, 10);
  }
  const environment = { FEED_SYNC_HISTORY_DATASETS: '*', FEED_SYNC_POLL_EVERY: '1s' };
  const installed = await program({ feed, environment });
  await installed.run('once');
  publish('permits', 4);
  await installed.run('once');
  const running = installed.start('run');
  const state = async () => JSON.parse((await installed.run('status', '--json')).stdout).datasets;
  await eventually(async () => {
    expect(await state()).toMatchObject([{ state: 'live' }, { state: 'live', version: 2 }]);
  });

  expect(await installed.run('rollback', 'permits', '--to-version', '1', '--yes')).toMatchObject({
    exitCode: 0,
    // Either dataset may have been loaded first.
    stdout: expect.stringMatching(
      /^Rolled back: permits is as commit [12] left it, at version 1 with 10 rows\./,
    ),
  });
  publish('permits', 5);
  publish('parcels', 12);
  await eventually(async () => {
    expect(await state()).toMatchObject([
      { id: 'parcels', version: 2, state: 'live' },
      { id: 'permits', version: 1, state: 'pinned', targetVersion: 3 },
    ]);
  });

  expect(await installed.run('resume', '--dataset', 'permits')).toMatchObject({
    exitCode: 0,
    stdout:
      'The next version of permits is 3; version 2 was undone.\nLifted the pin of permits, which is at version 1.\n',
  });
  await eventually(async () => {
    expect(await state()).toMatchObject([
      { id: 'parcels' },
      { id: 'permits', version: 3, state: 'live', rows: 5 },
    ]);
  });
  running.kill('SIGTERM');
  expect(await running.ended).toMatchObject({ exitCode: 0 });
});
