/** The log of a subscription restarts: old events are gone, and their numbers are used again. */

import { expect, it } from 'vitest';
import { DAY_MS } from '../../fixtures/feed/clock.ts';
import type { FixtureFeed } from '../../fixtures/feed/feed.ts';
import type { FixtureFeedOptions } from '../../fixtures/feed/settings.ts';
import { call } from '../support/feed-calls.ts';
import { numberedRows, smallContent } from '../support/small-content.ts';
import { publishSmall, startedFeed } from '../support/started-feed.ts';

const EVENTS = '/v1/subscriptions/sub_1/events';

/** Datasets `a` and `b`; five events in sub_1. */
async function fiveEvents(options: FixtureFeedOptions = {}): Promise<FixtureFeed> {
  const feed = await startedFeed(options);
  publishSmall(feed, ['a', 'b']);
  for (let count = 0; count < 3; count += 1) publish(feed);
  return feed;
}

function publish(feed: FixtureFeed): void {
  feed.publisher.publish('a', smallContent(numberedRows(2)));
}

async function read(feed: FixtureFeed, query = '') {
  const { status, body } = await call(feed, `${EVENTS}${query}`);
  const reported = ({ id, type }: { id: string; type: string }) => `${id} ${type.replace('dataset.', '')}`;
  return status === 200 ? body.events.map(reported) : [status, body.error.code];
}

/** The last event as the subscription's record and its manifest state it. */
async function lastEvents(feed: FixtureFeed) {
  const { body } = await call(feed, '/v1/subscriptions');
  const manifest = await call(feed, '/v1/subscriptions/sub_1/manifest');
  return [body.subscriptions[0].lastEventId, manifest.body.lastEventId];
}

it('a restarted log begins at 1, empty, and states no last event until there is one', async () => {
  const feed = await fiveEvents();
  expect(await lastEvents(feed)).toEqual(['evt_5', 'evt_5']);
  feed.publisher.restartLog('sub_1');
  expect(await read(feed)).toEqual([]);
  expect(await lastEvents(feed)).toEqual([undefined, undefined]);
  expect(await read(feed, '?after=evt_5')).toEqual([400, 'invalid_cursor']);
  publish(feed);
  expect(await read(feed)).toEqual(['evt_1 updated']);
  expect(await lastEvents(feed)).toEqual(['evt_1', 'evt_1']);
});

it('a restarted log begins at a given number', async () => {
  const feed = await fiveEvents();
  feed.publisher.restartLog('sub_1', { firstNumber: 400 });
  publish(feed);
  publish(feed);
  expect(await read(feed)).toEqual(['evt_400 updated', 'evt_401 updated']);
  expect(await read(feed, '?after=evt_400')).toEqual(['evt_401 updated']);
  expect(await read(feed, '?after=evt_5')).toEqual([400, 'invalid_cursor']);
  expect(await lastEvents(feed)).toEqual(['evt_401', 'evt_401']);
});

it('a restarted log begins with the members of the subscription, on demand', async () => {
  const feed = await fiveEvents();
  feed.publisher.remove('b', 'left_coverage');
  feed.publisher.restartLog('sub_1', { announce: true });
  expect(await read(feed)).toEqual(['evt_1 added']);
});

it('a restarted log leaves its old number in a frozen manifest', async () => {
  const feed = await fiveEvents();
  feed.manifest.freeze({ subscriptionId: 'sub_1' });
  feed.publisher.restartLog('sub_1');
  publish(feed);
  expect(await lastEvents(feed)).toEqual(['evt_1', 'evt_5']);
});

it('a restarted log leaves the logs of other subscriptions as they are', async () => {
  const feed = await fiveEvents();
  feed.publisher.subscribe({ subscriptionId: 'sub_2', datasetIds: ['a'] });
  feed.publisher.restartLog('sub_2');
  expect(await read(feed)).toHaveLength(5);
  expect((await call(feed, '/v1/subscriptions/sub_2/events')).body.events).toEqual([]);
});

it('a position of the old log counts in the new one, where unknown positions are accepted', async () => {
  const feed = await fiveEvents({ answers: { unknownPosition: 'taken' } });
  feed.publisher.restartLog('sub_1');
  publish(feed);
  expect(await read(feed, '?after=evt_5')).toEqual([]);
  for (let count = 0; count < 6; count += 1) publish(feed);
  expect(await read(feed, '?after=evt_5')).toEqual(['evt_6 updated', 'evt_7 updated']);
  feed.publisher.restartLog('sub_1', { firstNumber: 20 });
  publish(feed);
  expect(await read(feed, '?after=evt_7')).toEqual(['evt_20 updated']);
  feed.settings.answers.unknownPosition = 'expired';
  expect(await read(feed, '?after=evt_7')).toEqual([410, 'cursor_expired']);
  expect(await read(feed, '?after=evt_20')).toEqual([]);
});

it('a restarted log expires by itself after 90 days, whatever the old log had', async () => {
  const feed = await fiveEvents({ answers: { unknownPosition: 'taken' } });
  feed.publisher.restartLog('sub_1', { firstNumber: 20 });
  publish(feed);
  feed.clock.advance(60 * DAY_MS);
  publish(feed);
  feed.clock.advance(31 * DAY_MS);
  expect(await read(feed)).toEqual(['evt_21 updated']);
  expect(await read(feed, '?after=evt_20')).toEqual([410, 'cursor_expired']);
  expect(await read(feed, '?after=evt_5')).toEqual([410, 'cursor_expired']);
  feed.publisher.restartLog('sub_1', { firstNumber: 20 });
  expect(await read(feed, '?after=evt_20')).toEqual([]);
});
