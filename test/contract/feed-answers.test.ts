/** Answers that only a real server can give: cut, endless, compressed, nested, redirected; and the whole interface once (F14, F18 to F21). */

import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createGzip, gzipSync } from 'node:zlib';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { type FixtureFeed, startFixtureFeed } from '../../fixtures/feed/feed.ts';
import type { FixtureFeedOptions } from '../../fixtures/feed/settings.ts';
import type { Row } from '../../fixtures/source/content.ts';
import type { Feed } from '../../src/feed/feed.ts';
import { InterruptedError } from '../../src/model/errors.ts';
import type { ManifestEntry } from '../../src/model/manifest.ts';
import { CANARY_KEY, errorOf, impatientClock, testFeed } from '../support/feed-client.ts';
import { pagesIn } from '../support/pages-in.ts';
import { PATIENCE_MS } from '../support/patience.ts';
import { requestsAbout, servedWorld } from '../support/served-world.ts';
import { numberedRows, smallContent } from '../support/small-content.ts';
import { kinds } from '../support/small-world.ts';

const signal = new AbortController().signal;
const cleanups: (() => Promise<unknown>)[] = [];

afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

interface SeenRequest {
  readonly path: string;
  readonly headers: IncomingMessage['headers'];
}

/** A server of one's own, at an address of its own on loopback. */
async function serve(
  handler: (request: IncomingMessage, response: ServerResponse) => void,
): Promise<{ readonly url: string; readonly seen: SeenRequest[] }> {
  const seen: SeenRequest[] = [];
  const server: Server = createServer((request, response) => {
    seen.push({ path: request.url ?? '', headers: request.headers });
    response.on('error', () => {});
    handler(request, response);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  cleanups.push(
    () =>
      new Promise((resolve) => {
        server.close(resolve);
        server.closeAllConnections();
      }),
  );
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, seen };
}

function client(baseUrl: string, options: Parameters<typeof testFeed>[1] = {}): Feed {
  const { feed } = testFeed(baseUrl, { clock: impatientClock(), ...options });
  cleanups.push(() => feed.close());
  return feed;
}

async function fixture(options: FixtureFeedOptions = {}): Promise<FixtureFeed> {
  const server = await startFixtureFeed({ apiKey: CANARY_KEY, ...options });
  cleanups.push(() => server.close());
  server.publisher.subscribe({ subscriptionId: 'sub_1', datasetIds: ['parcels'] });
  server.publisher.addDataset({ datasetId: 'parcels' });
  server.publisher.publish('parcels', smallContent(numberedRows(3)));
  server.publisher.publish(
    'parcels',
    smallContent(numberedRows(4), [{ op: 'added', row: ['r00003', 2n ** 60n + 1n] }]),
  );
  return server;
}

async function folder(): Promise<string> {
  const path = await mkdtemp(join(tmpdir(), 'feed-answers-'));
  cleanups.push(() => rm(path, { recursive: true, force: true }));
  return path;
}

describe('the interface, read from the fixture feed', () => {
  it('reads subscriptions, events, versions, schemas and the manifest from the fixture feed', async () => {
    const server = await fixture();
    const feed = client(server.baseUrl);
    expect(await feed.discover(signal)).toEqual({
      manifestPath: { value: '/v1/subscriptions/{subscriptionId}/manifest', source: 'openapi' },
      newerThanParameter: { value: 'since', source: 'openapi' },
    });
    expect((await feed.subscriptions(signal)).subscriptions).toMatchObject([
      { id: 'sub_1', lastEventId: { text: 'evt_2' } },
    ]);
    const { events, hasMore } = await feed.events('sub_1', null, signal);
    expect(events).toMatchObject([
      { kind: 'event', type: 'dataset.added', datasetId: 'parcels', version: 1 },
      { kind: 'event', type: 'dataset.updated', datasetId: 'parcels', version: 2, previousVersion: 1 },
    ]);
    expect(hasMore).toBe(false);
    const after = events[0]?.id ?? null;
    expect((await feed.events('sub_1', after, signal)).events).toHaveLength(1);
    expect((await feed.versions('parcels', null, signal)).versions).toMatchObject([
      { version: 2 },
      { version: 1 },
    ]);
    expect((await feed.versions('parcels', 1, signal)).versions).toMatchObject([{ version: 2, rowCount: 4 }]);
    expect((await feed.versions('parcels', -1, signal)).versions).toHaveLength(2);
    expect(await feed.schemas('parcels', signal)).toMatchObject([{ keyColumns: ['id'], schemaVersion: '1' }]);
    expect(feed.manifestShape()).toBe('subscription');
    const manifest = await feed.manifest('sub_1', signal);
    expect(manifest).toMatchObject({
      lastEventId: { text: 'evt_2' },
      datasets: [{ version: 2, rowCount: 4 }],
    });
    expect(server.requests.entries().every(({ status }) => status === 200)).toBe(true);
  });

  it('spools changes as they came', async () => {
    const server = await fixture();
    const directory = await folder();
    const changes = await client(server.baseUrl).changes(
      { datasetId: 'parcels', version: 2, pathOf: pagesIn(directory), onBytes: () => {} },
      signal,
    );
    expect(changes).toMatchObject({ recorded: true, previousVersion: 1, schemaVersion: '1' });
    const [page = ''] = changes.recorded ? changes.pages : [];
    expect(await readFile(page, 'utf8')).toContain('"amount":1152921504606846977');
    expect(await readdir(directory)).toHaveLength(1);
  });

  it('reports the bytes of each page of changes before it is written, also when the list restarts', async () => {
    const server = await fixture();
    const many = numberedRows(2_500);
    const changes = many.map((row) => ({ op: 'added' as const, row }));
    server.publisher.publish('parcels', smallContent(many, changes));
    const moved = { status: 400, json: { error: { code: 'invalid_cursor', message: 'It moved.' } } };
    server.faults.add({
      match: { operation: 'changes', page: 'later', times: 1 },
      act: { kind: 'respond', ...moved },
    });
    const directory = await folder();
    const reported: (readonly [bytes: number, files: number])[] = [];
    const answer = await client(server.baseUrl).changes(
      {
        datasetId: 'parcels',
        version: 3,
        pathOf: pagesIn(directory),
        onBytes: () => {},
        onStaging: async (bytes) => void reported.push([bytes, (await readdir(directory)).length]),
      },
      signal,
    );
    const paths = answer.recorded ? answer.pages : [];
    const sizes = await Promise.all(paths.map(async (path) => (await readFile(path)).byteLength));
    const [first = 0, second = 0, third = 0] = sizes;
    expect(reported).toEqual([
      [first, 0],
      [first, 1],
      [first + second, 1],
      [first + second + third, 2],
    ]);
  });

  it('writes no page of changes once there is no room for it', async () => {
    const server = await fixture();
    const directory = await folder();
    const full = new InterruptedError('There is no room.');
    const asked = client(server.baseUrl).changes(
      {
        datasetId: 'parcels',
        version: 2,
        pathOf: pagesIn(directory),
        onBytes: () => {},
        onStaging: () => Promise.reject(full),
      },
      signal,
    );
    expect(await errorOf(asked)).toBe(full);
    expect(await readdir(directory)).toEqual([]);
  });

  it('R6 reads lists of many pages, and a list that moved meanwhile', async () => {
    const server = await fixture();
    for (let index = 0; index < 450; index += 1)
      server.publisher.subscribe({ subscriptionId: `sub_${index + 2}` });
    const feed = client(server.baseUrl);
    expect((await feed.subscriptions(signal)).subscriptions).toHaveLength(451);
    const gone = { status: 400, json: { error: { code: 'invalid_cursor', message: 'It moved.' } } };
    server.faults.add({
      match: { operation: 'subscriptions', page: 'later', times: 2 },
      act: { kind: 'respond', ...gone },
    });
    server.requests.clear();
    expect((await feed.subscriptions(signal)).subscriptions).toHaveLength(451);
    expect(server.requests.entries('subscriptions').map(({ status }) => status)).toEqual([
      200, 400, 200, 400, 200, 200, 200,
    ]);
    server.faults.add({
      match: { operation: 'subscriptions', page: 'later', times: 'always' },
      act: { kind: 'respond', ...gone },
    });
    expect((await errorOf(feed.subscriptions(signal))).name).toBe('RefusalError');
  });

  it('sends ids that look like paths to their dataset and to no other place', async () => {
    const server = await fixture();
    for (const datasetId of ['..', '.', 'a/../b', 'x?y#z', "'; DROP TABLE x; --", 'ünï 码']) {
      server.publisher.addDataset({ datasetId });
      server.publisher.publish(datasetId, smallContent(numberedRows(1)));
      server.publisher.subscribe({ subscriptionId: `of ${datasetId}`, datasetIds: [datasetId] });
      const feed = client(server.baseUrl);
      expect((await feed.versions(datasetId, null, signal)).versions).toMatchObject([
        { datasetId, version: 1 },
      ]);
      expect(await feed.manifest(`of ${datasetId}`, signal)).toMatchObject({ datasets: [{ datasetId }] });
    }
  });
});

describe('discovery', () => {
  it('discovers a renamed parameter and a manifest per dataset', async () => {
    const manifestPath = '/v1/datasets/{any}/snapshot/manifest';
    const server = await fixture({
      contract: { manifest: 'dataset', manifestPath, newerThanParameter: 'laterThan' },
    });
    const feed = client(server.baseUrl);
    expect(await feed.discover(signal)).toEqual({
      manifestPath: { value: '/v1/datasets/{datasetId}/snapshot/manifest', source: 'openapi' },
      newerThanParameter: { value: 'laterThan', source: 'openapi' },
    });
    expect(feed.manifestShape()).toBe('dataset');
    expect((await feed.manifestEntry('parcels', signal)).entry).toMatchObject({
      datasetId: 'parcels',
      version: 2,
    });
    expect((await feed.versions('parcels', 1, signal)).versions).toHaveLength(1);
    expect(server.requests.entries('versions').map(({ query }) => query)).toEqual([
      { laterThan: '1', limit: '200' },
    ]);
  });

  it('remembers discovered names for when the description is gone', async () => {
    const manifestPath = '/v1/subscriptions/{any}/snapshot/manifest';
    const server = await fixture({ contract: { manifestPath, newerThanParameter: 'laterThan' } });
    const first = testFeed(server.baseUrl, { clock: impatientClock() });
    cleanups.push(() => first.feed.close());
    await first.feed.discover(signal);
    server.settings.contract.openapi = false;
    const [remembered] = first.facts;
    const feed = client(server.baseUrl, remembered === undefined ? {} : { remembered });
    expect(await feed.discover(signal)).toMatchObject({
      manifestPath: { source: 'remembered' },
      newerThanParameter: { source: 'remembered' },
    });
    expect(await feed.manifest('sub_1', signal)).toMatchObject({ datasets: [{ version: 2 }] });
    expect((await feed.versions('parcels', 1, signal)).versions).toHaveLength(1);
  });

  it('works without a description: leaves the parameter out, and reports an unknown path', async () => {
    const manifestPath = '/v1/subscriptions/{any}/snapshot/manifest';
    const server = await fixture({
      contract: { manifestPath, newerThanParameter: 'laterThan', openapi: false },
    });
    const feed = client(server.baseUrl);
    await feed.discover(signal);
    expect((await feed.versions('parcels', 1, signal)).versions).toMatchObject([{ version: 2 }]);
    expect((await errorOf(feed.manifest('sub_1', signal))).name).toBe('ConfigurationError');
  });
});

describe('F14: bodies that break', () => {
  it.each([
    { kind: 'truncate', afterBytes: 20 },
    { kind: 'reset' },
    { kind: 'reset', afterBytes: 20 },
  ] as const)('R1 tries a body that breaks again: %o', async (act) => {
    const server = await fixture();
    server.faults.add({ match: { operation: 'subscriptions', times: 2 }, act });
    expect((await client(server.baseUrl).subscriptions(signal)).subscriptions).toHaveLength(1);
    expect(server.requests.entries('subscriptions')).toHaveLength(3);
  });

  it('R1 ends silence by the idle time-out, and a drip by the deadline', async () => {
    const silent = await serve(() => {});
    // Long enough to connect on a machine that is busy.
    const http = { timeoutMs: 2_000, connections: 2, maxJsonBytes: 1_000, maxRetryAfterMs: 1 };
    const retry = { maxAttempts: 1, baseDelayMs: 1, maxDelayMs: 1 };
    const stalled = await errorOf(client(silent.url, { http, retry }).subscriptions(signal));
    expect(stalled.message).toMatch(/no answer from 127\.0\.0\.1:\d+ within 2 s after 1 attempt/);
    const server = await fixture();
    server.faults.add({
      match: { operation: 'subscriptions', times: 'always' },
      act: { kind: 'drip', bytes: 1, everyMs: 5 },
    });
    const limits = { jsonDeadlineMs: 60 };
    const dripped = await errorOf(client(server.baseUrl, { retry, limits }).subscriptions(signal));
    expect(dripped.message).toContain('took longer than 60 ms');
  });

  it('R1 names a refused connection, an unknown name, and TLS where there is none', async () => {
    const plain = await serve((_request, response) => response.end('{}'));
    const retry = { maxAttempts: 2, baseDelayMs: 1, maxDelayMs: 1 };
    const messageAt = async (url: string) =>
      (await errorOf(client(url, { retry }).subscriptions(signal))).message;
    expect(await messageAt('http://127.0.0.1:1')).toContain(
      'connection refused at 127.0.0.1:1 after 2 attempts',
    );
    expect(await messageAt('https://nobody.invalid')).toContain(
      'the name in nobody.invalid:443 could not be resolved',
    );
    expect(await messageAt(plain.url.replace('http:', 'https:'))).toContain(
      `no TLS is spoken at ${new URL(plain.url).host} (ERR_SSL_WRONG_VERSION_NUMBER)`,
    );
  });
});

describe('F18: bodies beyond the limits', () => {
  const http = { timeoutMs: PATIENCE_MS, connections: 2, maxJsonBytes: 2_000_000, maxRetryAfterMs: 1 };

  it('stops reading an endless body at the limit', async () => {
    let sent = 0;
    const endless = await serve((_request, response) => {
      response.writeHead(200, { 'content-type': 'application/json' });
      const more = (): void => {
        while (!response.destroyed && sent < 1_000_000_000) {
          sent += 65_536;
          if (!response.write(Buffer.alloc(65_536, ' '))) {
            response.once('drain', more);
            return;
          }
        }
      };
      more();
    });
    const error = await errorOf(client(endless.url, { http }).subscriptions(signal));
    expect(error.code).toBe('response_too_large');
    expect(error.message).toContain('larger than 2.0 MB');
    expect(error.hint).toContain('http.maxJsonBytes');
    expect(sent).toBeLessThan(100_000_000);
  });

  it('falls back to the snapshot when a page of changes is over the limit', async () => {
    const world = await servedWorld();
    const { feed } = world;
    await world.catchUp();
    const long = 'y'.repeat(1_200);
    const rows = numberedRows(1_000).map(([id, amount = null]): Row => [`${id} ${long}`, amount]);
    const before = numberedRows(2);
    const changes = rows.map((row) => ({ op: 'added' as const, row }));
    feed.publisher.publish('permits', smallContent([...before, ...rows], changes));
    feed.requests.clear();
    expect(kinds(await world.catchUp())).toMatchObject({ permits: 'loaded' });
    expect(requestsAbout(feed, 'permits').map(({ operation }) => operation)).toContain('changes');
  });

  it('reads no body whose stated length is over the limit', async () => {
    const large = await serve((_request, response) => {
      response.writeHead(200, { 'content-length': '1000000000' });
      response.flushHeaders();
    });
    expect((await errorOf(client(large.url, { http }).subscriptions(signal))).message).toContain(
      'larger than 2.0 MB',
    );
  });

  it('stops reading a gzip bomb at the limit, and reads gzip that was not requested', async () => {
    const bomb = await serve((request, response) => {
      expect(request.headers['accept-encoding']).toBe('identity');
      response.writeHead(200, { 'content-encoding': 'gzip' });
      const gzip = createGzip();
      gzip.pipe(response);
      gzip.on('error', () => {});
      for (let index = 0; index < 100; index += 1) gzip.write(Buffer.alloc(1_000_000, ' '));
      gzip.end();
    });
    expect((await errorOf(client(bomb.url, { http }).subscriptions(signal))).message).toContain(
      'larger than 2.0 MB',
    );
    const zipped = await serve((_request, response) => {
      response.writeHead(200, { 'content-encoding': 'gzip' });
      response.end(gzipSync('{"subscriptions":[{"id":"sub_1"}],"nextCursor":null}'));
    });
    expect((await client(zipped.url).subscriptions(signal)).subscriptions).toMatchObject([{ id: 'sub_1' }]);
    const broken = await serve((_request, response) => {
      response.writeHead(200, { 'content-encoding': 'gzip' });
      response.end('not gzip');
    });
    expect((await errorOf(client(broken.url).subscriptions(signal))).message).toContain('cannot be inflated');
  });

  it.each(['[', '{"a":'])('refuses nesting 100,000 deep by %j', async (open) => {
    const deep = await serve((_request, response) => response.end(open.repeat(100_000)));
    const error = await errorOf(client(deep.url).subscriptions(signal));
    expect(error.name).toBe('ContractViolationError');
    expect(error.message).toContain('nested deeper than 64 levels');
  });

  it('accepts changes nested as deep as values of type json may be', async () => {
    const page = (depth: number) =>
      `{"changes":[${'['.repeat(depth)}${']'.repeat(depth)}],"nextCursor":null}`;
    let body = page(990);
    const deep = await serve((_request, response) => response.end(body));
    const feed = client(deep.url);
    const request = { datasetId: 'parcels', version: 1, pathOf: pagesIn(await folder()), onBytes: () => {} };
    expect(await feed.changes(request, signal)).toMatchObject({ recorded: true });
    body = page(100_000);
    expect((await errorOf(feed.changes(request, signal))).message).toContain(
      'nested deeper than 1,000 levels',
    );
  });
});

describe('F20, F21: where links lead', () => {
  /** As short as what looks like Parquet can be: its marks, and a footer of no length. */
  const FILE = 'PAR1\0\0\0\0PAR1';

  function entryOf(url: string): ManifestEntry {
    const files = [{ url, bytes: null, rowCount: null, sha256: null }];
    return { datasetId: 'parcels', version: 1, schemaVersion: null, rowCount: null, files };
  }

  async function fetchVia(feed: Feed, url: string) {
    const request = {
      entry: entryOf(url),
      directory: await folder(),
      refresh: async () => null,
      onBytes() {},
    };
    return feed.download(request, signal);
  }

  const redirectTo = (location: string) => (_request: IncomingMessage, response: ServerResponse) => {
    response.writeHead(302, { location });
    response.end();
  };

  it('M7 the key goes to the origin of the base URL alone, also over redirects', async () => {
    const other = await serve((_request, response) => response.end(FILE));
    const base = await serve((request, response) => {
      if (request.url === '/own') response.end(FILE);
      else redirectTo(`${other.url}/there`)(request, response);
    });
    const feed = client(base.url);
    expect(await fetchVia(feed, '/own')).toMatchObject({ kind: 'complete' });
    expect(await fetchVia(feed, `${base.url}/away`)).toMatchObject({ kind: 'complete' });
    expect(await fetchVia(feed, `${other.url}/direct`)).toMatchObject({ kind: 'complete' });
    expect(base.seen.map(({ headers }) => headers.authorization)).toEqual([
      `Bearer ${CANARY_KEY}`,
      `Bearer ${CANARY_KEY}`,
    ]);
    expect(other.seen).toHaveLength(2);
    expect(JSON.stringify(other.seen)).not.toContain(CANARY_KEY);
    expect(other.seen.map(({ headers }) => Object.keys(headers).sort())).toEqual(
      Array(2).fill(['accept-encoding', 'connection', 'host', 'user-agent']),
    );
  });

  it('follows three redirects, and no loop', async () => {
    const base = await serve((request, response) => {
      const chainStep = Number(request.url?.slice(1));
      if (chainStep === 0) response.end(FILE);
      else redirectTo(chainStep > 100 ? `/${chainStep}` : `/${chainStep - 1}`)(request, response);
    });
    const retry = { maxAttempts: 1, baseDelayMs: 1, maxDelayMs: 1 };
    const feed = client(base.url, { retry });
    expect(await fetchVia(feed, '/3')).toMatchObject({ kind: 'complete' });
    expect((await errorOf(fetchVia(feed, '/4'))).message).toContain('redirected more than 3 times');
    base.seen.length = 0;
    expect((await errorOf(fetchVia(feed, '/999'))).name).toBe('ServiceUnavailableError');
    expect(base.seen).toHaveLength(4);
  });

  it.each([
    ['file:///etc/passwd', 'file:, which is no place on the web'],
    ['http://user:secret@127.0.0.1/x', 'carries a user name or password'],
    ['http://169.254.169.254/latest/meta-data', '169.254.169.254, which is an address of the local link'],
    ['https://10.0.0.1/x', '10.0.0.1, which is an address of a private network'],
    ['https://[::ffff:10.0.0.1]/x', 'a private network'],
    ['http://0.0.0.0/x', 'an address that names no machine'],
  ])('refuses a link to %s, also by a redirect', async (url, why) => {
    const base = await serve(redirectTo(url));
    const feed = client(base.url);
    for (const link of [url, '/redirect']) {
      const error = await errorOf(fetchVia(feed, link));
      expect(error.name).toBe('DataError');
      expect(error.message).toContain(why);
      expect(error.message).not.toContain('secret');
      expect(error.hint).toMatch(/downloads\.allowedOrigins|Report it to the service/);
    }
    expect(base.seen).toHaveLength(1);
  });

  it('checks every address of a name at the connection itself', async () => {
    const hidden = await serve((_request, response) => response.end(FILE));
    const { port } = new URL(hidden.url);
    const addresses = new Map([
      ['feed.test', ['93.184.215.14']],
      ['files.test', ['93.184.215.14', '127.0.0.1']],
    ]);
    const resolveName = async (name: string) =>
      (addresses.get(name) ?? []).map((address) => ({ address, family: 4 }));
    const link = `http://files.test:${port}/x`;
    const feed = client('http://feed.test', { resolveName });
    const error = await errorOf(fetchVia(feed, link));
    expect(error.name).toBe('DataError');
    expect(error.message).toContain('leads to files.test, which is this machine itself');
    expect(hidden.seen).toEqual([]);
    addresses.set('files.test', ['127.0.0.1']);
    addresses.set('feed.test', ['127.0.0.1']);
    expect(await fetchVia(client('http://feed.test', { resolveName }), link)).toMatchObject({
      kind: 'complete',
    });
  });

  it('accepts any address for an origin that the configuration names', async () => {
    const files = await serve((_request, response) => response.end(FILE));
    const downloads = { allowedOrigins: [files.url] };
    const far = client('https://feed.example', { downloads });
    expect(await fetchVia(far, `${files.url}/x`)).toMatchObject({ kind: 'complete' });
    const error = await errorOf(fetchVia(client('https://feed.example'), `${files.url}/x`));
    expect(error.message).toContain('which is not encrypted');
  });
});

describe('proxies', () => {
  it('uses the proxies that are passed in, not those of the environment', async () => {
    const proxy = await serve((request, response) => {
      response.end(request.url?.endsWith('/x') ? 'the file' : '{"subscriptions":[],"nextCursor":null}');
    });
    const own = await serve((_request, response) => response.end('{"subscriptions":[],"nextCursor":null}'));
    vi.stubEnv('HTTP_PROXY', proxy.url);
    cleanups.push(async () => vi.unstubAllEnvs());
    await client(own.url).subscriptions(signal);
    expect(proxy.seen).toEqual([]);
    const passed = { httpProxy: proxy.url, httpsProxy: null, noProxy: 'direct.test' };
    await client('http://feed.test', { proxy: passed }).subscriptions(signal);
    expect(proxy.seen.map(({ path }) => path)).toEqual(['http://feed.test/v1/subscriptions?limit=200']);
    await client(own.url, { proxy: passed }).subscriptions(signal);
    expect(own.seen).toHaveLength(2);
    expect(proxy.seen).toHaveLength(1);
  });
});
