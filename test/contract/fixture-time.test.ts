/** The fixture feed dates its answers by its own clock, so that moving the clock moves the service's time. */

import { expect, it } from 'vitest';
import { startAdminSurface } from '../../fixtures/feed/admin.ts';
import { stillClock } from '../../fixtures/feed/clock.ts';
import { call, firstFileUrl, send } from '../support/feed-calls.ts';
import { publishSmall, startedFeed } from '../support/started-feed.ts';

const HOUR_MS = 3_600_000;
const START = 'Thu, 01 Jan 2026 00:00:00 GMT';
const AN_HOUR_LATER = 'Thu, 01 Jan 2026 01:00:00 GMT';

it('dates every answer of both servers by the feed’s clock, refusals included', async () => {
  const feed = await startedFeed();
  publishSmall(feed, ['a']);
  const url = await firstFileUrl(feed);
  const dates = async () => {
    const answers = [
      await call(feed, '/v1/subscriptions'),
      await call(feed, '/v1/nothing'),
      await send(`${feed.baseUrl}/v1/subscriptions`),
      await call(feed, '/v1/datasets/a/changes?version=1'),
      await send(url, { headers: { range: 'bytes=0-3' } }),
      await send(url, { method: 'HEAD' }),
      await send(`${feed.filesUrl}/nothing`),
    ];
    return new Set(answers.map(({ headers }) => headers.get('date')));
  };
  expect(await dates()).toEqual(new Set([START]));
  feed.clock.advance(HOUR_MS);
  expect(await dates()).toEqual(new Set([AN_HOUR_LATER]));
  feed.clock.advance(-HOUR_MS);
  expect(await dates()).toEqual(new Set([START]));
});

it('dates a late answer by the time at which it is sent', async () => {
  const feed = await startedFeed();
  const until = async () => feed.clock.advance(HOUR_MS);
  feed.faults.add({ match: { operation: 'subscriptions' }, act: { kind: 'wait', until } });
  expect((await call(feed, '/v1/subscriptions')).headers.get('date')).toBe(AN_HOUR_LATER);
});

it('sends no Date header at all where the setting says so', async () => {
  const feed = await startedFeed({ answers: { date: 'none' } });
  publishSmall(feed, ['a']);
  const url = await firstFileUrl(feed);
  for (const { headers } of [
    await call(feed, '/v1/subscriptions'),
    await call(feed, '/v1/x'),
    await send(url),
  ])
    expect(headers.has('date')).toBe(false);
  feed.settings.answers.date = 'feed';
  expect((await send(url)).headers.get('date')).toBe(START);
});

it('lets a fault replace the Date header', async () => {
  const feed = await startedFeed();
  const date = 'Mon, 01 Jan 2001 00:00:00 GMT';
  feed.faults.add({ match: {}, act: { kind: 'headers', headers: { date } } });
  expect((await call(feed, '/v1/subscriptions')).headers.get('date')).toBe(date);
  feed.faults.add({ match: {}, act: { kind: 'respond', status: 503, headers: { date } } });
  expect((await call(feed, '/v1/subscriptions')).headers.get('date')).toBe(date);
});

it('the admin surface’s expire moves the service’s time', async () => {
  const feed = await startedFeed({ clock: stillClock('2026-01-01T00:00:00Z') });
  const admin = await startAdminSurface(feed, []);
  try {
    const headers = { 'content-type': 'application/json' };
    await send(`${admin.adminUrl}/expire`, { method: 'POST', headers, body: '{"days": 1}' });
  } finally {
    await admin.close();
  }
  const { headers } = await call(feed, '/v1/subscriptions');
  expect(headers.get('date')).toBe('Fri, 02 Jan 2026 00:00:00 GMT');
});
