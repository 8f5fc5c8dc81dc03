/** Requests wait for a connection without a deadline, and however one ends, the next is sent. */

import { mkdtempSync, rmSync } from 'node:fs';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { describe, expect, it, onTestFinished } from 'vitest';
import type { DownloadRequest, Feed } from '../../src/feed/feed.ts';
import { errorOf, impatientClock, instantClock, testFeed } from '../support/feed-client.ts';
import { ownServer } from '../support/own-server.ts';
import { steeredDeadlines } from '../support/steered-deadlines.ts';

type Answer = (response: ServerResponse, request: IncomingMessage) => unknown;

const ONCE = { maxAttempts: 1, baseDelayMs: 1, maxDelayMs: 1 };
const NOTHING = JSON.stringify({ schemas: [], subscriptions: [], nextCursor: null });
const { signal } = new AbortController();

const answered: Answer = (response) => response.end(NOTHING);

/** A client of so many connections to a server that gives these answers one after the other, and after the last what is asked for. */
async function started(
  answers: readonly Answer[],
  connections: number,
  options: Parameters<typeof testFeed>[1] = {},
) {
  const left = [...answers];
  const server = await ownServer((request, response) => (left.shift() ?? answered)(response, request));
  const http = { timeoutMs: 60_000, connections, maxJsonBytes: 1_000_000, maxRetryAfterMs: 1 };
  const { feed } = testFeed(server.url, { clock: impatientClock(), http, retry: ONCE, ...options });
  onTestFinished(() => feed.close());
  return { feed, server };
}

function ask(feed: Feed, by: AbortSignal = signal): Promise<unknown> {
  return feed.schemas('parcels', by);
}

/** For the file of a snapshot, into a folder of its own. */
function requestOf(url: string, onBytes: () => void): DownloadRequest {
  const directory = mkdtempSync(join(tmpdir(), 'feed-turns-'));
  onTestFinished(() => rmSync(directory, { recursive: true }));
  const files = [{ url, bytes: null, rowCount: null, sha256: null }];
  const entry = { datasetId: 'parcels', version: 1, schemaVersion: null, rowCount: null, files };
  return { entry, directory, refresh: async () => null, onBytes };
}

/** An answer that the test releases; `asked` resolves once its request has arrived. */
function observed() {
  const asked = Promise.withResolvers<void>();
  const release = Promise.withResolvers<void>();
  const answer: Answer = async (response) => {
    asked.resolve();
    await release.promise;
    response.end(NOTHING);
  };
  return { answer, asked: asked.promise, release: () => release.resolve() };
}

describe('a request that waits for a connection', () => {
  it('starts the deadline of a request when the request is sent', async () => {
    const deadlines = steeredDeadlines();
    const answers = [observed(), observed(), observed()];
    const { feed } = await started(
      answers.map(({ answer }) => answer),
      1,
      { limits: { jsonDeadlineMs: 600 } },
    );
    const all = Promise.all(answers.map(() => ask(feed)));
    for (const [index, { asked, release }] of answers.entries()) {
      await asked;
      expect(deadlines.map(({ afterMs }) => afterMs)).toEqual(Array(index + 1).fill(600));
      release();
    }
    expect(await all).toEqual([[], [], []]);
  });

  it('tries a request again as if it had not waited', async () => {
    const first = observed();
    const failed: Answer = (response) => response.writeHead(503).end();
    const retry = { ...ONCE, maxAttempts: 2 };
    const limits = { operationDeadlineMs: 300 };
    let nowMs = 0;
    const clock = { ...instantClock(), monotonicMs: () => nowMs };
    const { feed } = await started([first.answer, failed], 1, { clock, retry, limits });
    const both = Promise.all([ask(feed), ask(feed)]);
    await first.asked;
    nowMs += 400;
    first.release();
    expect(await both).toEqual([[], []]);
  });

  it('ends a waiting request at once when it is interrupted, and never sends it', async () => {
    const first = observed();
    const { feed, server } = await started([first.answer], 1);
    const stop = new AbortController();
    const others = [ask(feed), errorOf(ask(feed, stop.signal)), ask(feed)] as const;
    await first.asked;
    stop.abort();
    expect(await others[1]).toMatchObject({ name: 'InterruptedError' });
    expect(server.seen).toHaveLength(1);
    first.release();
    expect(await Promise.all([others[0], others[2]])).toEqual([[], []]);
    expect(server.seen).toHaveLength(2);
  });

  it('alternates between the lane of polls and the lane of other requests', async () => {
    const first = observed();
    const { feed, server } = await started([first.answer], 1);
    const asked = [ask(feed), ask(feed), ask(feed), ask(feed)];
    const listed = [feed.subscriptions(signal), feed.subscriptions(signal)];
    await first.asked;
    first.release();
    await Promise.all([...asked, ...listed]);
    const lines = server.seen.map(({ path }) => (path.includes('schemas') ? 'schemas' : 'subscriptions'));
    expect(lines).toEqual(['schemas', 'subscriptions', 'schemas', 'subscriptions', 'schemas', 'schemas']);
  });

  it('sends a request after the last byte of a file, or at once on another connection where there is one', async () => {
    for (const connections of [1, 2]) {
      const deadlines = steeredDeadlines();
      const asked = Promise.withResolvers<ServerResponse>();
      const arrived = Promise.withResolvers<void>();
      const file: Answer = (response) => {
        response.write('PAR1\0\0\0\0');
        asked.resolve(response);
      };
      const { feed, server } = await started([file], connections);
      const download = feed.download(requestOf('/file', arrived.resolve), signal);
      const response = await asked.promise;
      const both = Promise.all([ask(feed), ask(feed)]);
      await arrived.promise;
      if (connections === 1) for (let turn = 0; turn < 5; turn += 1) await nextTurn();
      else await both;
      expect(server.seen).toHaveLength(connections === 1 ? 1 : 3);
      expect(deadlines).toHaveLength(connections === 1 ? 1 : 3);
      response.end('PAR1');
      expect(await both).toEqual([[], []]);
      expect(await download).toMatchObject({ kind: 'complete' });
    }
  });
});

describe('two connections', () => {
  it('lets no poll wait for files from the origin of the service, however many are downloaded', async () => {
    const begun = Promise.withResolvers<void>();
    const release = Promise.withResolvers<void>();
    const endless: Answer = async (response) => {
      response.write('PAR1\0\0\0\0');
      begun.resolve();
      await release.promise;
      response.end('PAR1');
    };
    const answers: Answer = (response, request) =>
      (request.url?.startsWith('/file') === true ? endless : answered)(response, request);
    const { feed, server } = await started(Array(50).fill(answers), 2);
    const downloads = ['/file-1', '/file-2', '/file-3'].map((url) =>
      feed.download(
        requestOf(url, () => {}),
        signal,
      ),
    );
    await begun.promise;
    const others = Promise.all(Array.from({ length: 5 }, () => ask(feed)));
    for (let polls = 0; polls < 5; polls += 1) await feed.subscriptions(signal);
    await others;
    const files = (): number => server.seen.filter(({ path }) => path.startsWith('/file')).length;
    expect(files()).toBe(1);
    release.resolve();
    for (const one of await Promise.all(downloads)) expect(one).toMatchObject({ kind: 'complete' });
    expect(files()).toBe(3);
  });
});

describe('the connection slot of a request that failed', () => {
  const KINDS: readonly (readonly [string, Answer])[] = [
    ['is no answer at all', (response) => response.destroy()],
    [
      'breaks off',
      (response) => {
        response.writeHead(200, { 'content-length': '100' }).write('{');
        setImmediate(() => response.destroy());
      },
    ],
    ['is too large', (response) => response.writeHead(200, { 'content-length': '9000000' }).write('{')],
    ['grows too large', (response) => response.write(' '.repeat(2_000_000))],
    [
      'is of an unknown encoding',
      (response) => response.writeHead(200, { 'content-encoding': 'x' }).write('{'),
    ],
    ['is a failure without end', (response) => response.writeHead(503).write('{')],
    ['is a refusal without end', (response) => response.writeHead(403).write(' '.repeat(100_000))],
    ['is empty', (response) => response.writeHead(204).end()],
  ];

  it.each(KINDS)('frees the slot after an answer that %s', async (_, answer) => {
    const { feed, server } = await started([answer], 1);
    const [failed, next] = [errorOf(ask(feed)), ask(feed)];
    expect(await failed).toBeInstanceOf(Error);
    expect(await next).toEqual([]);
    expect(server.seen).toHaveLength(2);
  });

  it('frees the slot after an answer that was interrupted', async () => {
    const stop = new AbortController();
    const begun = Promise.withResolvers<void>();
    const endless: Answer = (response) => {
      response.write('{');
      begun.resolve();
    };
    const { feed } = await started([endless], 1);
    const [stopped, next] = [errorOf(ask(feed, stop.signal)), ask(feed)];
    await begun.promise;
    stop.abort();
    expect(await stopped).toMatchObject({ name: 'InterruptedError' });
    expect(await next).toEqual([]);
  });
});
