/** Webhooks as the service really sends them, to the server that receives them (F44): what wakes the loop, and what does not. */

import { describe, expect, it, vi } from 'vitest';
import { stillClock } from '../../fixtures/feed/clock.ts';
import type { FixtureFeed } from '../../fixtures/feed/feed.ts';
import { headersOf } from '../../fixtures/feed/webhook-delivery.ts';
import { MAX_BODY_BYTES, MAX_SIGNATURES } from '../../src/daemon/server/limits.ts';
import { judge } from '../../src/daemon/server/webhook.ts';
import { type Clock, systemClock } from '../../src/lib/clock.ts';
import { Secret } from '../../src/lib/secret.ts';
import { breakableLink } from '../support/breakable-link.ts';
import { openAt, temporaryPath } from '../support/checkpoint-files.ts';
import { numberedRows, smallContent } from '../support/small-content.ts';
import { publishSmall, startedFeed } from '../support/started-feed.ts';
import { ask, type Receiver, receiver, type ServerUnderTest, serve } from '../support/status-server.ts';

interface Pushed extends ServerUnderTest {
  readonly feed: FixtureFeed;
  readonly webhookId: string;
  readonly secret: string;
  readonly receiver: Receiver;
}

/** A feed that pushes to a status server, both by the same clock; the server knows the secret. */
async function pushed(receiving: Receiver = receiver(''), maxAttempts = 1): Promise<Pushed> {
  const webhooks = { maxAttempts, retryDelayMs: 1 };
  const feed = await startedFeed({ clock: stillClock('2026-01-01T00:00:00Z'), webhooks });
  const clock = { ...NO_PAUSE, now: () => feed.clock.now() };
  const server = await serve({ clock, webhook: receiving.parts });
  const { webhookId, secrets } = feed.webhooks.add(`${server.url}/webhook`, null);
  const [secret = ''] = secrets;
  receiving.setFile(`${secret}\n`);
  return { ...server, feed, webhookId, secret, receiver: receiving };
}

/** What the service was answered, delivery by delivery. */
async function answers({ feed }: Pushed): Promise<readonly (number | null | undefined)[]> {
  await feed.webhooks.idle();
  return feed.webhooks.deliveries().map(({ attempts }) => attempts.at(-1)?.status);
}

const NOW = new Date('2026-01-01T00:00:00Z');

/** After each delivery the loop may be woken again at once. */
const NO_PAUSE: Clock = { ...systemClock, now: () => NOW, sleep: async () => {} };

/** Headers as the service would sign them, for a message of a test's own. */
function signed(secret: string, body: string, id = 'msg_1', timestamp = NOW): Record<string, string> {
  return headersOf({ header: null, secrets: [secret] }, { id, type: 'ping', body }, timestamp);
}

function post({ url }: Pushed, headers: Readonly<Record<string, string>>, body: Buffer | string) {
  return ask(`${url}/webhook`, { method: 'POST', headers, body });
}

describe('deliveries of the service', () => {
  it('a delivery wakes the loop, each of its own id once (F44: a repeated id)', async () => {
    const under = await pushed();
    publishSmall(under.feed, ['parcels']);
    under.feed.publisher.publish('parcels', smallContent(numberedRows(3)));
    expect(await answers(under)).toEqual([204, 204]);
    expect(under.receiver.woken()).toBe(2);
    under.feed.webhooks.repeat(under.webhookId);
    expect(await answers(under)).toEqual([204, 204, 204]);
    expect(under.receiver.woken()).toBe(2);
    const { text } = await ask(`${under.url}/metrics`);
    expect(text).toContain('feed_sync_webhook_deliveries_total{outcome="woke"} 2\n');
    expect(text).toContain('feed_sync_webhook_deliveries_total{outcome="repeated"} 1\n');
  });

  it('a delivery is known again after a restart (F44: a repeated id)', async () => {
    const path = temporaryPath('checkpoint.sqlite');
    const before = await openAt(path);
    const first = receiver('', (id, at) => before.rememberDelivery(id, at));
    // The service may try the connection first that the server ended with.
    const under = await pushed(first, 2);
    const link = await breakableLink(under.url);
    const { webhookId, secrets } = under.feed.webhooks.add(`${link.baseUrl}/webhook`, null);
    first.setFile(secrets.join('\n'));
    under.feed.webhooks.ping(webhookId);
    await under.feed.webhooks.idle();
    await under.server.close();
    before.close();
    const after = await openAt(path);
    const second = receiver(secrets.join('\n'), (id, at) => after.rememberDelivery(id, at));
    link.leadTo((await serve({ clock: NO_PAUSE, webhook: second.parts })).url);
    under.feed.webhooks.repeat(webhookId);
    under.feed.webhooks.ping(webhookId);
    expect(await answers(under)).toEqual([204, 204, 204]);
    expect([first.woken(), second.woken()]).toEqual([1, 1]);
  });

  it.each(['', 'no JSON', '{"a": 1, "a": 2}', '[[[[', 'ünï ☃'])(
    'a delivery is never decoded: %j wakes',
    async (body) => {
      const under = await pushed();
      expect((await post(under, signed(under.secret, body), body)).status).toBe(204);
      expect(under.receiver.woken()).toBe(1);
    },
  );

  it.each([
    [-300, 204],
    [300, 204],
    [-301, 401],
    [301, 401],
    [-86_400, 401],
  ])(
    'a delivery of a time %i seconds off is answered %i (F44: an old timestamp)',
    async (seconds, status) => {
      const under = await pushed();
      under.feed.webhooks.ping(under.webhookId, seconds * 1_000);
      expect(await answers(under)).toEqual([status]);
      expect(under.receiver.woken()).toBe(status === 204 ? 1 : 0);
    },
  );

  it('a delivery is accepted with any secret of the file, as it is now (F44: a rotated key)', async () => {
    const under = await pushed();
    const { feed, webhookId, secret, receiver: receiving } = under;
    const deliver = async (file: string) => {
      receiving.setFile(file);
      feed.webhooks.ping(webhookId);
      return (await answers(under)).at(-1);
    };
    const second = feed.webhooks.rotate(webhookId);
    expect(await deliver(`${secret}\n`)).toBe(204);
    expect(await deliver(`${second}\r\n`)).toBe(204);
    expect(await deliver(`\n${secret}\n\n  ${second}  `)).toBe(204);
    const third = feed.webhooks.rotate(webhookId);
    expect(await deliver(secret)).toBe(401);
    expect(await deliver(`${secret}\n${third}\n`)).toBe(204);
  });

  it('a delivery wakes the loop also where it cannot be remembered, and is asked for again', async () => {
    const receiving = receiver('', () => {
      throw new Error('The disk is full.');
    });
    const under = await pushed(receiving);
    under.feed.webhooks.ping(under.webhookId);
    expect(await answers(under)).toEqual([500]);
    expect(receiving.woken()).toBe(1);
    expect(under.logged).toEqual([expect.stringContaining('The disk is full.')]);
  });
});

describe('deliveries of anybody else', () => {
  const BODY = '{"type":"ping","data":{}}';

  it.each(['webhook-id', 'webhook-timestamp', 'webhook-signature'])(
    'F44: refuses a delivery without %s',
    async (name) => {
      const under = await pushed();
      const { [name]: _, ...headers } = signed(under.secret, BODY);
      expect((await post(under, headers, BODY)).status).toBe(400);
      expect((await post(under, { ...headers, [name]: '' }, BODY)).status).toBe(400);
      expect(under.receiver.woken()).toBe(0);
    },
  );

  it.each([
    ['webhook-id', 'm'.repeat(257)],
    ['webhook-id', 'msg 1'],
    ['webhook-timestamp', '1767225600.0'],
    ['webhook-timestamp', '-1'],
    ['webhook-timestamp', '2026-01-01T00:00:00Z'],
    ['webhook-timestamp', '9'.repeat(13)],
    [
      'webhook-signature',
      Array(MAX_SIGNATURES + 1)
        .fill('v1,x')
        .join(' '),
    ],
  ])('refuses an invalid %s: %s', async (name, value) => {
    const under = await pushed();
    expect((await post(under, { ...signed(under.secret, BODY), [name]: value }, BODY)).status).toBe(400);
    expect(under.receiver.woken()).toBe(0);
  });

  it('F44: refuses a wrong signature, and wakes nothing', async () => {
    const under = await pushed();
    const { secret } = under;
    const right = signed(secret, BODY);
    const { 'webhook-signature': signature = '' } = right;
    const other = `whsec_${Buffer.from('another secret').toString('base64')}`;
    const wrong = [
      { ...right, 'webhook-signature': 'v1,' },
      { ...right, 'webhook-signature': signature.slice(0, -1) },
      { ...right, 'webhook-signature': `${signature}A` },
      { ...right, 'webhook-signature': signature.replace('v1,', 'v1a,') },
      { ...right, 'webhook-signature': signature.replace('v1,', '') },
      { ...right, 'webhook-signature': signature.toUpperCase() },
      { ...right, 'webhook-id': 'msg_2' },
      { ...right, 'webhook-timestamp': '1767225601' },
      signed(other, BODY),
    ];
    for (const headers of wrong) expect((await post(under, headers, BODY)).status).toBe(401);
    expect(under.receiver.woken()).toBe(0);
    const among = { ...right, 'webhook-signature': `v1,xx v2,yy ${signature}` };
    expect((await post(under, among, BODY)).status).toBe(204);
    expect(under.receiver.woken()).toBe(1);
  });

  it('F44: refuses a body that was written again, and wakes nothing', async () => {
    const under = await pushed();
    const headers = signed(under.secret, BODY);
    for (const body of [
      JSON.stringify(JSON.parse(BODY), null, 2),
      `${BODY}\n`,
      BODY.replace('ping', 'pong'),
      '',
    ]) {
      expect((await post(under, headers, body)).status).toBe(401);
    }
    const notText = Buffer.concat([Buffer.from(BODY), Buffer.from([0xff])]);
    expect((await post(under, signed(under.secret, notText.toString()), notText)).status).toBe(400);
    expect(under.receiver.woken()).toBe(0);
  });

  it('F44: refuses 20 MB, announced or not', async () => {
    const under = await pushed();
    const body = 'x'.repeat(20_000_000);
    const headers = signed(under.secret, body);
    expect((await post(under, headers, body)).status).toBe(413);
    expect((await post(under, { ...headers, 'transfer-encoding': 'chunked' }, body)).status).toBe(413);
    const largest = 'x'.repeat(MAX_BODY_BYTES);
    expect((await post(under, signed(under.secret, `${largest}x`), `${largest}x`)).status).toBe(413);
    expect(under.receiver.woken()).toBe(0);
    expect((await post(under, signed(under.secret, largest), largest)).status).toBe(204);
    const { text } = await ask(`${under.url}/metrics`);
    expect(text).toContain('feed_sync_webhook_deliveries_total{outcome="refused"} 3\n');
  });

  it('a refused delivery is not taken for one that came before', async () => {
    const under = await pushed();
    const headers = signed(under.secret, BODY);
    expect((await post(under, { ...headers, 'webhook-signature': 'v1,x' }, BODY)).status).toBe(401);
    expect((await post(under, headers, BODY)).status).toBe(204);
    expect(under.receiver.woken()).toBe(1);
  });

  it('F44: tries every secret and every signature, whatever fits before', () => {
    const texts = ['one', 'two', 'three'].map((text) => `whsec_${Buffer.from(text).toString('base64')}`);
    const secrets = texts.map((text) => new Secret(text));
    const revealed = secrets.map((secret) => vi.spyOn(secret, 'reveal'));
    const [first = ''] = texts;
    const judged = judge({ headers: signed(first, BODY), body: Buffer.from(BODY) }, secrets, NOW);
    expect(judged).toEqual({ kind: 'valid', id: 'msg_1' });
    expect(revealed.map(({ mock }) => mock.calls.length)).toEqual([1, 1, 1]);
  });
});

describe('the file of secrets', () => {
  it.each([
    ['is not there yet', Object.assign(new Error('gone'), { code: 'ENOENT' })],
    ['is empty', ''],
    ['has blank lines only', '\n \r\n'],
  ])('receives nothing where the file of secrets %s', async (_, text) => {
    const under = await pushed();
    under.receiver.setFile(text);
    under.feed.webhooks.ping(under.webhookId);
    expect(await answers(under)).toEqual([404]);
    under.receiver.setFile(under.secret);
    under.feed.webhooks.ping(under.webhookId);
    expect(await answers(under)).toEqual([404, 204]);
  });

  it.each([
    ['cannot be read', Object.assign(new Error('no'), { code: 'EACCES' }), 'cannot be read: EACCES'],
    ['has a line that is none', 'whsec_QUJD\ncanary-secret', 'Line 2 of the webhook secrets'],
    ['has no base64', 'whsec_canary-secret!', 'Line 1 of the webhook secrets'],
    ['has an empty secret', 'whsec_', 'Line 1 of the webhook secrets'],
    ['is another file', 'whsec_QUJD\n'.repeat(10_000), 'is too large'],
    ['has too many', 'whsec_QUJD\n'.repeat(17), 'more than 16'],
  ])('logs once, without showing a line, that the file of secrets %s', async (_, text, problem) => {
    const under = await pushed();
    under.receiver.setFile(text);
    under.feed.webhooks.ping(under.webhookId);
    under.feed.webhooks.ping(under.webhookId);
    expect(await answers(under)).toEqual([500, 500]);
    expect(under.receiver.woken()).toBe(0);
    expect(under.logged).toEqual([expect.stringContaining(problem)]);
    expect(under.logged.join()).not.toContain('canary');
  });
});
