/** The fixture feed far away: round trips and the throughput of each connection take real time. */

import { afterEach, describe, expect, it } from 'vitest';
import { startAdminSurface } from '../../fixtures/feed/admin.ts';
import { type FixtureFeed, startFixtureFeed } from '../../fixtures/feed/feed.ts';
import { call, send } from '../support/feed-calls.ts';
import { numberedRows, smallContent } from '../support/small-content.ts';

let feed: FixtureFeed;

afterEach(async () => {
  await feed.close();
});

async function start(): Promise<string> {
  feed = await startFixtureFeed();
  feed.publisher.subscribe({ subscriptionId: 'sub_1', datasetIds: ['a'] });
  feed.publisher.addDataset({ datasetId: 'a' });
  feed.publisher.publish('a', smallContent(numberedRows(20_000)));
  const { body } = await call(feed, '/v1/subscriptions/sub_1/manifest');
  return body.datasets[0].files[0].url;
}

/** Timers may end a millisecond early. */
const EARLY_MS = 2;

async function msOf(work: () => Promise<unknown>): Promise<number> {
  const startedMs = performance.now();
  await work();
  return performance.now() - startedMs + EARLY_MS;
}

describe('a fixture feed that is far away', () => {
  it('lets each request take a round trip, and the first one of a connection two', async () => {
    await start();
    feed.settings.distance.roundTripMs = 60;
    const list = () => call(feed, '/v1/subscriptions/sub_1/events');
    expect(await msOf(list)).toBeGreaterThanOrEqual(60);
    expect(await msOf(() => Promise.all([list(), list(), list()]))).toBeGreaterThanOrEqual(60);
  });

  it('lets a file arrive with the throughput that the admin surface sets, and as it is', async () => {
    const url = await start();
    const near = Buffer.from(await (await fetch(url)).arrayBuffer());
    const admin = await startAdminSurface(feed, []);
    const headers = { 'content-type': 'application/json' };
    const body = JSON.stringify({ distance: { bytesPerSecond: 500_000 } });
    expect((await send(`${admin.adminUrl}/settings`, { method: 'POST', headers, body })).status).toBe(200);
    let far = Buffer.alloc(0);
    const ms = await msOf(async () => {
      far = Buffer.from(await (await fetch(url)).arrayBuffer());
    });
    await admin.close();
    expect(far.equals(near)).toBe(true);
    // The last piece goes at once, and timers may be late by 20 ms before that counts.
    expect(ms).toBeGreaterThanOrEqual(((near.length - 16_384) * 1_000) / 500_000 - 20);
  });

  it('ends at once, also while somebody waits for an answer', async () => {
    await start();
    feed.settings.distance.roundTripMs = 3_600_000;
    const waiting = call(feed, '/v1/subscriptions/sub_1/events').catch(() => null);
    await new Promise(setImmediate);
    await feed.close();
    await waiting;
  });
});
