/** `once` and notifications: the occasions of a commit are notified, also where the run that committed was interrupted. */

import { expect, it } from 'vitest';
import { openCheckpointReader } from '../../src/checkpoint/sqlite/open.ts';
import { InterruptedError } from '../../src/model/errors.ts';
import { localInstallation } from '../support/local-installation.ts';
import { until } from '../support/patience.ts';
import { numberedRows, smallContent } from '../support/small-content.ts';
import { publishSmall, startedFeed } from '../support/started-feed.ts';
import { webhookReceiver } from '../support/webhook-receiver.ts';

it('once notifies of commits of an interrupted run before it', async () => {
  const feed = await startedFeed();
  publishSmall(feed, ['parcels', 'permits']);
  feed.publisher.publish('parcels', smallContent(numberedRows(2_000), null));
  await feed.prepareSnapshots();
  const receiver = await webhookReceiver();
  const ending = new AbortController();
  const environment = { FEED_SYNC_NOTIFY_URL: receiver.url };
  const here = localInstallation({ feed, environment, context: { signal: ending.signal } });
  expect((await here.run('once')).exitCode).toBe(0);

  feed.publisher.publish('parcels', smallContent(numberedRows(10), null));
  feed.publisher.publish('permits', smallContent(numberedRows(3), null));
  await feed.prepareSnapshots();
  const areParcelsLoaded = (): boolean => {
    const reader = openCheckpointReader({ path: here.checkpointPath, uid: null });
    const runs = reader?.recentSyncRuns(10) ?? [];
    reader?.close();
    return runs.some(({ datasetId, detail }) => datasetId === 'parcels' && detail.includes(' 10 rows'));
  };
  const untilCommitted = async (): Promise<void> => {
    await until('parcels are loaded', areParcelsLoaded);
    ending.abort(new InterruptedError('It was asked to end.'));
  };
  const match = { operation: 'file', datasetId: 'permits' } as const;
  feed.faults.add({ match, act: { kind: 'wait', until: untilCommitted } });
  expect((await here.run('once')).exitCode).toBe(75);
  const notified = () => receiver.received.map(({ body }) => JSON.parse(body)).filter(isLargeChange);
  expect(notified()).toEqual([]);

  const next = localInstallation({
    feed,
    environment: { ...environment, FEED_SYNC_DATA_DIR: here.dataDirectory },
  });
  expect((await next.run('once')).exitCode).toBe(0);
  expect(notified()).toMatchObject([{ title: 'Large change: dataset parcels' }]);
});

/** The feed of the test ended long ago by the clock here, so that the age of its log is an occasion, too. */
function isLargeChange({ kind }: { readonly kind: string }): boolean {
  return kind === 'large_change';
}

it('notify test says why its notification was not delivered, and what to correct', async () => {
  const here = localInstallation({ environment: { FEED_SYNC_NOTIFY_URL: 'http://127.0.0.1:1/a-secret' } });
  const { exitCode, stderr } = await here.run('notify', 'test');
  expect(exitCode).toBe(75);
  expect(stderr).toBe(
    [
      'feed-sync: A notification could not be delivered to the address in notify.url: connection refused (ECONNREFUSED). [notification_failed]',
      '→ Correct notify.url, or open the way to it; then try again.',
      '',
    ].join('\n'),
  );
});
