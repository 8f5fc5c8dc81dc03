/** Every answer to an operator's call that is no success: the class of its error, and the number of requests. */

import nock from 'nock';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import type { Operator } from '../../src/feed/operator.ts';
import { Secret } from '../../src/lib/secret.ts';
import {
  CommandRefusedError,
  ContractViolationError,
  InterruptedError,
  ServiceUnavailableError,
} from '../../src/model/errors.ts';
import { CANARY_KEY, errorOf } from '../support/feed-client.ts';
import { type TestOperator, testOperator } from '../support/operator-client.ts';
import { secretsInText } from '../support/secret-search.ts';

const BASE = 'https://feed.example';
const HEADER_VALUE = 'header-value-that-must-stay-secret';
const SIGNING = `whsec_${Buffer.from('a secret that signs deliveries').toString('base64')}`;
const NEW_WEBHOOK = {
  url: 'https://receiver.example/webhook',
  header: { name: 'X-Receiver', value: new Secret(HEADER_VALUE) },
};
const signal = new AbortController().signal;

let tested: TestOperator;

beforeAll(() => nock.disableNetConnect());
afterEach(async () => {
  nock.cleanAll();
  await tested.operator.close();
  expect(secretsInText(CANARY_KEY, tested.logged.join())).toEqual([]);
  expect(secretsInText(HEADER_VALUE, tested.logged.join())).toEqual([]);
});
afterAll(() => {
  nock.restore();
});

function start(): Operator {
  tested = testOperator(BASE);
  return tested.operator;
}

interface Call {
  readonly name: string;
  readonly method: 'GET' | 'POST' | 'DELETE';
  readonly path: string;
  readonly title: string;
  readonly run: (operator: Operator) => Promise<unknown>;
}

const REPEATED: readonly Call[] = [
  {
    name: 'coverage',
    method: 'GET',
    path: '/v1/coverage',
    title: 'list what the workspace covers',
    run: (operator) => operator.coverage(signal),
  },
  {
    name: 'watches',
    method: 'GET',
    path: '/v1/dataset-watches',
    title: 'list the watches',
    run: (operator) => operator.watches(signal),
  },
  {
    name: 'watch',
    method: 'POST',
    path: '/v1/datasets/a%2Fb/watch',
    title: 'watch dataset a/b',
    run: (operator) => operator.watch('a/b', signal),
  },
  {
    name: 'unwatch',
    method: 'DELETE',
    path: '/v1/datasets/a%2Fb/watch',
    title: 'unwatch dataset a/b',
    run: (operator) => operator.unwatch('a/b', signal),
  },
  {
    name: 'webhook test',
    method: 'POST',
    path: '/v1/webhooks/wh_1/test',
    title: 'test webhook wh_1',
    run: (operator) => operator.testWebhook('wh_1', signal),
  },
];

const ADD: Call = {
  name: 'webhook add',
  method: 'POST',
  path: '/v1/webhooks',
  title: 'add a webhook',
  run: (operator) => operator.addWebhook(NEW_WEBHOOK, signal),
};

const REFUSAL = {
  error: { code: 'not_found', message: 'Nothing.', links: { help: 'https://app.example/' } },
};

const VERBS = { GET: 'get', POST: 'post', DELETE: 'delete' } as const;

type Reply = readonly [status: number, body: nock.Body, headers?: Record<string, string>];

/** Gives the answers one after another, the last of them for ever, and counts. */
function answers({ method, path }: Call, ...replies: readonly Reply[]): { asked: number; bodies: string[] } {
  const seen = { asked: 0, bodies: [] as string[] };
  nock(BASE)
    .persist()
    [VERBS[method]](path)
    .query(true)
    .reply(async (request: Request) => {
      seen.bodies.push(await request.text());
      const [status, reply, headers = {}] = replies[Math.min(seen.asked, replies.length - 1)] ?? [500, ''];
      seen.asked += 1;
      return [status, reply, headers];
    });
  return seen;
}

describe.each([...REPEATED, ADD])('R7 a refusal of $name', (call) => {
  it.each([
    [401, 'unauthorized'],
    [403, 'insufficient_scope'],
    [403, 'outside_coverage'],
    [404, 'not_found'],
    [400, 'invalid_request'],
    [410, 'gone'],
  ])('passes %i %s on as a refusal of the command, after one request', async (status, code) => {
    const seen = answers(call, [status, { error: { ...REFUSAL.error, code } }]);
    const error = await errorOf(call.run(start()));
    expect(error).toBeInstanceOf(CommandRefusedError);
    expect(error).toMatchObject({
      code: expect.stringMatching(/^(command|input)_refused$/),
      refusal: { operation: call.title, status, code, message: 'Nothing.' },
    });
    expect((error as CommandRefusedError).refusal.links).toEqual(new Map([['help', 'https://app.example/']]));
    expect(seen.asked).toBe(1);
  });
});

describe.each(REPEATED)('a passing failure of $name', (call) => {
  it.each([[408], [429], [500], [503]])('retries after %i', async (status) => {
    const seen = answers(call, [status, '']);
    expect(await errorOf(call.run(start()))).toBeInstanceOf(ServiceUnavailableError);
    expect(seen.asked).toBe(3);
  });
});

describe('unwatch', () => {
  const unwatch = REPEATED[3] as Call;

  it('unwatches a dataset whose first answer was lost and whose repetition finds no watch', async () => {
    const seen = answers(unwatch, [502, ''], [404, REFUSAL]);
    await unwatch.run(start());
    expect(seen.asked).toBe(2);
  });

  it('passes on a refusal of the repetition for another reason', async () => {
    answers(unwatch, [502, ''], [403, { error: { ...REFUSAL.error, code: 'outside_coverage' } }]);
    expect(await errorOf(unwatch.run(start()))).toBeInstanceOf(CommandRefusedError);
  });
});

describe('adding a webhook', () => {
  it('adds a webhook once, and shows its secret nowhere', async () => {
    const seen = answers(ADD, [201, { id: 'wh_1', url: NEW_WEBHOOK.url, secret: SIGNING, more: 1 }]);
    const added = await start().addWebhook(NEW_WEBHOOK, signal);
    expect({ ...added, secret: added.secret.reveal() }).toEqual({
      id: 'wh_1',
      url: NEW_WEBHOOK.url,
      secret: SIGNING,
    });
    expect(seen.bodies.map((text) => JSON.parse(text))).toEqual([
      { url: NEW_WEBHOOK.url, header: { name: 'X-Receiver', value: HEADER_VALUE } },
    ]);
    expect(JSON.stringify(added)).not.toContain(SIGNING);
    expect(tested.logged.join()).not.toContain(SIGNING);
  });

  it.each<[string, Reply]>([
    ['a server that failed', [500, '']],
    ['a gateway that waited too long', [504, '']],
    ['an answer that is cut', [201, '{"id": "wh_1", "secr']],
    ['an answer without a secret', [201, { id: 'wh_1' }]],
    ['an answer with a secret of another form', [201, { id: 'wh_1', secret: 'hunter2hunter2' }]],
    ['an empty secret', [201, { id: 'wh_1', secret: 'whsec_' }]],
    ['an answer that says nothing', [204, '']],
  ])('adds no webhook twice after %s, and warns that it may be there', async (_, reply) => {
    const seen = answers(ADD, reply);
    const error = await errorOf(ADD.run(start()));
    expect(error).toBeInstanceOf(ServiceUnavailableError);
    expect(error.hint).toContain('It is not known whether the service has added the webhook');
    expect(error.message).not.toContain('hunter2');
    expect(seen.asked).toBe(1);
  });

  it('warns that the webhook may be there when adding it is interrupted', async () => {
    const stop = new AbortController();
    nock(BASE)
      .post(ADD.path)
      .reply(() => {
        stop.abort(new InterruptedError('Interrupted by SIGINT.'));
        return [201, {}];
      });
    const error = await errorOf(start().addWebhook(NEW_WEBHOOK, stop.signal));
    expect(error).toBeInstanceOf(InterruptedError);
    expect(error.hint).toContain('It is not known whether');
  });

  it.each([[429], [408], [403]])(
    'adds the webhook again after %i without the Error shape, which added none',
    async (status) => {
      const made: Reply = [201, { id: 'wh_1', secret: SIGNING }];
      const seen = answers(ADD, [status, ''], made);
      expect(await start().addWebhook(NEW_WEBHOOK, signal)).toMatchObject({
        id: 'wh_1',
        url: NEW_WEBHOOK.url,
      });
      expect(seen.asked).toBe(2);
    },
  );

  it('adds the webhook again where nothing listens, which added none', async () => {
    const refused = Object.assign(new Error('connect ECONNREFUSED'), { code: 'ECONNREFUSED' });
    nock(BASE).post(ADD.path).times(2).replyWithError(refused);
    nock(BASE).post(ADD.path).reply(201, { id: 'wh_1', secret: SIGNING });
    expect(await start().addWebhook(NEW_WEBHOOK, signal)).toMatchObject({ id: 'wh_1' });
  });

  it('warns that the webhook may be there where the connection breaks off', async () => {
    const reset = Object.assign(new Error('read ECONNRESET'), { code: 'ECONNRESET' });
    nock(BASE).post(ADD.path).replyWithError(reset);
    expect((await errorOf(ADD.run(start()))).hint).toContain('It is not known whether');
  });

  it('removes the header and the key from a refusal of the webhook', async () => {
    const message = `"${HEADER_VALUE}" with ${CANARY_KEY} is not welcome`;
    answers(ADD, [400, { error: { code: 'invalid_request', message } }]);
    const error = await errorOf(ADD.run(start()));
    expect((error as CommandRefusedError).refusal.message).toBe('"[secret]" with [secret] is not welcome');
  });
});

describe('decoding the answers', () => {
  const [coverage, watches] = REPEATED as [Call, Call];

  it('needs ids of counties, and keeps unknown fields', async () => {
    const counties = [
      { id: 'us-tx-travis', name: 'Travis', state: 'TX', since: '2026', nested: { a: [1] } },
      { id: 'us-tx-bastrop', name: 7 },
    ];
    answers(coverage, [200, { counties }]);
    expect(await start().coverage(signal)).toEqual([
      {
        id: 'us-tx-travis',
        name: 'Travis',
        state: 'TX',
        further: new Map<string, unknown>([
          ['since', '2026'],
          ['nested', { a: [1] }],
        ]),
      },
      { id: 'us-tx-bastrop', name: null, state: null, further: new Map() },
    ]);
  });

  it.each<[Call, unknown, string]>([
    [coverage, {}, 'counties'],
    [coverage, { counties: [{ name: 'x' }] }, 'counties[0].id'],
    [coverage, { counties: [3] }, 'counties[0]'],
    [watches, { watches: null }, 'watches'],
    [watches, { watches: [{ createdAt: '2026-01-01T00:00:00Z' }] }, 'watches[0].datasetId'],
  ])('R10 names the field of an answer about $name that does not fit: %j', async (call, body, path) => {
    const seen = answers(call, [200, body as nock.Body]);
    const error = await errorOf(call.run(start()));
    expect(error).toBeInstanceOf(ContractViolationError);
    expect(error).toMatchObject({ path });
    expect(seen.asked).toBe(2);
  });

  it('R6 reads the list of watches again from its start after a refused page cursor, twice', async () => {
    const moved = { error: { code: 'invalid_cursor', message: 'Moved.' } };
    const first = { watches: [{ datasetId: 'a', createdAt: 'yesterday' }], nextCursor: 'x' };
    nock(BASE).persist().get(watches.path).query({ limit: 200 }).reply(200, first);
    nock(BASE).get(watches.path).query({ limit: 200, cursor: 'x' }).reply(400, moved);
    nock(BASE)
      .get(watches.path)
      .query({ limit: 200, cursor: 'x' })
      .reply(200, { watches: [{ datasetId: 'b', createdAt: '2026-01-01T00:00:00Z' }], nextCursor: null });
    expect(await start().watches(signal)).toEqual([
      { datasetId: 'a', createdAt: null },
      { datasetId: 'b', createdAt: new Date('2026-01-01T00:00:00Z') },
    ]);
  });
});
