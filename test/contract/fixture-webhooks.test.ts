/** The fixture feed pushes to webhooks as Standard Webhooks says: signed, with the header that the receiver requires. */

import { Webhook as Verifier } from 'standardwebhooks';
import { describe, expect, it } from 'vitest';
import { startAdminSurface } from '../../fixtures/feed/admin.ts';
import { movableSystemClock } from '../../fixtures/feed/clock.ts';
import type { FixtureFeed } from '../../fixtures/feed/feed.ts';
import { call, send } from '../support/feed-calls.ts';
import { numberedRows, smallContent } from '../support/small-content.ts';
import { publishSmall, startedFeed } from '../support/started-feed.ts';
import { type Received, webhookReceiver } from '../support/webhook-receiver.ts';

const QUICK = { webhooks: { retryDelayMs: 1 } };

/** Signatures are checked against the system's clock. */
function pushingFeed(): Promise<FixtureFeed> {
  return startedFeed({ clock: movableSystemClock(), ...QUICK });
}

function post(feed: FixtureFeed, path: string, body?: unknown) {
  if (body === undefined) return call(feed, path, { method: 'POST' });
  const headers = { authorization: `Bearer ${feed.apiKey}`, 'content-type': 'application/json' };
  return call(feed, path, { method: 'POST', headers, body: JSON.stringify(body) });
}

function verified(secret: string, { body, headers }: Received): unknown {
  return new Verifier(secret).verify(body, headers as Record<string, string>);
}

const HEADER = { name: 'X-Receiver', value: 'let me in' };

describe('a webhook', () => {
  it('adds a webhook with a secret, and pings it, signed and with the header that it requires', async () => {
    const feed = await pushingFeed();
    const receiver = await webhookReceiver();
    const added = await post(feed, '/v1/webhooks', { url: receiver.url, header: HEADER });
    expect(added).toMatchObject({ status: 201, body: { url: receiver.url } });
    const { id, secret } = added.body;
    expect(secret).toMatch(/^whsec_[A-Za-z0-9+/]{43}=$/);
    expect((await post(feed, `/v1/webhooks/${id}/test`)).status).toBe(202);
    await feed.webhooks.idle();
    const [ping] = receiver.received as [Received];
    expect(ping.headers).toMatchObject({ 'x-receiver': 'let me in', 'content-type': 'application/json' });
    expect(verified(secret, ping)).toMatchObject({ type: 'ping', data: {}, id: ping.headers['webhook-id'] });
    expect(() => verified(`whsec_${Buffer.from('another').toString('base64')}`, ping)).toThrow();
    expect(feed.webhooks.deliveries(id)).toMatchObject([
      { isDelivered: true, attempts: [{ status: 204, error: null }] },
    ]);
  });

  it.each([
    ['no address', {}, '"url": Invalid input: expected string, received undefined'],
    [
      'plain http',
      { url: 'http://receiver.example/' },
      '"url": must be an https address without user and password',
    ],
    [
      'a password',
      { url: 'https://a:b@receiver.example/' },
      '"url": must be an https address without user and password',
    ],
    ['a field nobody knows', { url: 'https://receiver.example/', events: [] }, 'the body'],
    [
      'a header of no name',
      { url: 'https://receiver.example/', header: { name: '', value: 'x' } },
      '"header.name"',
    ],
  ])('refuses a webhook with %s', async (_, body, message) => {
    const feed = await pushingFeed();
    const refused = await post(feed, '/v1/webhooks', body);
    expect([refused.status, refused.body.error.code]).toEqual([400, 'invalid_request']);
    expect(refused.body.error.message).toContain(message);
  });

  it('demands the scopes of webhooks and watches, and a webhook that exists for a test', async () => {
    const feed = await pushingFeed();
    feed.keys.get(feed.apiKey).scopes = ['feeds', 'changes', 'watches'];
    expect((await post(feed, '/v1/webhooks', { url: 'https://receiver.example/' })).body.error.code).toBe(
      'insufficient_scope',
    );
    feed.keys.get(feed.apiKey).scopes = ['webhooks'];
    expect((await post(feed, '/v1/webhooks/wh_x/test')).body.error.code).toBe('not_found');
    expect((await call(feed, '/v1/dataset-watches')).body.error.code).toBe('insufficient_scope');
    expect((await post(feed, '/v1/datasets/a/watch')).body.error.code).toBe('insufficient_scope');
  });
});

describe('deliveries', () => {
  it('pushes the events of every log, and versions under watch, to every webhook in order', async () => {
    const feed = await pushingFeed();
    const receivers = [await webhookReceiver(), await webhookReceiver()] as const;
    for (const { url } of receivers) feed.webhooks.add(url, null);
    publishSmall(feed, ['parcels']);
    feed.publisher.publish('parcels', smallContent(numberedRows(3)));
    feed.publisher.publish('parcels', smallContent(numberedRows(4)), { announce: false });
    feed.publisher.remove('parcels', 'left_coverage');
    feed.store.watches.set('parcels', feed.clock.now());
    feed.publisher.publish('parcels', smallContent(numberedRows(5)));
    await feed.webhooks.idle();
    for (const { received } of receivers) {
      const reported = received.map(({ body }) => JSON.parse(body));
      expect(reported.map(({ type, data, subscriptionId }) => [type, data.version, subscriptionId])).toEqual([
        ['dataset.added', 1, 'sub_1'],
        ['dataset.updated', 2, 'sub_1'],
        ['dataset.removed', undefined, 'sub_1'],
        ['dataset.updated', 4, undefined],
      ]);
      expect(reported[1]).toMatchObject({ id: 'evt_2', data: { links: { version: expect.any(String) } } });
      expect(new Set(received.map(({ headers }) => headers['webhook-id'])).size).toBe(4);
    }
  });

  it('tries a delivery a few times under one id, then gives it up without delaying the next', async () => {
    const feed = await pushingFeed();
    const receiver = await webhookReceiver();
    const { webhookId } = feed.webhooks.add(receiver.url, null);
    receiver.status = 500;
    feed.webhooks.ping(webhookId);
    await feed.webhooks.idle();
    expect(receiver.received).toHaveLength(3);
    expect(new Set(receiver.received.map(({ headers }) => headers['webhook-id'])).size).toBe(1);
    receiver.status = 204;
    feed.webhooks.ping(webhookId);
    await feed.webhooks.idle();
    expect(feed.webhooks.deliveries().map(({ isDelivered }) => isDelivered)).toEqual([false, true]);
  });

  it('waits for no receiver that does not listen', async () => {
    const feed = await pushingFeed();
    const { webhookId } = feed.webhooks.add('http://127.0.0.1:1/', null);
    feed.webhooks.ping(webhookId);
    await feed.webhooks.idle();
    expect(feed.webhooks.deliveries(webhookId)).toMatchObject([
      { isDelivered: false, attempts: [{ status: null }, { status: null }, { status: null }] },
    ]);
  });
});

it('the admin surface rotates a secret, repeats a message, and sends an old one', async () => {
  const feed = await pushingFeed();
  const admin = await startAdminSurface(feed, []);
  const receiver = await webhookReceiver();
  const { webhookId, secrets } = feed.webhooks.add(receiver.url, null);
  const act = (path: string, body: object) =>
    send(`${admin.adminUrl}${path}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ webhookId, ...body }),
    });
  const rotated = await act('/rotate', {});
  await act('/ping', {});
  await act('/repeat', {});
  await act('/ping', { secondsAgo: 600 });
  await feed.webhooks.idle();
  const [first, again, old] = receiver.received as [Received, Received, Received];
  for (const secret of [secrets[0] ?? '', rotated.body.secret]) verified(secret, first);
  expect(again.headers['webhook-id']).toBe(first.headers['webhook-id']);
  expect(again.body).toBe(first.body);
  expect(() => verified(rotated.body.secret, old)).toThrow('Message timestamp too old');
  const { body: state } = await send(`${admin.adminUrl}/state`);
  expect(state.webhooks).toEqual([{ webhookId, url: receiver.url, deliveries: 3 }]);
  const { text } = await send(`${admin.adminUrl}/deliveries`);
  expect(JSON.parse(text)).toHaveLength(3);
  expect(text).not.toContain('whsec_');
  expect((await act('/repeat', { webhookId: 'wh_x' })).status).toBe(400);
  await admin.close();
});
