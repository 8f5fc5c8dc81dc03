/** The fixture feed can be moved at any request: before it is answered, and between the pages of a list. */

import { expect, it } from 'vitest';
import type { ArrivedRequest } from '../../fixtures/feed/request-listeners.ts';
import { call, firstFileUrl, send } from '../support/feed-calls.ts';
import { numberedRows, smallContent } from '../support/small-content.ts';
import { publishSmall, startedFeed } from '../support/started-feed.ts';

const VERSIONS = '/v1/datasets/a/versions';
const HOUR_MS = 3_600_000;

it('notifies a listener of every request, counted over all and over those of its operation', async () => {
  const feed = await startedFeed();
  publishSmall(feed, ['a']);
  const reported: ArrivedRequest[] = [];
  const end = feed.onRequest((request) => void reported.push(request));
  const url = await firstFileUrl(feed);
  await call(feed, `${VERSIONS}?cursor=nobody`);
  await send(`${feed.baseUrl}${VERSIONS}`);
  await send(url);
  await call(feed, '/v1/nothing');
  end();
  await call(feed, VERSIONS);
  const ofDataset = { datasetId: 'a', subscriptionId: null, laterPage: false };
  expect(reported).toEqual([
    {
      operation: 'manifest',
      datasetId: null,
      subscriptionId: 'sub_1',
      laterPage: false,
      number: 1,
      numberOfOperation: 1,
    },
    { ...ofDataset, operation: 'versions', laterPage: true, number: 2, numberOfOperation: 1 },
    { ...ofDataset, operation: 'versions', number: 3, numberOfOperation: 2 },
    { ...ofDataset, operation: 'file', number: 4, numberOfOperation: 1 },
    { ...ofDataset, operation: 'unknown', datasetId: null, number: 5, numberOfOperation: 1 },
  ]);
});

it('answers a request with what a listener did at it', async () => {
  const feed = await startedFeed();
  publishSmall(feed, ['a']);
  feed.onRequest(({ operation, numberOfOperation }) => {
    if (operation === 'versions' && numberOfOperation === 2)
      feed.publisher.publish('a', smallContent(numberedRows(5)));
  });
  const newest = async () => (await call(feed, VERSIONS)).body.versions[0].version;
  expect([await newest(), await newest(), await newest()]).toEqual([1, 2, 2]);
});

it('changes a list between two of its pages', async () => {
  const feed = await startedFeed();
  publishSmall(feed, ['a', 'b', 'c']);
  feed.onRequest(({ operation, laterPage }) => {
    if (operation === 'manifest' && laterPage) feed.publisher.remove('b', 'left_coverage');
  });
  const path = '/v1/subscriptions/sub_1/manifest?limit=1';
  const first = (await call(feed, path)).body;
  const second = (await call(feed, `${path}&cursor=${first.nextCursor}`)).body;
  expect([first, second]).toMatchObject([
    { lastEventId: 'evt_3', datasets: [{ datasetId: 'a' }] },
    { lastEventId: 'evt_4', datasets: [{ datasetId: 'c' }], nextCursor: null },
  ]);
});

it('lets a link expire at the request that uses it', async () => {
  const feed = await startedFeed();
  publishSmall(feed, ['a']);
  feed.onRequest(({ operation }) => {
    if (operation === 'file') feed.clock.advance(HOUR_MS);
  });
  const answer = await send(await firstFileUrl(feed));
  expect([answer.status, answer.headers.get('date')]).toEqual([403, 'Thu, 01 Jan 2026 01:00:00 GMT']);
});
