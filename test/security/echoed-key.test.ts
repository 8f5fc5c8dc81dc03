/**
 * F45 answers that repeat the API key: a service, or a proxy before it, that repeats the request. Of a refusal
 * the words are relayed without the key; any other answer is discarded.
 */

import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { expect, it, onTestFinished } from 'vitest';
import { withoutKey } from '../../src/feed/http/body.ts';
import { containsSecret, Secret, struckOut } from '../../src/lib/secret.ts';
import { temporaryFolder } from '../support/duckdb-mirror.ts';
import { errorOf, impatientClock, testFeed } from '../support/feed-client.ts';
import { testOperator } from '../support/operator-client.ts';
import { ownServer } from '../support/own-server.ts';
import { pagesIn } from '../support/pages-in.ts';
import { secretsInFiles, secretsInText } from '../support/secret-search.ts';
import { SEED } from '../support/seed.ts';

/** Of a length, and with characters, that every encoding changes. */
const KEY = 'sk/live+7&<"canary"\\>=%41~';
const apiKey = new Secret(KEY);
const signal = new AbortController().signal;
const base64 = (text: string): string => Buffer.from(text).toString('base64');

const FORMS: Readonly<Record<string, string>> = {
  plain: KEY,
  'in an address': encodeURIComponent(KEY),
  'in an address, small': encodeURIComponent(KEY).replaceAll(/%\w\w/g, (code) => code.toLowerCase()),
  'in JSON': JSON.stringify(KEY).slice(1, -1),
  'in JSON with slashes escaped': JSON.stringify(KEY).slice(1, -1).replaceAll('/', '\\/'),
  'in JSON for HTML': JSON.stringify(KEY)
    .slice(1, -1)
    .replaceAll('&', '\\u0026')
    .replaceAll('<', '\\u003c')
    .replaceAll('>', '\\u003e'),
  'of Basic authorization': base64(`${KEY}:`),
  'of Basic authorization, as a password': base64(`user:${KEY}`),
  'in base64 behind one more': base64(`.user:${KEY}`),
  'in base64 for addresses': Buffer.from(KEY).toString('base64url'),
  hexadecimal: Buffer.from(KEY).toString('hex'),
  'hexadecimal, large': Buffer.from(KEY).toString('hex').toUpperCase(),
};

it.each(Object.entries(FORMS))('F45 finds the key and strikes it out: %s', (_name, form) => {
  const text = `before ${form} after`;
  expect(containsSecret(text, [KEY])).toBe(true);
  expect(struckOut(text, [KEY])).toMatch(/^before .{0,8}\[secret\].{0,4} after$/);
  expect(struckOut(text, ['another-key'])).toBe(text);
});

it('F45 ignores a part of the key, and secrets that are too short to be keys', () => {
  expect(containsSecret(KEY.slice(1), [KEY])).toBe(false);
  expect(containsSecret('abcde', ['abcde'])).toBe(false);
});

it('F45 passes a stream without the key, however it is cut, and no byte of the key', async () => {
  const key = new Secret('ababac');
  const letters = fc.array(fc.constantFrom('a', 'b', 'c'), { maxLength: 60 });
  const lengths = fc.array(fc.integer({ min: 0, max: 7 }), { minLength: 1, maxLength: 40 });
  await fc.assert(
    fc.asyncProperty(letters, lengths, async (text, pieces) => {
      const whole = text.join('');
      let taken = '';
      const read = async (): Promise<void> => {
        for await (const chunk of withoutKey(cut(whole, pieces), key, 'read it')) taken += chunk;
      };
      const at = whole.indexOf(key.reveal());
      if (at === -1) {
        await read();
        expect(taken).toBe(whole);
      } else {
        await expect(read()).rejects.toThrow('repeats the API key');
        expect(whole.slice(0, at).startsWith(taken)).toBe(true);
      }
    }),
    { seed: SEED, numRuns: 500 },
  );
});

/** In pieces of these lengths, again and again. */
async function* cut(text: string, lengths: readonly number[]): AsyncGenerator<Buffer> {
  let at = 0;
  for (let index = 0; at < text.length; index += 1) {
    const length = index < 10_000 ? (lengths[index % lengths.length] ?? 1) : text.length;
    yield Buffer.from(text.slice(at, at + length));
    at += length;
  }
}

const nothing = { onBytes() {} };

it.each(Object.entries(FORMS))('F45 discards a JSON answer that repeats the key: %s', async (_name, form) => {
  const server = await ownServer((_request, response) => {
    response.writeHead(200, { 'content-type': 'application/json' });
    const echo = JSON.stringify(form.includes('\\') ? 'ECHO' : form).replace('ECHO', () => form);
    const lists = ['subscriptions', 'versions', 'schemas', 'datasets', 'changes', 'counties', 'watches'];
    const empty = lists.map((name) => `"${name}":[]`).join(',');
    response.end(`{"events":[],"hasMore":false,${empty},"nextCursor":null,"further":${echo}}`);
  });
  const { path: directory, [Symbol.asyncDispose]: remove } = await temporaryFolder();
  onTestFinished(remove);
  const options = { apiKey, clock: impatientClock() };
  const { feed, logged } = testFeed(server.url, options);
  const operating = testOperator(server.url, options);
  onTestFinished(async () => {
    await feed.close();
    await operating.operator.close();
  });
  const calls: readonly (() => Promise<unknown>)[] = [
    () => feed.subscriptions(signal),
    () => feed.events('sub_1', null, signal),
    () => feed.versions('parcels', null, signal),
    () => feed.schemas('parcels', signal),
    () => feed.manifest('sub_1', signal),
    () => feed.changes({ datasetId: 'parcels', version: 1, pathOf: pagesIn(directory), ...nothing }, signal),
    () => operating.operator.coverage(signal),
    () => operating.operator.watches(signal),
    () => operating.operator.addWebhook({ url: 'https://me.example/', header: null }, signal),
  ];
  for (const call of calls) {
    const error = await errorOf(call());
    expect(error.message).toContain('repeats the API key');
    expect(secretsInText(KEY, `${error.stack} ${error.hint}`)).toEqual([]);
  }
  expect((await feed.discover(signal)).manifestPath.source).toBe('default');
  expect(secretsInText(KEY, [...logged, ...operating.logged].join('\n'))).toEqual([]);
  expect(readdirSync(directory)).toEqual([]);
});

it('F45 writes no byte of a key that is in a file to the disk, even while it downloads', async () => {
  const waits: (() => void)[] = [];
  const { path: directory, [Symbol.asyncDispose]: remove } = await temporaryFolder();
  onTestFinished(remove);
  const server = await ownServer((request, response) => {
    const { authorization = '' } = request.headers;
    const half = Math.floor(authorization.length / 2);
    response.writeHead(200, { etag: `"${authorization}"`, 'content-length': 12_000 });
    response.write('x'.repeat(10_000) + authorization.slice(0, half));
    waits.push(() => response.end(authorization.slice(half)));
  });
  const { feed, logged } = testFeed(server.url, { apiKey, clock: impatientClock() });
  onTestFinished(() => feed.close());
  const files = [{ url: '/part-0.parquet', bytes: null, rowCount: null, sha256: null }];
  const entry = { datasetId: 'parcels', version: 1, schemaVersion: null, rowCount: null, files };
  let bytes = 0;
  const onBytes = (more: number): void => {
    bytes += more;
    // The beginning is on the disk, and the rest of the key has not come yet.
    const parts = readdirSync(directory).filter((name) => name.endsWith('.part'));
    for (const name of parts) expect(readFileSync(join(directory, name), 'utf8')).toMatch(/^x*(?:Bearer )?$/);
    waits.shift()?.();
  };
  const error = await errorOf(
    feed.download({ entry, directory, refresh: async () => null, onBytes }, signal),
  );
  expect(error.name).toBe('ContractViolationError');
  expect(error.message).toContain('repeats the API key');
  expect(bytes).toBeGreaterThan(0);
  expect(server.seen.length).toBe(2);
  expect(secretsInFiles(KEY, directory)).toEqual([]);
  expect(secretsInText(KEY, `${error.stack} ${logged.join('\n')}`)).toEqual([]);
});

it('F45 does not pass on a key in the address of a redirect', async () => {
  const other = await ownServer((_request, response) => response.writeHead(404).end());
  const server = await ownServer((request, response) => {
    const key = encodeURIComponent(request.headers.authorization?.slice('Bearer '.length) ?? '');
    response.writeHead(302, { location: `${other.url}/login/${key}?token=${key}` }).end();
  });
  const { feed, logged } = testFeed(server.url, { apiKey, clock: impatientClock() });
  onTestFinished(() => feed.close());
  const files = [{ url: '/x', bytes: null, rowCount: null, sha256: null }];
  const entry = { datasetId: 'parcels', version: 1, schemaVersion: null, rowCount: null, files };
  const { path: directory, [Symbol.asyncDispose]: remove } = await temporaryFolder();
  onTestFinished(remove);
  const request = { entry, directory, refresh: async () => entry, ...nothing };
  const error = await errorOf(feed.download(request, signal));
  expect(other.seen.length).toBeGreaterThan(0);
  expect(secretsInText(KEY, `${JSON.stringify(other.seen)} ${error.stack} ${logged.join('\n')}`)).toEqual([]);
});
