/** Every answer that is no success, by operation: the class of its error, the scope of the refusal, and the number of requests. */

import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import nock from 'nock';
import { describe, expect, it } from 'vitest';
import type { Feed } from '../../src/feed/feed.ts';
import {
  ContractViolationError,
  CursorExpiredError,
  RefusalError,
  type RefusalScope,
  ServiceUnavailableError,
} from '../../src/model/errors.ts';
import { CANARY_KEY, errorOf, instantClock } from '../support/feed-client.ts';
import { BASE, interceptedFeed } from '../support/intercepted-feed.ts';
import { pagesIn } from '../support/pages-in.ts';

const ATTEMPTS = 3;
const signal = new AbortController().signal;

const { start, started } = interceptedFeed();

interface Case {
  readonly path: string;
  readonly title: string;
  readonly scope: RefusalScope;
  readonly needsFeedsScope: boolean;
  readonly run: (feed: Feed) => Promise<unknown>;
}

const workspace: RefusalScope = { kind: 'workspace' };
const subscription: RefusalScope = { kind: 'subscription', subscriptionId: 'sub_1' };
const dataset: RefusalScope = { kind: 'dataset', datasetId: 'parcels' };

const OPERATIONS: readonly Case[] = [
  {
    path: '/v1/subscriptions',
    title: 'list subscriptions',
    scope: workspace,
    needsFeedsScope: true,
    run: (feed) => feed.subscriptions(signal),
  },
  {
    path: '/v1/subscriptions/sub_1/events',
    title: 'read events of subscription sub_1',
    scope: subscription,
    needsFeedsScope: true,
    run: (feed) => feed.events('sub_1', null, signal),
  },
  {
    path: '/v1/datasets/parcels/versions',
    title: 'list versions of dataset parcels',
    scope: dataset,
    needsFeedsScope: true,
    run: (feed) => feed.versions('parcels', null, signal),
  },
  {
    path: '/v1/datasets/parcels/schemas',
    title: 'list schemas of dataset parcels',
    scope: dataset,
    needsFeedsScope: true,
    run: (feed) => feed.schemas('parcels', signal),
  },
  {
    path: '/v1/datasets/parcels/changes',
    title: 'list changes of dataset parcels',
    scope: dataset,
    needsFeedsScope: false,
    run: (feed) =>
      feed.changes(
        { datasetId: 'parcels', version: 2, pathOf: pagesIn('/nowhere'), onBytes: () => {} },
        signal,
      ),
  },
  {
    path: '/v1/subscriptions/sub_1/manifest',
    title: 'read the manifest of subscription sub_1',
    scope: subscription,
    needsFeedsScope: false,
    run: (feed) => feed.manifest('sub_1', signal),
  },
  {
    path: '/v1/datasets/parcels/manifest',
    title: 'read the manifest of dataset parcels',
    scope: dataset,
    needsFeedsScope: false,
    run: (feed) => feed.manifestEntry('parcels', signal),
  },
];

/** The manifest per dataset is configured, so that its path is no guess; the other has to be named for the same reason. */
function startFor({ path }: Case): Feed {
  const ofDataset = path === '/v1/datasets/parcels/manifest';
  const manifestPath = ofDataset
    ? '/v1/datasets/{datasetId}/manifest'
    : '/v1/subscriptions/{subscriptionId}/manifest';
  const contract = { manifestPath, newerThanParameter: 'since' };
  return start({ contract, isKnownOrigin: async () => true });
}

function answers(path: string, status: number, body: nock.Body, headers: Record<string, string> = {}) {
  let asked = 0;
  nock(BASE)
    .persist()
    .get(path)
    .query(true)
    .reply(() => {
      asked += 1;
      return [status, body, headers];
    });
  return { asked: () => asked };
}

function errorBody(code: string, message = 'Do something about it.', links: object = {}) {
  return JSON.stringify({ error: { code, message, links } });
}

async function refusalOf(work: Promise<unknown>) {
  const error = await errorOf(work);
  if (error instanceof RefusalError) return error.refusal;
  throw error;
}

describe.each(OPERATIONS)('$title', (operation) => {
  const { path, title, scope, run } = operation;

  it.each([500, 501, 502, 503, 504, 599, 408, 425, 429])(
    'R1 retries a %i, then reports the service as unavailable',
    async (status) => {
      const server = answers(path, status, errorBody('busy'));
      const error = await errorOf(run(startFor(operation)));
      expect(error).toBeInstanceOf(ServiceUnavailableError);
      expect(error.message).toBe(
        `Could not ${title}: the service answered ${status} after 3 attempts in 1.5 s.`,
      );
      expect(server.asked()).toBe(ATTEMPTS);
      expect(started().clock.sleptMs).toEqual([500, 1_000]);
    },
  );

  it('R1 retries a 4xx without the Error shape, then reports the service as unavailable', async () => {
    const server = answers(path, 418, '<html>teapot</html>');
    const error = await errorOf(run(startFor(operation)));
    expect(error).toBeInstanceOf(ServiceUnavailableError);
    expect(error.message).not.toContain('teapot');
    expect(server.asked()).toBe(ATTEMPTS);
  });

  it('R1 retries a refused connection, then reports the service as unavailable', async () => {
    nock(BASE)
      .persist()
      .get(path)
      .query(true)
      .replyWithError(Object.assign(new Error('connect ECONNREFUSED'), { code: 'ECONNREFUSED' }));
    const error = await errorOf(run(startFor(operation)));
    expect(error).toBeInstanceOf(ServiceUnavailableError);
    expect(error.message).toBe(
      `Could not ${title}: connection refused at feed.example:443 after 3 attempts in 1.5 s.`,
    );
    expect(error.hint).toMatch(/proxy/);
    expect(error.cause).toMatchObject({ code: 'ECONNREFUSED' });
  });

  it.each(['<html>welcome</html>', '{"cut":', ''])(
    'R1 F19 retries a 200 with %j, and does not repeat the body in the error',
    async (body) => {
      const server = answers(path, 200, body);
      const error = await errorOf(run(startFor(operation)));
      expect(error).toBeInstanceOf(ServiceUnavailableError);
      expect(error.message).toBe(`Could not ${title}: the answer is not JSON after 3 attempts in 1.5 s.`);
      expect(server.asked()).toBe(ATTEMPTS);
    },
  );

  it('F19 reads a body of another shape once more, then reports a violation of the interface', async () => {
    const server = answers(path, 200, '{"secretField":"secret content"}');
    const error = await errorOf(run(startFor(operation)));
    expect(error).toBeInstanceOf(ContractViolationError);
    expect(error.message).toContain(`Could not ${title}`);
    expect(error.message).not.toContain('secret content');
    expect(server.asked()).toBe(2);
  });

  it('R3 relays a 401 in the Error shape as a refusal of the workspace, after one request', async () => {
    const server = answers(
      path,
      401,
      errorBody('revoked', 'Make a new key.', { keys: 'https://app.example/keys' }),
    );
    expect(await refusalOf(run(startFor(operation)))).toEqual({
      scope: workspace,
      operation: title,
      status: 401,
      code: 'revoked',
      message: 'Make a new key.',
      links: new Map([['keys', 'https://app.example/keys']]),
    });
    expect(server.asked()).toBe(1);
  });

  it('R1 R3 takes a 401 of any other shape for a refusal of the workspace', async () => {
    answers(path, 401, 'nope');
    expect(await refusalOf(run(startFor(operation)))).toMatchObject({
      scope: workspace,
      code: null,
      message: 'The API key is wrong, revoked or expired.',
    });
  });

  it.each([
    [403, 'outside_coverage'],
    [403, 'not_distributable'],
    [409, 'something_new'],
    [400, 'invalid_request'],
  ])('takes a %i %s for a refusal of its subject alone', async (status, code) => {
    const server = answers(path, status, errorBody(code));
    expect(await refusalOf(run(startFor(operation)))).toMatchObject({ scope, status, code });
    expect(server.asked()).toBe(1);
  });

  it('ends a request when its signal is aborted', async () => {
    answers(path, 500, '');
    const stop = new AbortController();
    stop.abort(new Error('stop'));
    const feed = startFor(operation);
    const aborted = new Proxy(feed, {
      get: (target, name) => {
        const method = Reflect.get(target, name);
        return (...given: unknown[]) => Reflect.apply(method, target, [...given.slice(0, -1), stop.signal]);
      },
    });
    expect((await errorOf(run(aborted))).name).toBe('InterruptedError');
  });
});

describe('the errors of single operations', () => {
  it.each(OPERATIONS.filter(({ needsFeedsScope }) => needsFeedsScope))(
    'R3 takes insufficient_scope to $title for a refusal of the workspace',
    async (operation) => {
      const server = answers(operation.path, 403, errorBody('insufficient_scope'));
      expect(await refusalOf(operation.run(startFor(operation)))).toMatchObject({
        scope: workspace,
        status: 403,
      });
      expect(server.asked()).toBe(1);
    },
  );

  it.each(OPERATIONS.filter(({ path }) => !path.endsWith('/changes')))(
    'takes not_found to $title for a refusal of its subject alone',
    async (operation) => {
      answers(operation.path, 404, errorBody('not_found'));
      const { scope } = operation;
      expect(await refusalOf(operation.run(startFor(operation)))).toMatchObject({ scope, status: 404 });
    },
  );

  it.each([
    ['in the Error shape', errorBody('not_found', 'No such page.'), 'No such page.'],
    ['of a web page', '<h1>Not Found</h1>', 'The service answered 404.'],
    ['without a body', '', 'The service answered 404.'],
  ])('takes a 404 %s for a wrong address, where no list of subscriptions ever came', async (...row) => {
    const [, body, message] = row;
    const server = answers('/v1/subscriptions', 404, body);
    const error = await errorOf(start().subscriptions(signal));
    expect(error.name).toBe('ConfigurationError');
    expect(error.message).toBe(
      `There is no list of subscriptions at ${BASE}: check service.baseUrl. The answer was 404: ${message}`,
    );
    expect(server.asked()).toBe(1);
  });

  it('judges a 404 on the list of subscriptions by its shape, once the list has come', async () => {
    nock(BASE).get('/v1/subscriptions').query(true).reply(200, { subscriptions: [], nextCursor: null });
    const feed = start();
    await feed.subscriptions(signal);
    nock(BASE).get('/v1/subscriptions').query(true).reply(404, errorBody('not_found'));
    expect(await refusalOf(feed.subscriptions(signal))).toMatchObject({ scope: workspace, status: 404 });
    const server = answers('/v1/subscriptions', 404, '<h1>Not Found</h1>');
    expect((await errorOf(feed.subscriptions(signal))).name).toBe('ServiceUnavailableError');
    expect(server.asked()).toBe(3);
  });

  it('retries a 404 without the Error shape at a known origin', async () => {
    const server = answers('/v1/subscriptions', 404, '<h1>Not Found</h1>');
    const error = await errorOf(start({ isKnownOrigin: async () => true }).subscriptions(signal));
    expect(error.name).toBe('ServiceUnavailableError');
    expect(server.asked()).toBe(1 + 3);
  });

  it.each([
    [410, 'gone'],
    [410, 'cursor_expired'],
    [400, 'cursor_expired'],
  ])('R8 takes a %i %s on the log for an expired cursor', async (status, code) => {
    const server = answers('/v1/subscriptions/sub_1/events', status, errorBody(code));
    expect(await errorOf(start().events('sub_1', null, signal))).toBeInstanceOf(CursorExpiredError);
    expect(server.asked()).toBe(1);
  });

  it('takes insufficient_scope for a manifest for a refusal of its subscription', async () => {
    answers('/v1/subscriptions/sub_1/manifest', 403, errorBody('insufficient_scope'));
    expect(await refusalOf(start().manifest('sub_1', signal))).toMatchObject({ scope: subscription });
  });

  it.each([
    ['recorded: false', 200, '{"recorded":false,"changes":[],"nextCursor":null}'],
    ['changes_not_recorded', 409, errorBody('changes_not_recorded')],
    ['404', 404, errorBody('not_found')],
    ['404 without the Error shape', 404, 'nothing here'],
    ['410', 410, errorBody('gone')],
    ['insufficient_scope', 403, errorBody('insufficient_scope')],
  ])('C2 F30 takes changes for not recorded after %s', async (_name, status, body) => {
    const server = answers('/v1/datasets/parcels/changes', status, body);
    const directory = await mkdtemp(join(tmpdir(), 'feed-changes-'));
    const request = { datasetId: 'parcels', version: 2, pathOf: pagesIn(directory), onBytes: () => {} };
    const changes = await start().changes(request, signal);
    await rm(directory, { recursive: true });
    expect(changes).toMatchObject({ recorded: false, why: expect.stringMatching(/\w/) });
    expect(server.asked()).toBe(1);
  });

  it('F20 follows no redirect', async () => {
    nock(BASE)
      .persist()
      .get('/v1/subscriptions')
      .query(true)
      .reply(302, '', { location: 'https://other.example/' });
    const other = nock('https://other.example').get('/').reply(200, '{"subscriptions":[]}');
    const error = await errorOf(start().subscriptions(signal));
    expect(error.message).toContain('answered 302, a redirect');
    expect(error.hint).toContain('service.baseUrl');
    expect(other.isDone()).toBe(false);
  });

  it('removes the key and control characters from a refusal', async () => {
    const message = `Bearer ${CANARY_KEY} is\u001b[2J bad\u202e`;
    answers(
      '/v1/subscriptions',
      403,
      errorBody('no', message, { a: `https://x.example/${CANARY_KEY}`, b: 'file:///etc' }),
    );
    const refusal = await refusalOf(start().subscriptions(signal));
    expect(refusal.message).toBe('Bearer [secret] is [2J bad');
    expect(refusal.links).toEqual(new Map([['a', 'https://x.example/[secret]']]));
    expect(started().logged.join('\n')).not.toContain(CANARY_KEY);
  });

  it('logs every exchange in one line, without query and key', async () => {
    answers('/v1/subscriptions/sub_1/events', 200, '{"events":[],"hasMore":false}');
    await start().events('sub_1', { text: 'evt_7', number: 7n }, signal);
    expect(started().logged.map((line) => JSON.parse(line))).toEqual([
      {
        operation: 'read events',
        place: 'https://feed.example/v1/subscriptions/sub_1/events',
        status: 200,
        durationMs: 0,
        message: 'Asked the service.',
      },
    ]);
  });
});

it('R1 F14 draws random waits below a bound that grows up to a limit', async () => {
  answers('/v1/subscriptions', 503, '');
  const drawn = [1, 0.5, 0.25, 0.25, 0.5];
  const random = { next: () => drawn.shift() ?? 0 };
  const retry = { maxAttempts: 6, baseDelayMs: 500, maxDelayMs: 4_000 };
  await errorOf(start({ random, retry }).subscriptions(signal));
  expect(started().clock.sleptMs).toEqual([500, 500, 500, 1_000, 2_000]);
});

describe('F15 Retry-After', () => {
  it.each([
    ['seconds', '7', 7_000],
    ['a date', 'Thu, 01 Jan 2026 00:01:00 GMT', 60_000],
    ['less than the own backoff', '0', 500],
    ['a date that has passed', 'Wed, 31 Dec 2025 00:00:00 GMT', 500],
    ['nonsense', '5 apples', 500],
    ['more than the cap', '86400', 900_000],
  ])('R1 waits as Retry-After says, within its bounds: %s', async (_name, header, waitMs) => {
    nock(BASE).get('/v1/subscriptions').query(true).reply(503, '', { 'retry-after': header });
    nock(BASE).get('/v1/subscriptions').query(true).reply(200, '{"subscriptions":[],"nextCursor":null}');
    const { subscriptions } = await start({ clock: instantClock() }).subscriptions(signal);
    expect(subscriptions).toEqual([]);
    expect(started().clock.sleptMs).toEqual([waitMs]);
  });

  it('R1 bounds all waits of a request together, and passes on the remaining Retry-After', async () => {
    const server = answers('/v1/subscriptions', 429, '', { 'retry-after': '600' });
    const error = await errorOf(
      start({ retry: { maxAttempts: 9, baseDelayMs: 500, maxDelayMs: 30_000 } }).subscriptions(signal),
    );
    expect(error).toMatchObject({ name: 'ServiceUnavailableError', retryAfterMs: 600_000 });
    expect(started().clock.sleptMs).toEqual([600_000, 300_000]);
    expect(server.asked()).toBe(3);
  });

  it('R2 limits the time for all attempts without Retry-After', async () => {
    const server = answers('/v1/subscriptions', 500, '');
    const retry = { maxAttempts: 100, baseDelayMs: 10_000, maxDelayMs: 10_000 };
    const error = await errorOf(
      start({ retry, limits: { operationDeadlineMs: 35_000 } }).subscriptions(signal),
    );
    expect(error.message).toContain('after 4 attempts in 30.0 s');
    expect(server.asked()).toBe(4);
  });
});
