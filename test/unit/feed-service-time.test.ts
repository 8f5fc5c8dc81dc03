/** Service time: the time of an answer, as the answer states it. */

import nock from 'nock';
import { beforeEach, describe, expect, it } from 'vitest';
import type { Feed } from '../../src/feed/feed.ts';
import { httpDate } from '../../src/feed/http/http.ts';
import { errorOf, instantClock, testFeed } from '../support/feed-client.ts';
import { BASE, interceptedFeed } from '../support/intercepted-feed.ts';

const LOCAL = '2026-01-01T00:00:00.000Z';
const signal = new AbortController().signal;

const { start } = interceptedFeed();

let feed: Feed;
beforeEach(() => {
  feed = start({ clock: instantClock(LOCAL) });
});

/** A list of one page for each of `dates`, which is the `Date` of its answer. */
function pages(path: string, body: object, ...dates: readonly (string | null)[]): void {
  dates.forEach((date, page) => {
    const nextCursor = page + 1 < dates.length ? String(page + 1) : null;
    nock(BASE)
      .get(path)
      .query(({ cursor = '0' }) => cursor === String(page))
      .reply(200, { ...body, nextCursor }, date === null ? {} : { date });
  });
}

const FIRST = 'Mon, 02 Mar 2026 10:00:00 GMT';
const LATER = 'Mon, 02 Mar 2026 10:00:09 GMT';

const ANSWERS: readonly [string, string, object, (feed: Feed) => Promise<{ readonly readAt: Date }>][] = [
  ['subscriptions', '/v1/subscriptions', { subscriptions: [] }, (one) => one.subscriptions(signal)],
  [
    'versions',
    '/v1/datasets/parcels/versions',
    { versions: [] },
    (one) => one.versions('parcels', null, signal),
  ],
  [
    'a manifest',
    '/v1/subscriptions/sub_1/manifest',
    { datasets: [] },
    (one) => one.manifest('sub_1', signal),
  ],
];

describe('the service time of an answer', () => {
  it.each(ANSWERS)('takes the Date of the first page: %s', async (_name, path, body, read) => {
    pages(path, body, FIRST, LATER);
    expect((await read(feed)).readAt).toEqual(new Date('2026-03-02T10:00:00Z'));
  });

  it.each(ANSWERS)('takes the local clock where the first page has no Date: %s', async (...row) => {
    const [, path, body, read] = row;
    pages(path, body, null, LATER);
    expect((await read(feed)).readAt).toEqual(new Date(LOCAL));
  });

  it('takes the Date of a page of a log', async () => {
    nock(BASE)
      .get('/v1/subscriptions/sub_1/events')
      .query(true)
      .reply(200, { events: [], hasMore: false }, { date: FIRST });
    const { readAt } = await feed.events('sub_1', null, signal);
    expect(readAt).toEqual(new Date('2026-03-02T10:00:00Z'));
  });

  it('takes the Date of the answer that a position has expired', async () => {
    const body = { error: { code: 'cursor_expired', message: 'Too old.' } };
    nock(BASE).get('/v1/subscriptions/sub_1/events').query(true).reply(410, body, { date: FIRST });
    expect(await errorOf(feed.events('sub_1', null, signal))).toMatchObject({
      name: 'CursorExpiredError',
      readAt: new Date('2026-03-02T10:00:00Z'),
    });
  });

  it('takes the Date of the manifest of a dataset', async () => {
    const manifestPath = '/v1/datasets/{datasetId}/manifest';
    const { feed: byDataset } = testFeed(BASE, { contract: { manifestPath, newerThanParameter: null } });
    const entry = { datasetId: 'parcels', version: 1, files: [] };
    nock(BASE).get('/v1/datasets/parcels/manifest').reply(200, entry, { date: FIRST });
    const { readAt } = await byDataset.manifestEntry('parcels', signal);
    expect(readAt).toEqual(new Date('2026-03-02T10:00:00Z'));
    await byDataset.close();
  });

  it('takes the local clock where the Date cannot be read', async () => {
    pages('/v1/subscriptions', { subscriptions: [] }, 'yesterday, about noon');
    expect((await feed.subscriptions(signal)).readAt).toEqual(new Date(LOCAL));
  });
});

describe('httpDate', () => {
  it.each([
    ['Sun, 06 Nov 1994 08:49:37 GMT'],
    ['Sunday, 06-Nov-94 08:49:37 GMT'],
    ['Sun Nov  6 08:49:37 1994'],
    [' Sun, 06 Nov 1994 08:49:37 GMT '],
  ])('reads a date in every form of the standard, as UTC: %s', (text) => {
    expect(httpDate(text)?.toISOString()).toBe('1994-11-06T08:49:37.000Z');
  });

  it.each([[null], [''], ['5 apples'], ['Sun'], ['Sun, 99 Nov 1994 08:49:37 GMT'], ['2026-03-02T10:00:00Z']])(
    'reads no date from a text in no form of the standard: %s',
    (text) => {
      expect(httpDate(text)).toBeNull();
    },
  );
});
