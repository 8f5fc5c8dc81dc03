/** F20, F21 where links lead, however they are written: nowhere but to the web, and to no network that only this machine sees. */

import fc from 'fast-check';
import { expect, it, onTestFinished } from 'vitest';
import { createAddressGuard, kindOfAddress } from '../../src/feed/http/addresses.ts';
import { FeedSyncError } from '../../src/model/errors.ts';
import { temporaryFolder } from '../support/duckdb-mirror.ts';
import { CANARY_KEY, errorOf, impatientClock, testFeed } from '../support/feed-client.ts';
import { ownServer } from '../support/own-server.ts';
import { PATIENCE_MS } from '../support/patience.ts';
import { SEED } from '../support/seed.ts';

const signal = new AbortController().signal;

/** What the service, at a public address, has a client fetch. Names lead where `names` says, each time anew. */
async function fetchFrom(
  baseUrl: string,
  url: string,
  names: (name: string) => readonly string[] = () => [],
): Promise<{ readonly error: FeedSyncError; readonly lookups: readonly string[] }> {
  const lookups: string[] = [];
  const { feed } = testFeed(baseUrl, {
    clock: impatientClock(),
    retry: { maxAttempts: 1, baseDelayMs: 1, maxDelayMs: 1 },
    http: { timeoutMs: PATIENCE_MS, connections: 2, maxJsonBytes: 1_000_000, maxRetryAfterMs: 1 },
    resolveName: async (name) => {
      lookups.push(name);
      return names(name).map((address) => ({ address, family: address.includes(':') ? 6 : 4 }));
    },
  });
  const { path: directory, [Symbol.asyncDispose]: remove } = await temporaryFolder();
  onTestFinished(async () => {
    await feed.close();
    await remove();
  });
  const files = [{ url, bytes: null, rowCount: null, sha256: null }];
  const entry = { datasetId: 'parcels', version: 1, schemaVersion: null, rowCount: null, files };
  const download = feed.download({ entry, directory, refresh: async () => entry, onBytes() {} }, signal);
  return { error: await errorOf(download), lookups };
}

it.each([
  'https://2130706433/x',
  'https://0x7f.0.0.1/x',
  'https://0177.0.0.1/x',
  'https://127.1/x',
  'https://127.0.0.1./x',
  'https://①②⑦.0.0.1/x',
  'https://[::1]/x',
  'https://[0:0:0:0:0:ffff:7f00:1]/x',
  'https://[::ffff:169.254.169.254]/x',
  'https://[64:ff9b::a9fe:a9fe]/x',
  'https://[2002:a00:1::]/x',
  'https://[fd00:ec2::254]/x',
  'https://[fe80::1]/x',
  'https://0/x',
  'https://[::]/x',
  'https://169.254.169.254:443/latest/meta-data',
  'https:\\\\10.0.0.1\\x',
  '//10.0.0.1/x',
  '\\\\10.0.0.1\\x',
  '/\\10.0.0.1/x',
  ' https://10.0.0.1/x',
  'https://10.0.0.1\t/x',
  'https://feed.example@10.0.0.1/x',
  'https://10.0.0.1#@feed.example/x',
])('F21 refuses the link %s before it resolves or requests anything', async (link) => {
  const { error, lookups } = await fetchFrom('https://93.184.215.14', link);
  expect(error.name).toBe('DataError');
  expect(error.message).toMatch(/such links are not followed|carries a user name/);
  expect(lookups).toEqual([]);
});

it.each([
  'localhost',
  'localhost.',
  'LOCALHOST',
  'files.example',
  'files.example.',
  'metadata.google.internal',
])('F21 refuses the name %s if it resolves to a private address, after a single lookup', async (name) => {
  for (const address of [
    '127.0.0.1',
    '::ffff:10.0.0.1',
    '169.254.169.254',
    'fd00::1',
    '0.0.0.0',
    '100.64.0.1',
  ]) {
    let asked = 0;
    // An answer that is public at first, and another at the second lookup, as DNS rebinding does.
    const names = (): readonly string[] => {
      asked += 1;
      return asked === 1 ? [address] : ['93.184.215.14'];
    };
    const { error, lookups } = await fetchFrom('https://93.184.215.14', `https://${name}/x`, names);
    expect(error.name, address).toBe('DataError');
    expect(error.message).toContain('such links are not followed');
    expect(lookups).toHaveLength(1);
  }
});

it('F21 connects to the address that was checked, even if the name resolves to another one next', async () => {
  const hidden = await ownServer((_request, response) => response.end('hidden'));
  const { port } = new URL(hidden.url);
  let asked = 0;
  const names = (name: string): readonly string[] => {
    if (name === 'feed.test') return ['127.0.0.1'];
    asked += 1;
    // Nothing listens there: only a second lookup would lead to a listening server.
    return asked === 1 ? ['127.0.0.3'] : ['127.0.0.1'];
  };
  const { error } = await fetchFrom('http://feed.test', `http://files.test:${port}/x`, names);
  expect(error.message).toContain('connection refused at files.test');
  expect(hidden.seen).toEqual([]);
});

it('F20 follows redirects of files without key and cookies, and redirects of lists not at all', async () => {
  const other = await ownServer((_request, response) => response.writeHead(404).end());
  const base = await ownServer((request, response) => {
    const lead =
      request.url === '/relative'
        ? `..${new URL(other.url).pathname}moved`
        : `//${new URL(other.url).host}/x`;
    response
      .writeHead(request.url === '/moved' ? 404 : 307, { location: lead, 'set-cookie': `key=${CANARY_KEY}` })
      .end();
  });
  await fetchFrom(base.url, '/relative');
  expect(base.seen.map(({ path }) => path).slice(0, 2)).toEqual(['/relative', '/moved']);
  await fetchFrom(base.url, '/away');
  expect(other.seen.length).toBeGreaterThan(0);
  for (const { headers } of other.seen) {
    expect(Object.keys(headers).sort()).toEqual(['accept-encoding', 'connection', 'host', 'user-agent']);
  }
  const before = other.seen.length;
  const { feed } = testFeed(base.url, { clock: impatientClock() });
  onTestFinished(() => feed.close());
  for (const call of [() => feed.subscriptions(signal), () => feed.versions('x', null, signal)]) {
    expect((await errorOf(call())).message).toContain('a redirect, which is not followed');
  }
  expect(other.seen).toHaveLength(before);
});

it('F21 sends a cursor that looks like an address or a header as a plain parameter', async () => {
  const cursors = [
    'https://evil.example/x',
    '//evil.example',
    '/../../x',
    'a\r\nX-Injected: 1',
    '?limit=1#x',
    '%0d%0aX: 1',
  ];
  const left = [...cursors];
  const base = await ownServer((_request, response) => {
    response.end(JSON.stringify({ subscriptions: [], nextCursor: left.shift() ?? null }));
  });
  const { feed } = testFeed(base.url, { clock: impatientClock() });
  onTestFinished(() => feed.close());
  expect((await feed.subscriptions(signal)).subscriptions).toEqual([]);
  const asked = base.seen.map(({ path }) => new URL(path, base.url));
  expect(asked.map(({ pathname }) => pathname)).toEqual(Array(cursors.length + 1).fill('/v1/subscriptions'));
  expect(asked.map(({ searchParams }) => searchParams.get('cursor'))).toEqual([null, ...cursors]);
  for (const { headers } of base.seen) expect(Object.keys(headers)).not.toContain('x-injected');
});

it('F21 recognises a private address in every notation that a link can have', async () => {
  const guard = createAddressGuard('93.184.215.14', async () => []);
  const byte = fc.integer({ min: 0, max: 255 });
  const private4 = fc.oneof(
    fc.tuple(fc.constant(127), byte, byte, byte),
    fc.tuple(fc.constant(10), byte, byte, byte),
    fc.tuple(fc.constant(192), fc.constant(168), byte, byte),
    fc.tuple(fc.constant(169), fc.constant(254), byte, byte),
  );
  await fc.assert(
    fc.asyncProperty(private4, fc.integer({ min: 0, max: 7 }), async ([a, b, c, d], notation) => {
      const number = ((a * 256 + b) * 256 + c) * 256 + d;
      const hex = (value: number): string => value.toString(16);
      const written = [
        `${a}.${b}.${c}.${d}`,
        `${number}`,
        `0x${hex(number)}`,
        `0${a.toString(8)}.${b}.0x${hex(c)}.${d}`,
        `${a}.${number % 2 ** 24}`,
        `[::ffff:${hex(a * 256 + b)}:${hex(c * 256 + d)}]`,
        `[64:ff9b::${hex(a * 256 + b)}:${hex(c * 256 + d)}]`,
        `[2002:${hex(a * 256 + b)}:${hex(c * 256 + d)}::1]`,
      ][notation];
      const { hostname } = new URL(`https://${written}/x`);
      expect(kindOfAddress(hostname)).not.toBeNull();
      await expect(guard.checkLiteral(hostname)).rejects.toBeInstanceOf(FeedSyncError);
    }),
    { seed: SEED, numRuns: 500 },
  );
});
