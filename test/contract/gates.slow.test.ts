/** Gates beside a running daemon: `run` stays up, and `approve` waits for its answer (F67). */

import { expect, it, onTestFinished } from 'vitest';
import { startFixtureFeed } from '../../fixtures/feed/feed.ts';
import { difference } from '../../fixtures/source/diff.ts';
import { CANARY_KEY } from '../support/feed-client.ts';
import { eventually } from '../support/patience.ts';
import { program } from '../support/program.ts';
import { numberedRows, SMALL_SCHEMA, smallContent } from '../support/small-content.ts';

it('F67 approve has the running daemon commit the waiting candidate, and other datasets do not wait', async () => {
  const feed = await startFixtureFeed({ apiKey: CANARY_KEY });
  onTestFinished(feed.close);
  feed.publisher.subscribe({ subscriptionId: 'sub_1', datasetIds: ['permits', 'parcels'] });
  for (const datasetId of ['permits', 'parcels']) {
    feed.publisher.addDataset({ datasetId });
    feed.publisher.publish(datasetId, smallContent(numberedRows(10), null));
  }
  const environment = { FEED_SYNC_GATES_REMOVED_ROWS: '2', FEED_SYNC_POLL_EVERY: '1s' };
  const installed = await program({ feed, environment });
  await installed.run('once');
  const running = installed.start('run');
  const fewer = numberedRows(3);
  feed.publisher.publish('permits', smallContent(fewer, difference(SMALL_SCHEMA, numberedRows(10), fewer)));
  feed.publisher.publish('parcels', smallContent(numberedRows(12), null));
  const state = async () => JSON.parse((await installed.run('status', '--json')).stdout).datasets;
  await eventually(async () => {
    expect(await state()).toMatchObject([
      { id: 'parcels', version: 2, state: 'live' },
      { id: 'permits', version: 1, state: 'suspended', awaitingApproval: { version: 2, removed: 7 } },
    ]);
  });
  const [, { awaitingApproval }] = await state();
  const words = String(awaitingApproval.command).split(' ').slice(1);
  const { exitCode, stdout, stderr } = await installed.run(...words);
  expect({ exitCode, stdout, stderr }).toMatchObject({ exitCode: 0 });
  expect(stdout).toContain('Committed version 2 of permits');
  expect(await state()).toMatchObject([
    { id: 'parcels' },
    { id: 'permits', version: 2, rows: 3, state: 'live' },
  ]);
  const lines = running
    .stderr()
    .split('\n')
    .filter((line) => line.includes('permits'));
  expect(lines.filter((line) => line.includes('A commit waits for approval.'))).toHaveLength(1);
  expect(lines.filter((line) => line.includes('A commit waits no longer.'))).toHaveLength(1);
  running.kill('SIGTERM');
  expect(await running.ended).toMatchObject({ exitCode: 0 });
});

it('F67 approve beside a daemon of a refused workspace is stored, and is used once the workspace is resumed', async () => {
  const feed = await startFixtureFeed({ apiKey: CANARY_KEY });
  onTestFinished(feed.close);
  feed.publisher.subscribe({ subscriptionId: 'sub_1', datasetIds: ['permits'] });
  feed.publisher.addDataset({ datasetId: 'permits' });
  feed.publisher.publish('permits', smallContent(numberedRows(10), null));
  const environment = { FEED_SYNC_GATES_REMOVED_ROWS: '2', FEED_SYNC_POLL_EVERY: '1s' };
  const installed = await program({ feed, environment });
  await installed.run('once');
  const fewer = numberedRows(3);
  feed.publisher.publish('permits', smallContent(fewer, difference(SMALL_SCHEMA, numberedRows(10), fewer)));
  expect(await installed.run('once')).toMatchObject({ exitCode: 77 });
  const state = async () => JSON.parse((await installed.run('status', '--json')).stdout);
  const words = String((await state()).datasets[0].awaitingApproval.command)
    .split(' ')
    .slice(1);
  feed.access.refuse({ kind: 'workspace' }, { status: 401, code: 'revoked', message: 'The key is revoked.' });
  const running = installed.start('run');
  await eventually(async () => expect(running.stderr()).toContain('The key is revoked.'));
  const refused = await installed.run(...words);
  expect(refused.stderr).toContain('is approved, and not committed yet. The key is revoked.');
  expect(refused.exitCode).toBe(77);
  feed.access.lift({ kind: 'workspace' });
  expect(await installed.run('resume', '--workspace')).toMatchObject({ exitCode: 0 });
  await eventually(async () => expect((await state()).datasets).toMatchObject([{ version: 2, rows: 3 }]));
  running.kill('SIGTERM');
  expect(await running.ended).toMatchObject({ exitCode: 0 });
});
