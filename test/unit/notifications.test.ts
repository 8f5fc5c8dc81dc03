/** Sending notifications: their two forms, no key in them, and that an undelivered notification stays due. */

import { inspect } from 'node:util';
import { describe, expect, it } from 'vitest';
import { silentLog } from '../../src/lib/log.ts';
import { Secret } from '../../src/lib/secret.ts';
import { NotificationError } from '../../src/model/errors.ts';
import type { Condition, Notification } from '../../src/model/notification.ts';
import { deliverTo, type NotificationFormat, Notifications } from '../../src/post-commit/notifications.ts';
import { schemaDifference } from '../../src/sync/occurrences.ts';
import { NOON, openAt, temporaryPath } from '../support/checkpoint-files.ts';
import { ownServer } from '../support/own-server.ts';
import { SteppedClock } from '../support/stepped-clock.ts';
import { webhookReceiver } from '../support/webhook-receiver.ts';

const SOURCE = { host: 'warehouse', dataDirectory: '/var/lib/feed-sync' };
const NO_PROXY = { httpProxy: null, httpsProxy: null, noProxy: null };
const KEY = new Secret('fk_test_0123456789abcdef');
const NOTIFICATION: Notification = {
  kind: 'suspended',
  cause: 'no_credits',
  title: 'Suspended: dataset a and 1 more (no_credits)',
  items: [
    { subject: 'dataset a', text: 'Buy <!channel> & more credits.\u0007' },
    { subject: 'dataset b', text: `Your key ${KEY.reveal()} has none.` },
  ],
  count: 12,
  advice: 'Once you have acted on it: feed-sync resume --dataset a',
};
const UNTIL_TESTED = new AbortController().signal;

function delivering(url: string, format: NotificationFormat = 'json') {
  return deliverTo({ url: new Secret(url), format }, SOURCE, { proxy: NO_PROXY, secrets: [KEY] });
}

describe('a notification', () => {
  it('sends JSON with kind, cause, subjects and advice, without key and control characters', async () => {
    const receiver = await webhookReceiver();
    await delivering(receiver.url)(NOTIFICATION, NOON, UNTIL_TESTED);
    const [{ headers, body }] = receiver.received as [(typeof receiver.received)[number]];
    expect(headers['content-type']).toBe('application/json; charset=utf-8');
    expect(JSON.parse(body)).toEqual({
      ...NOTIFICATION,
      items: [
        { subject: 'dataset a', text: 'Buy <!channel> & more credits.' },
        { subject: 'dataset b', text: 'Your key [secret] has none.' },
      ],
      at: NOON.toISOString(),
      source: SOURCE,
    });
  });

  it('sends a text without mentions to Slack', async () => {
    const receiver = await webhookReceiver();
    await delivering(receiver.url, 'slack')(NOTIFICATION, NOON, UNTIL_TESTED);
    expect(JSON.parse(receiver.received[0]?.body ?? '')).toEqual({
      text: [
        '*Suspended: dataset a and 1 more (no_credits)*',
        '• dataset a: Buy &lt;!channel&gt; &amp; more credits.',
        '• dataset b: Your key [secret] has none.',
        '• and 10 more',
        'Once you have acted on it: feed-sync resume --dataset a',
        'feed-sync on warehouse, /var/lib/feed-sync',
      ].join('\n'),
    });
  });
});

it('judges an answer by its status where its body stalls or breaks off', async () => {
  const statuses = new Map([
    ['/stalls', 200],
    ['/breaks', 201],
    ['/refuses', 500],
  ]);
  const server = await ownServer(({ url = '' }, response) => {
    response.writeHead(statuses.get(url) ?? 404, { 'content-length': '100' });
    response.write('{"ok":');
    if (url === '/breaks') response.socket?.destroySoon();
  });
  await delivering(`${server.url}/stalls`)(NOTIFICATION, NOON, UNTIL_TESTED);
  await delivering(`${server.url}/breaks`)(NOTIFICATION, NOON, UNTIL_TESTED);
  await expect(delivering(`${server.url}/refuses`)(NOTIFICATION, NOON, UNTIL_TESTED)).rejects.toThrow(
    'it answered with the status 500',
  );
});

describe('a receiver that refuses or cannot be reached', () => {
  it('names the failure of a receiver, and no part of its address', async () => {
    const away = await ownServer((_, response) => {
      response.writeHead(302, { Location: '/services/T0/elsewhere' }).end();
    });
    const addresses = [
      `${away.url}/services/T0/B0/secretpath`,
      'http://127.0.0.1:1/services/T0/B0/secretpath',
      'http://secrethost.invalid/services/T0/B0/secretpath',
    ];
    for (const url of addresses) {
      const error: unknown = await delivering(url)(NOTIFICATION, NOON, UNTIL_TESTED).catch(
        (thrown) => thrown,
      );
      expect(error).toBeInstanceOf(NotificationError);
      expect(inspect(error, { depth: 9 })).not.toMatch(/secretpath|secrethost|T0/);
    }
    expect(
      away.seen.map(({ path }) => path),
      'no redirect is followed',
    ).toEqual(['/services/T0/B0/secretpath']);
  });

  it('distinguishes a moved receiver from one that refuses', async () => {
    const moved = await ownServer((_, response) => {
      response.writeHead(308, { Location: '/services/T0/elsewhere' }).end();
    });
    await expect(delivering(moved.url)(NOTIFICATION, NOON, UNTIL_TESTED)).rejects.toThrow(
      'the status 308, a redirect, which is not followed: set the address that it leads to.',
    );
  });

  it('delivers lasting conditions once the receiver answers again, and none twice', async () => {
    const receiver = await webhookReceiver();
    const clock = new SteppedClock();
    const checkpoint = await openAt(temporaryPath('checkpoint.sqlite'));
    const deliver = delivering(receiver.url);
    const restarted = () =>
      new Notifications({ deliver, checkpoint, clock, log: silentLog, signal: UNTIL_TESTED });
    const lasting: Condition = {
      kind: 'suspended',
      cause: 'no_credits',
      key: 'dataset a',
      subject: 'dataset a',
      text: 'words',
      advice: 'act',
      isLoud: true,
    };
    const notifications = restarted();
    notifications.note([{ kind: 'large_change', subject: 'dataset b', text: 'version 2 removed all' }]);
    receiver.status = 503;
    await expect(notifications.notify([lasting], true)).rejects.toThrow('it answered with the status 503');
    receiver.status = 200;
    expect(await restarted().notify([lasting], true)).toBe(2);
    expect(await restarted().notify([lasting], true)).toBe(0);
    const titles = receiver.received.slice(1).map(({ body }) => JSON.parse(body).title);
    expect(titles).toEqual(['Large change: dataset b', 'Suspended: dataset a (no_credits)']);
    checkpoint.close();
  });
});

it('keeps occurrences that are noted while a receiver fails or answers, across restarts', async () => {
  const checkpoint = await openAt(temporaryPath('checkpoint.sqlite'));
  const noted = (subject: string) => [{ kind: 'large_change', subject, text: 'removed all' } as const];
  let answer = Promise.withResolvers<void>();
  const deliver = () => answer.promise;
  const parts = { deliver, checkpoint, clock: new SteppedClock(), log: silentLog, signal: UNTIL_TESTED };
  const notifications = new Notifications(parts);
  const counted = () => checkpoint.notificationLedger().pending['large_change']?.count;
  notifications.note(noted('dataset a'));
  const failing = notifications.notify([], true);
  notifications.note(noted('dataset b'));
  notifications.keep();
  expect(counted(), 'during a delivery').toBe(1);
  answer.reject(new NotificationError('no'));
  await expect(failing).rejects.toThrow('no');
  notifications.keep();
  expect(counted(), 'after it has failed').toBe(2);

  answer = Promise.withResolvers<void>();
  const delivered = notifications.notify([], true);
  notifications.note(noted('dataset c'));
  answer.resolve();
  expect(await delivered).toBe(1);
  expect(counted(), 'after it was delivered').toBe(1);
  checkpoint.close();
});

it('names columns, types and keys in a difference of schemas', () => {
  const column = (name: string, type: 'string' | 'integer', role: 'key' | 'data' = 'data') => {
    return { name, columnName: name, type, role, crs: null } as const;
  };
  const before = [column('id', 'string', 'key'), column('size', 'string'), column('old', 'string')];
  expect(schemaDifference(before, before)).toBeNull();
  const after = [column('id', 'string'), column('size', 'integer'), column('new', 'integer', 'key')];
  expect(schemaDifference(before, after)).toBe(
    'added new (integer); removed old; retyped size (string to integer); changed the key from id to new',
  );
});
