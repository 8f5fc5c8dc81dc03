/** Every answer to an operator's call that is no success: what class of error it becomes, and how often it was asked. */

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
  ])('%i %s is of the command, and is asked once', async (status, code) => {
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

describe.each(REPEATED)('what passes, of $name', (call) => {
  it.each([[408], [429], [500], [503]])('%i is asked again', async (status) => {
    const seen = answers(call, [status, '']);
    expect(await errorOf(call.run(start()))).toBeInstanceOf(ServiceUnavailableError);
    expect(seen.asked).toBe(3);
  });
});

describe('unwatch', () => {
  const unwatch = REPEATED[3] as Call;

  it('that was done, but whose answer never came, is done', async () => {
    const seen = answers(unwatch, [502, ''], [404, REFUSAL]);
    await unwatch.run(start());
    expect(seen.asked).toBe(2);
  });

  it('that is refused by its repetition for another reason is refused', async () => {
    answers(unwatch, [502, ''], [403, { error: { ...REFUSAL.error, code: 'outside_coverage' } }]);
    expect(await errorOf(unwatch.run(start()))).toBeInstanceOf(CommandRefusedError);
  });
});

describe('a webhook is added once', () => {
  it('and its secret shows nowhere', async () => {
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
  ])('also after %s, and the person is told that it may be there', async (_, reply) => {
    const seen = answers(ADD, reply);
    const error = await errorOf(ADD.run(start()));
    expect(error).toBeInstanceOf(ServiceUnavailableError);
    expect(error.hint).toContain('It is not known whether the service has added the webhook');
    expect(error.message).not.toContain('hunter2');
    expect(seen.asked).toBe(1);
  });

  it('also when it is interrupted meanwhile', async () => {
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
    'after %i without the Error shape it surely was not: asked again',
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

  it('where nobody listens it surely was not: asked again', async () => {
    const refused = Object.assign(new Error('connect ECONNREFUSED'), { code: 'ECONNREFUSED' });
    nock(BASE).post(ADD.path).times(2).replyWithError(refused);
    nock(BASE).post(ADD.path).reply(201, { id: 'wh_1', secret: SIGNING });
    expect(await start().addWebhook(NEW_WEBHOOK, signal)).toMatchObject({ id: 'wh_1' });
  });

  it('where a connection breaks off nobody knows', async () => {
    const reset = Object.assign(new Error('read ECONNRESET'), { code: 'ECONNRESET' });
    nock(BASE).post(ADD.path).replyWithError(reset);
    expect((await errorOf(ADD.run(start()))).hint).toContain('It is not known whether');
  });

  it('and a refusal that repeats the header or the key shows neither', async () => {
    const message = `"${HEADER_VALUE}" with ${CANARY_KEY} is not welcome`;
    answers(ADD, [400, { error: { code: 'invalid_request', message } }]);
    const error = await errorOf(ADD.run(start()));
    expect((error as CommandRefusedError).refusal.message).toBe('"[secret]" with [secret] is not welcome');
  });
});

describe('what is answered', () => {
  const [coverage, watches] = REPEATED as [Call, Call];

  it('of coverage needs ids, and keeps fields that nobody knows', async () => {
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
  ])('R10 of $name that does not fit names the field: %j', async (call, body, path) => {
    const seen = answers(call, [200, body as nock.Body]);
    const error = await errorOf(call.run(start()));
    expect(error).toBeInstanceOf(ContractViolationError);
    expect(error).toMatchObject({ path });
    expect(seen.asked).toBe(2);
  });

  it('R6 a page cursor that is refused begins the list anew, twice', async () => {
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
