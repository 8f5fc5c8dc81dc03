/** The fixture feed refuses what the service would refuse, each time in the service's words. */

import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { DAY_MS, stillClock } from '../../fixtures/feed/clock.ts';
import { type FixtureFeed, startFixtureFeed } from '../../fixtures/feed/feed.ts';
import { cursorAt } from '../../fixtures/feed/paging.ts';
import { call, firstFileUrl, send } from '../support/feed-calls.ts';
import { numberedRows, smallContent } from '../support/small-content.ts';

const APP = 'https://app.feed.example';
const EVENTS = '/v1/subscriptions/sub_1/events';
const MANIFEST = '/v1/subscriptions/sub_1/manifest';
const VERSIONS = '/v1/datasets/parcels/versions';
const SCHEMAS = '/v1/datasets/parcels/schemas';
const CHANGES = '/v1/datasets/parcels/changes';

let feed: FixtureFeed;

beforeAll(async () => {
  feed = await startFixtureFeed({ clock: stillClock('2026-01-01T00:00:00Z'), appUrl: APP });
  feed.publisher.subscribe({ subscriptionId: 'sub_1', datasetIds: ['parcels', 'zoning'] });
  for (const datasetId of ['parcels', 'zoning', 'elsewhere']) {
    feed.publisher.addDataset({ datasetId });
    feed.publisher.publish(datasetId, smallContent(numberedRows(3)));
    feed.publisher.publish(datasetId, smallContent(numberedRows(3)));
  }
});

afterAll(() => feed.close());

describe('parameters', () => {
  it.each([
    ['/v1/subscriptions?limit=0', '"limit" must be at least 1.'],
    ['/v1/subscriptions?limit=201', '"limit" must be at most 200.'],
    ['/v1/subscriptions?limit=-1', '"limit" must be at least 1.'],
    ['/v1/subscriptions?limit=ten', '"limit" must be an integer.'],
    ['/v1/subscriptions?limit=1.5', '"limit" must be an integer.'],
    ['/v1/subscriptions?limit=', '"limit" must be an integer.'],
    ['/v1/subscriptions?limit=010', '"limit" must be an integer.'],
    ['/v1/subscriptions?limit=1&limit=2', 'The query parameter "limit" was given twice.'],
    ['/v1/subscriptions?page=2', 'There is no query parameter "page" here.'],
    [`${EVENTS}?limit=0`, '"limit" must be at least 1.'],
    [`${EVENTS}?limit=501`, '"limit" must be at most 500.'],
    [`${EVENTS}?cursor=x`, 'There is no query parameter "cursor" here.'],
    [`${EVENTS}?types=dataset.renamed`, 'There is no event type "dataset.renamed".'],
    [`${EVENTS}?types=`, 'There is no event type "".'],
    [`${VERSIONS}?limit=201`, '"limit" must be at most 200.'],
    [`${VERSIONS}?since=-1`, '"since" must be at least 0.'],
    [`${VERSIONS}?since=first`, '"since" must be an integer.'],
    [`${VERSIONS}?after=1`, 'There is no query parameter "after" here.'],
    [`${SCHEMAS}?limit=201`, '"limit" must be at most 200.'],
    [`${SCHEMAS}?since=1`, 'There is no query parameter "since" here.'],
    [`${CHANGES}`, '"version" is required.'],
    [`${CHANGES}?version=two`, '"version" must be an integer.'],
    [`${CHANGES}?version=2&limit=1001`, '"limit" must be at most 1000.'],
    [`${CHANGES}?version=2&limit=0`, '"limit" must be at least 1.'],
    [`${MANIFEST}?limit=201`, '"limit" must be at most 200.'],
    [`${MANIFEST}?datasetId=parcels`, 'There is no query parameter "datasetId" here.'],
    ['/v1/openapi.json?format=yaml', 'There is no query parameter "format" here.'],
    ['/v1/coverage?limit=201', '"limit" must be at most 200.'],
    ['/v1/dataset-watches?limit=0', '"limit" must be at least 1.'],
  ])('refuses %s', async (path, message) => {
    const { status, body } = await call(feed, path);
    const links = { description: `${feed.baseUrl}/v1/openapi.json` };
    expect({ status, body }).toEqual({
      status: 400,
      body: { error: { code: 'invalid_request', message, links } },
    });
  });

  it.each([
    ['/v1/subscriptions?cursor=garbage'],
    ['/v1/subscriptions?cursor='],
    [`/v1/subscriptions?cursor=${cursorAt('1', 'coverage')}`],
    [`${VERSIONS}?cursor=${cursorAt('2', 'versions of zoning newer than null')}`],
    [`${VERSIONS}?since=1&cursor=${cursorAt('2', 'versions of parcels newer than null')}`],
    [`${SCHEMAS}?cursor=${cursorAt('2', 'versions of parcels newer than null')}`],
    [`${CHANGES}?version=2&cursor=${cursorAt('1', 'changes of parcels at 1')}`],
    [`${MANIFEST}?cursor=evt_1`],
    [`${EVENTS}?after=evt_9999`],
    [`${EVENTS}?after=evt_0`],
    [`${EVENTS}?after=1`],
    [`${EVENTS}?after=`],
  ])('refuses a position of another list, or of none: %s', async (path) => {
    const { status, body } = await call(feed, path);
    expect([status, body.error.code]).toEqual([400, 'invalid_cursor']);
  });
});

describe('the key', () => {
  it.each([
    ['no key', {}],
    ['a wrong key', { authorization: 'Bearer wrong' }],
    ['another scheme', { authorization: 'Basic Zml4dHVyZQ==' }],
    ['an empty key', { authorization: 'Bearer ' }],
  ])('demands the key: %s', async (_name, headers) => {
    for (const path of ['/v1/subscriptions', '/v1/openapi.json', '/v1/coverage', '/v1/nothing']) {
      const { status, body } = await send(feed.baseUrl + path, { headers });
      expect([status, body.error.code]).toEqual([401, 'unauthorized']);
      expect(body.error.links).toEqual({ apiKeys: `${APP}/settings/api-keys` });
    }
  });

  it('refuses a key once it is revoked or expired', async () => {
    const revoked = feed.keys.add('revoked-key');
    feed.keys.add('short-key', { expiresAt: new Date(feed.clock.now().getTime() + 1000) });
    const statuses = async () => {
      const keys = ['revoked-key', 'short-key'].map((key) => ({ authorization: `Bearer ${key}` }));
      const answers = await Promise.all(keys.map((headers) => call(feed, '/v1/subscriptions', { headers })));
      return answers.map(({ status }) => status);
    };
    expect(await statuses()).toEqual([200, 200]);
    revoked.revoked = true;
    feed.clock.advance(1000);
    expect(await statuses()).toEqual([401, 401]);
  });

  it('demands the scope "feeds" for the feed endpoints, and no scope elsewhere', async () => {
    feed.keys.add('bare-key', { scopes: [] });
    const headers = { authorization: 'Bearer bare-key' };
    for (const path of ['/v1/subscriptions', EVENTS, VERSIONS, SCHEMAS, MANIFEST, `${CHANGES}?version=2`]) {
      const { status, body } = await call(feed, path, { headers });
      expect([status, body.error.code]).toEqual([403, 'insufficient_scope']);
      expect(body.error.links).toEqual({ apiKeys: `${APP}/settings/api-keys` });
    }
    expect((await call(feed, '/v1/coverage', { headers })).status).toBe(200);
  });

  it('accepts a key without the scope for changes elsewhere', async () => {
    feed.keys.add('feeds-key', { scopes: ['feeds'] });
    const headers = { authorization: 'Bearer feeds-key' };
    expect((await call(feed, VERSIONS, { headers })).status).toBe(200);
    const { status, body } = await call(feed, `${CHANGES}?version=2`, { headers });
    expect([status, body.error.code]).toEqual([403, 'insufficient_scope']);
  });
});

describe('unknown and foreign resources', () => {
  it.each([
    ['/v1/subscriptions/sub_2/events', 404, 'not_found'],
    ['/v1/subscriptions/sub_2/manifest', 404, 'not_found'],
    ['/v1/datasets/unknown/versions', 404, 'not_found'],
    ['/v1/datasets/unknown/schemas', 404, 'not_found'],
    ['/v1/datasets/unknown/changes?version=1', 404, 'not_found'],
    [`${CHANGES}?version=3`, 404, 'not_found'],
    ['/v1/datasets/elsewhere/versions', 403, 'outside_coverage'],
    ['/v1/datasets/elsewhere/changes?version=2', 403, 'outside_coverage'],
    ['/v1/datasets/parcels/manifest', 404, 'not_found'],
    ['/v1/nothing', 404, 'not_found'],
    ['/files/a/b/c', 404, 'not_found'],
  ])('refuses %s with %i %s', async (path, status, code) => {
    const answer = await call(feed, path);
    expect([answer.status, answer.body.error.code]).toEqual([status, code]);
    expect(Object.keys(answer.body.error.links)).toHaveLength(1);
  });

  it('refuses any other method', async () => {
    const { status, body } = await call(feed, '/v1/subscriptions', { method: 'POST' });
    expect([status, body.error.code]).toEqual([404, 'not_found']);
  });

  it('refuses to watch an unknown dataset, and to end a watch that is not there', async () => {
    const watch = await call(feed, '/v1/datasets/unknown/watch', { method: 'POST' });
    const unwatch = await call(feed, '/v1/datasets/zoning/watch', { method: 'DELETE' });
    expect([watch.status, unwatch.status]).toEqual([404, 404]);
  });
});

describe('refusals that an operator has to lift', () => {
  it.each([
    ['not_distributable', 403],
    ['outside_coverage', 403],
    ['not_found', 404],
    ['anything_else', 403],
  ])('refuses one dataset as %s', async (code, expected) => {
    const target = { kind: 'dataset', datasetId: 'parcels' } as const;
    feed.access.refuse(target, { code, message: 'Ask for it.', links: { ask: '{app_url}/ask' } });
    for (const path of [VERSIONS, SCHEMAS, `${CHANGES}?version=2`]) {
      const { status, body } = await call(feed, path);
      const error = { code, message: 'Ask for it.', links: { ask: `${APP}/ask` } };
      expect({ status, body }).toEqual({ status: expected, body: { error } });
    }
    expect((await call(feed, '/v1/datasets/zoning/versions')).status).toBe(200);
    feed.access.lift(target);
    expect((await call(feed, VERSIONS)).status).toBe(200);
  });

  it('refuses one subscription, or the whole workspace with a status of choice', async () => {
    feed.access.refuse({ kind: 'subscription', subscriptionId: 'sub_1' }, { code: 'subscription_paused' });
    feed.access.refuse({ kind: 'workspace' }, { code: 'payment_required', status: 402 });
    expect(feed.access.refused().map(({ code }) => code)).toEqual([
      'subscription_paused',
      'payment_required',
    ]);
    expect((await call(feed, '/v1/subscriptions')).status).toBe(402);
    feed.access.lift({ kind: 'workspace' });
    expect((await call(feed, '/v1/subscriptions')).status).toBe(200);
    expect((await call(feed, EVENTS)).status).toBe(403);
    expect((await call(feed, MANIFEST)).status).toBe(403);
    feed.access.lift({ kind: 'subscription', subscriptionId: 'sub_1' });
    expect((await call(feed, EVENTS)).status).toBe(200);
  });
});

describe('files', () => {
  it.each([
    ['no signature', (url: URL) => new URL(url.pathname, url), 403, 'AccessDenied'],
    [
      'a forged signature',
      (url: URL) => changed(url, 'X-Signature', '0'.repeat(64)),
      403,
      'SignatureDoesNotMatch',
    ],
    ['a later end', (url: URL) => changed(url, 'X-Expires', '99999999999'), 403, 'SignatureDoesNotMatch'],
    [
      'another file',
      (url: URL) => new URL(url.href.replace('part-0', 'part-1')),
      403,
      'SignatureDoesNotMatch',
    ],
  ])('refuses a link with %s, in XML', async (_name, forge, status, code) => {
    const url = new URL(await firstFileUrl(feed));
    expect((await send(url.href)).status).toBe(200);
    const answer = await send(forge(url).href);
    expect([answer.status, answer.headers.get('content-type')]).toEqual([status, 'application/xml']);
    expect(answer.text).toContain(`<Code>${code}</Code>`);
  });

  it('refuses a link that has expired by the clock of the feed', async () => {
    const url = await firstFileUrl(feed);
    feed.clock.advance(feed.settings.files.urlLifetimeMs - 1);
    expect((await send(url)).status).toBe(200);
    feed.clock.advance(1);
    const answer = await send(url);
    expect(answer.status).toBe(403);
    expect(answer.text).toContain('<Message>Request has expired</Message>');
  });

  it('refuses a request that carries a key, and repeats the key only on demand', async () => {
    const url = await firstFileUrl(feed);
    const headers = { authorization: `Bearer ${feed.apiKey}` };
    const quiet = await send(url, { headers });
    expect(quiet.status).toBe(400);
    expect(quiet.text).not.toContain(feed.apiKey);
    feed.settings.files.echoAuthorization = true;
    const echoing = await send(url, { headers });
    feed.settings.files.echoAuthorization = false;
    expect(echoing.status).toBe(400);
    expect(echoing.text).toContain(feed.apiKey);
  });

  it('refuses a range past the end', async () => {
    const url = await firstFileUrl(feed);
    const bytes = (await send(url)).headers.get('content-length');
    const answer = await send(url, { headers: { range: `bytes=${bytes}-` } });
    expect([answer.status, answer.headers.get('content-range')]).toEqual([416, `bytes */${bytes}`]);
    expect(answer.text).toContain('<Code>InvalidRange</Code>');
  });

  it('the file server serves nothing but files', async () => {
    expect((await send(`${feed.filesUrl}/v1/subscriptions`)).status).toBe(404);
  });
});

describe('retention', () => {
  it('refuses a position past 90 days with 410 and a link to the manifest', async () => {
    feed.publisher.publish('parcels', smallContent(numberedRows(3)));
    const { body } = await call(feed, EVENTS);
    const last = body.events.at(-1).id;
    feed.clock.advance(90 * DAY_MS);
    expect((await call(feed, `${EVENTS}?after=${last}`)).status).toBe(200);
    feed.clock.advance(1);
    const expired = await call(feed, `${EVENTS}?after=${last}`);
    expect([expired.status, expired.body.error.code]).toEqual([410, 'cursor_expired']);
    expect(expired.body.error.links).toEqual({ manifest: `${feed.baseUrl}${MANIFEST}` });
  });
});

function changed(url: URL, parameter: string, value: string): URL {
  const copy = new URL(url);
  copy.searchParams.set(parameter, value);
  return copy;
}
