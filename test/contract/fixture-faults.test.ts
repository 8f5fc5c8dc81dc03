/** The fixture feed misbehaves as scripted, exactly as often as asked for, and records every request. */

import { get } from 'node:http';
import { beforeEach, describe, expect, it } from 'vitest';
import type { FixtureFeed } from '../../fixtures/feed/feed.ts';
import { call, firstFileUrl, send } from '../support/feed-calls.ts';
import { numberedRows, smallContent } from '../support/small-content.ts';
import { publishSmall, startedFeed } from '../support/started-feed.ts';

const VERSIONS = '/v1/datasets/a/versions';

let feed: FixtureFeed;

beforeEach(async () => {
  feed = await startedFeed();
  publishSmall(feed, ['a', 'b'], 50);
});

/** What arrived before the connection ended, and whether it ended as it should. */
interface Received {
  readonly status: number | undefined;
  readonly announced: string | undefined;
  readonly bytes: Buffer;
  readonly complete: boolean;
}

function receive(url: string, headers: Record<string, string> = {}): Promise<Received> {
  return new Promise((resolve, reject) => {
    get(url, { headers, agent: false }, (response) => {
      const chunks: Buffer[] = [];
      response.on('data', (chunk: Buffer) => chunks.push(chunk));
      response.on('error', () => undefined);
      response.on('close', () => {
        const announced = response.headers['content-length'];
        const { statusCode: status, complete } = response;
        resolve({ status, announced, bytes: Buffer.concat(chunks), complete });
      });
    }).on('error', reject);
  });
}

describe('the requests that a fault matches', () => {
  const act = { kind: 'respond', status: 503 } as const;
  const statuses = async (...paths: string[]) => {
    const answers: number[] = [];
    for (const path of paths) answers.push((await call(feed, path)).status);
    return answers;
  };

  it('a fault answers one request, unless more are demanded', async () => {
    feed.faults.add({ match: { operation: 'versions' }, act });
    expect(await statuses(VERSIONS, VERSIONS)).toEqual([503, 200]);
  });

  it('a fault answers requests from the nth, so many times, of one dataset', async () => {
    const fault = feed.faults.add({
      match: { operation: 'versions', datasetId: 'a', nth: 2, times: 2 },
      act,
    });
    const other = '/v1/datasets/b/versions';
    expect(await statuses(VERSIONS, other, VERSIONS, VERSIONS, VERSIONS)).toEqual([200, 200, 503, 503, 200]);
    expect(fault).toMatchObject({ matched: 4, fired: 2 });
  });

  it('a fault answers always, and every operation, until it is removed', async () => {
    const { id } = feed.faults.add({ match: { times: 'always' }, act });
    expect(await statuses(VERSIONS, '/v1/subscriptions', '/v1/nothing')).toEqual([503, 503, 503]);
    expect(feed.faults.remove(id)).toBe(true);
    expect(await statuses(VERSIONS)).toEqual([200]);
  });

  it('a fault answers only later pages', async () => {
    const first = await call(feed, '/v1/subscriptions/sub_1/manifest?limit=1');
    feed.faults.add({ match: { operation: 'manifest', subscriptionId: 'sub_1', page: 'later' }, act });
    const later = `/v1/subscriptions/sub_1/manifest?limit=1&cursor=${first.body.nextCursor}`;
    expect(await statuses('/v1/subscriptions/sub_1/manifest', later, later)).toEqual([200, 503, 200]);
  });

  it('a fault answers the files of one dataset', async () => {
    const manifest = await call(feed, '/v1/subscriptions/sub_1/manifest');
    feed.faults.add({ match: { operation: 'file', datasetId: 'b', times: 'always' }, act });
    const urls = manifest.body.datasets.map(({ files }: { files: { url: string }[] }) => files[0]?.url);
    const answers = await Promise.all(urls.map((url: string) => send(url)));
    expect(answers.map(({ status }) => status)).toEqual([200, 503]);
  });
});

describe('the answers of a fault', () => {
  it('a fault answers with any status, headers and body', async () => {
    const headers = { 'retry-after': '7', 'content-type': 'text/html' };
    feed.faults.add({ match: {}, act: { kind: 'respond', status: 429, headers, body: '<h1>Busy</h1>' } });
    const answer = await call(feed, VERSIONS);
    expect([answer.status, answer.headers.get('retry-after'), answer.text]).toEqual([
      429,
      '7',
      '<h1>Busy</h1>',
    ]);
    const error = { code: 'x', message: 'y', links: {} };
    feed.faults.add({ match: {}, act: { kind: 'respond', status: 409, json: { error } } });
    expect(await call(feed, VERSIONS)).toMatchObject({ status: 409, body: { error } });
  });

  it('a fault streams for as long as a reader listens', async () => {
    let produced = 0;
    async function* endless() {
      for (;;) {
        produced += 1;
        yield Buffer.alloc(65_536, ' ');
      }
    }
    feed.faults.add({ match: {}, act: { kind: 'stream', status: 200, body: endless } });
    const headers = { authorization: `Bearer ${feed.apiKey}` };
    const response = await fetch(feed.baseUrl + VERSIONS, { headers });
    const reader = response.body?.getReader();
    await reader?.read();
    await reader?.cancel();
    expect(produced).toBeGreaterThan(0);
    expect(feed.requests.entries()).toMatchObject([{ operation: 'versions', status: 200 }]);
  });

  it('a fault redirects elsewhere', async () => {
    const url = await firstFileUrl(feed);
    const act = { kind: 'redirect', location: `${feed.baseUrl}/elsewhere` } as const;
    feed.faults.add({ match: { operation: 'file' }, act });
    const answer = await send(url, { redirect: 'manual' });
    expect([answer.status, answer.headers.get('location')]).toEqual([302, `${feed.baseUrl}/elsewhere`]);
  });

  it('a fault changes fields, repeats cursors, and keeps integers exact', async () => {
    feed.faults.add({
      match: { operation: 'events' },
      act: { kind: 'merge', fields: { events: [], hasMore: true } },
    });
    const events = await call(feed, '/v1/subscriptions/sub_1/events');
    expect(events.body).toEqual({ events: [], hasMore: true });

    feed.faults.add({ match: { operation: 'manifest', times: 'always' }, act: { kind: 'repeatCursor' } });
    const first = await call(feed, '/v1/subscriptions/sub_1/manifest?limit=1');
    const second = await call(
      feed,
      `/v1/subscriptions/sub_1/manifest?limit=1&cursor=${first.body.nextCursor}`,
    );
    expect(second.body.nextCursor).toBe(first.body.nextCursor);

    const changes = [{ op: 'added', row: ['x', 9223372036854775807n] }] as const;
    feed.publisher.publish('a', smallContent(numberedRows(50), changes));
    const repeat = (body: unknown) => {
      const page = body as { changes: unknown[] };
      return { ...page, changes: [...page.changes, ...page.changes] };
    };
    feed.faults.add({ match: { operation: 'changes' }, act: { kind: 'rewrite', rewrite: repeat } });
    const { text } = await call(feed, '/v1/datasets/a/changes?version=2');
    expect(text.match(/"amount":9223372036854775807/g)).toHaveLength(2);
  });

  it('a fault waits for whatever a program waits for', async () => {
    const { promise: waitedFor, resolve } = Promise.withResolvers<void>();
    const waits = new Promise<void>((isThere) => {
      const until = () => {
        isThere();
        return waitedFor;
      };
      feed.faults.add({ match: { operation: 'versions' }, act: { kind: 'wait', until } });
    });
    const answer = call(feed, VERSIONS);
    await waits;
    expect(feed.requests.entries()).toMatchObject([{ status: null }]);
    resolve();
    expect((await answer).status).toBe(200);
  });

  it('a fault rewrites no answer that is no JSON', async () => {
    feed.faults.add({ match: { operation: 'versions' }, act: { kind: 'respond', status: 503 } });
    feed.faults.add({ match: { operation: 'versions' }, act: { kind: 'rewrite', rewrite: () => ({}) } });
    expect((await call(feed, VERSIONS)).status).toBe(503);
  });

  it('a fault delays an answer', async () => {
    feed.faults.add({ match: {}, act: { kind: 'delay', delayMs: 30 } });
    const before = performance.now();
    await call(feed, VERSIONS);
    expect(performance.now() - before).toBeGreaterThanOrEqual(25);
  });
});

describe('the connections that a fault breaks', () => {
  it('a fault resets the connection before an answer', async () => {
    feed.faults.add({ match: { operation: 'versions' }, act: { kind: 'reset' } });
    await expect(receive(feed.baseUrl + VERSIONS)).rejects.toMatchObject({ code: 'ECONNRESET' });
    expect(feed.requests.entries('versions')).toMatchObject([{ status: null }]);
  });

  it.each([0, 1, 100])('a fault ends a body that was announced whole after %i bytes', async (afterBytes) => {
    const url = await firstFileUrl(feed);
    const whole = await receive(url);
    feed.faults.add({ match: { operation: 'file' }, act: { kind: 'truncate', afterBytes } });
    const cut = await receive(url);
    expect(cut).toEqual({ ...whole, bytes: whole.bytes.subarray(0, afterBytes), complete: false });
  });

  it('a fault ends a body in the middle of JSON', async () => {
    feed.faults.add({ match: {}, act: { kind: 'truncate', afterBytes: 12 } });
    const cut = await receive(feed.baseUrl + VERSIONS, { authorization: `Bearer ${feed.apiKey}` });
    expect([cut.bytes.toString(), cut.complete]).toEqual(['{"versions":', false]);
  });

  it('a fault resets the connection within a body', async () => {
    const url = await firstFileUrl(feed);
    feed.faults.add({ match: { operation: 'file' }, act: { kind: 'reset', afterBytes: 64 } });
    const failure = await fetch(url)
      .then((response) => response.arrayBuffer())
      .catch((error) => error);
    expect(failure).toMatchObject({ cause: { code: expect.stringMatching(/ECONNRESET|UND_ERR_SOCKET/) } });
  });

  it('a fault lets a body drip, and does not delay the end of the feed', async () => {
    const url = await firstFileUrl(feed);
    feed.faults.add({ match: { operation: 'file' }, act: { kind: 'drip', bytes: 1, everyMs: 60_000 } });
    const response = await fetch(url);
    const reader = response.body?.getReader();
    expect((await reader?.read())?.value).toHaveLength(1);
    await feed.close();
    await expect(reader?.read()).rejects.toThrow('terminated');
  });
});

describe('the files that a fault damages', () => {
  it('a fault flips a bit, changes the tag, or ignores ranges of a file', async () => {
    const url = await firstFileUrl(feed);
    const whole = await receive(url);
    feed.faults.add({ match: { operation: 'file' }, act: { kind: 'flipBit', atByte: 20 } });
    const flipped = await receive(url);
    const wrong = Buffer.from(whole.bytes);
    wrong.writeUInt8(wrong.readUInt8(20) ^ 1, 20);
    expect(flipped.bytes.equals(wrong)).toBe(true);

    const { headers } = await send(url);
    feed.faults.add({ match: { operation: 'file' }, act: { kind: 'etag', etag: '"other"' } });
    const ifRange = headers.get('etag') ?? '';
    const changed = await send(url, { headers: { range: 'bytes=4-', 'if-range': ifRange } });
    expect([changed.status, changed.headers.get('etag')]).toEqual([200, '"other"']);

    feed.faults.add({ match: { operation: 'file' }, act: { kind: 'ignoreRange' } });
    expect((await send(url, { headers: { range: 'bytes=4-' } })).status).toBe(200);
    expect((await send(url, { headers: { range: 'bytes=4-' } })).status).toBe(206);

    const act = { kind: 'headers', headers: { 'content-range': 'bytes 0-3/9' } } as const;
    feed.faults.add({ match: { operation: 'file' }, act });
    const lying = await send(url, { headers: { range: 'bytes=4-7' } });
    expect([lying.status, lying.headers.get('content-range')]).toEqual([206, 'bytes 0-3/9']);
  });
});

describe('the record of requests', () => {
  it('records every request in order, and never a key', async () => {
    await call(feed, `${VERSIONS}?limit=1`);
    await send(`${feed.baseUrl}/v1/subscriptions?note=${feed.apiKey}`);
    await send(await firstFileUrl(feed), { headers: { range: 'bytes=0-3', 'if-range': '"x"' } });
    const entries = feed.requests.entries();
    expect(entries).toMatchObject([
      { operation: 'versions', datasetId: 'a', query: { limit: '1' }, hasAuthorization: true, status: 200 },
      { operation: 'subscriptions', query: { note: '[key]' }, hasAuthorization: false, status: 401 },
      { operation: 'manifest', subscriptionId: 'sub_1', status: 200 },
      {
        operation: 'file',
        datasetId: 'a',
        hasAuthorization: false,
        range: 'bytes=0-3',
        ifRange: '"x"',
        status: 200,
      },
    ]);
    expect(JSON.stringify(entries)).not.toContain(feed.apiKey);
    feed.requests.clear();
    expect(feed.requests.entries()).toEqual([]);
  });
});
