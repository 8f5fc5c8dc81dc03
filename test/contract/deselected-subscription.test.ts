/** A subscription that the service has and the configuration leaves out: what the operator reads, and how it is followed again. */

import { expect, it, onTestFinished } from 'vitest';
import { stillClock } from '../../fixtures/feed/clock.ts';
import { startFixtureFeed } from '../../fixtures/feed/feed.ts';
import { commandLine } from '../support/command-line.ts';
import { CANARY_KEY } from '../support/feed-client.ts';
import { publishSmall } from '../support/started-feed.ts';

const NOW = '2026-03-01T12:00:00.000Z';
const SETTING = 'The setting subscriptions no longer selects it.';
const WAY_BACK =
  '→ Once the setting subscriptions (FEED_SYNC_SUBSCRIPTIONS) selects it again: feed-sync resume --subscription sub_2';

it('W27 a subscription that the setting subscriptions leaves out is reported with that setting, and comes back by it', async () => {
  const feed = await startFixtureFeed({ apiKey: CANARY_KEY, clock: stillClock(NOW) });
  onTestFinished(feed.close);
  feed.publisher.subscribe({ subscriptionId: 'sub_1', datasetIds: ['parcels'] });
  feed.publisher.subscribe({ subscriptionId: 'sub_2', datasetIds: ['permits'] });
  publishSmall(feed, ['parcels', 'permits']);
  const line = commandLine({
    feed,
    now: () => new Date(NOW),
    environment: { FEED_SYNC_LOG_LEVEL: 'silent' },
  });
  onTestFinished(() => line.remove());
  expect((await line.run('once')).exitCode).toBe(0);
  line.environment['FEED_SYNC_SUBSCRIPTIONS'] = 'sub_1';
  for (const words of [['once', '--dry-run'], ['once'], ['once']]) {
    const said = await line.run(...words);
    expect(said.exitCode).toBe(77);
    expect(said.stdout).toContain(SETTING);
    expect(said.stdout).toContain(WAY_BACK);
  }
  expect((await line.run('status')).stdout).toContain(WAY_BACK);
  const found = (await line.run('doctor')).stdout;
  expect(found).toContain('the setting subscriptions leaves it out');
  expect(found).toContain('Once the setting subscriptions (FEED_SYNC_SUBSCRIPTIONS) selects it again');
  expect(found).not.toContain('When it is there again');
  delete line.environment['FEED_SYNC_SUBSCRIPTIONS'];
  expect((await line.run('resume', '--subscription', 'sub_2')).exitCode).toBe(0);
  expect((await line.run('once')).exitCode).toBe(0);
});
