/** Files of the fixture feed whose content is replaced while they are downloaded. */

import { expect, it } from 'vitest';
import type { FixtureFeed } from '../../fixtures/feed/feed.ts';
import type { FixtureFeedOptions } from '../../fixtures/feed/settings.ts';
import { call, firstFileUrl, send } from '../support/feed-calls.ts';
import { numberedRows, smallContent } from '../support/small-content.ts';
import { publishSmall, startedFeed } from '../support/started-feed.ts';

const OLD_ROWS = 40;

async function started(options: FixtureFeedOptions = {}): Promise<FixtureFeed> {
  const feed = await startedFeed(options);
  publishSmall(feed, ['a'], OLD_ROWS);
  return feed;
}

/** As many rows as before, each with another amount, and no event. */
function replace(feed: FixtureFeed, rowCount = OLD_ROWS): void {
  const rows = numberedRows(rowCount).map(([id]) => [id ?? null, 7_000_000]);
  feed.publisher.replace('a', smallContent(rows), { announce: false });
}

async function bytesOf(url: string, headers: Record<string, string> = {}) {
  const response = await fetch(url, { headers });
  return { status: response.status, headers: response.headers, bytes: await received(response) };
}

/** All that arrives, also where the connection ends before the announced length. */
async function received(response: Response): Promise<Buffer> {
  const chunks: Uint8Array[] = [];
  try {
    for await (const chunk of response.body ?? []) chunks.push(chunk);
  } catch {
    return Buffer.concat(chunks);
  }
  return Buffer.concat(chunks);
}

it('serves new content under the old address, where addresses are those of datasets', async () => {
  const feed = await started({ files: { addresses: 'dataset' } });
  const url = await firstFileUrl(feed);
  const old = await bytesOf(url);
  replace(feed);
  expect(new URL(await firstFileUrl(feed)).pathname).toBe(new URL(url).pathname);
  const newer = await bytesOf(url);
  expect([newer.status, newer.bytes.equals(old.bytes)]).toEqual([200, false]);

  // Between two ranges of one download.
  const ifRange = old.headers.get('etag') ?? '';
  const part = await bytesOf(url, { range: 'bytes=10-', 'if-range': ifRange });
  expect([part.status, part.bytes.equals(newer.bytes)]).toEqual([200, true]);
  const blind = await bytesOf(url, { range: 'bytes=10-' });
  expect([blind.status, blind.bytes.equals(newer.bytes.subarray(10))]).toEqual([206, true]);
});

it('serves nothing where the present content of the dataset has no such part', async () => {
  const feed = await started({ files: { addresses: 'dataset' } });
  const url = await firstFileUrl(feed);
  replace(feed, 0);
  expect((await send(url)).status).toBe(404);
});

it('sends no entity tag where the setting says so, and honours no If-Range then', async () => {
  const feed = await started({ files: { etag: false } });
  const url = await firstFileUrl(feed);
  const whole = await bytesOf(url);
  expect(whole.headers.has('etag')).toBe(false);
  expect((await bytesOf(url, { range: 'bytes=10-' })).status).toBe(206);
  expect((await bytesOf(url, { range: 'bytes=10-', 'if-range': '"any"' })).status).toBe(200);
  expect((await bytesOf(url, { 'if-none-match': '*' })).status).toBe(200);
});

it('sends the first bytes of the old content and the rest of the new one, under the old length', async () => {
  const feed = await started();
  const url = await firstFileUrl(feed);
  const old = await bytesOf(url);
  replace(feed);
  const newer = await bytesOf(await firstFileUrl(feed));
  const overwrite = (afterBytes: number) =>
    feed.faults.add({ match: { operation: 'file' }, act: { kind: 'overwrite', afterBytes } });
  overwrite(100);
  const mixed = await bytesOf(url);
  const length = Math.min(old.bytes.length, newer.bytes.length);
  const expected = Buffer.concat([old.bytes.subarray(0, 100), newer.bytes.subarray(100, old.bytes.length)]);
  expect(mixed.headers.get('content-length')).toBe(String(old.bytes.length));
  expect(mixed.bytes.equals(expected)).toBe(true);
  expect(mixed.bytes.length).toBe(length);

  overwrite(6);
  const ranged = await bytesOf(url, { range: 'bytes=4-13', 'if-range': old.headers.get('etag') ?? '' });
  const rest = Buffer.concat([old.bytes.subarray(4, 10), newer.bytes.subarray(10, 14)]);
  expect([ranged.status, ranged.bytes.equals(rest)]).toEqual([206, true]);

  overwrite(1_000_000);
  expect((await bytesOf(url)).bytes.equals(old.bytes)).toBe(true);
});

it('ends the connection early where the new content is shorter, or none', async () => {
  const feed = await started();
  const url = await firstFileUrl(feed);
  const old = await bytesOf(url);
  replace(feed, 0);
  for (const afterBytes of [0, 10]) {
    feed.faults.add({ match: { operation: 'file' }, act: { kind: 'overwrite', afterBytes } });
    const cut = await bytesOf(url);
    expect([cut.status, cut.bytes.equals(old.bytes.subarray(0, afterBytes))]).toEqual([200, true]);
  }
});

it('overwrites a file at the request that reads it, and lets its link expire before the next', async () => {
  const feed = await started({ files: { filesPerSnapshot: 2 } });
  const { files } = (await call(feed, '/v1/subscriptions/sub_1/manifest')).body.datasets[0];
  const old = await bytesOf(files[0].url);
  feed.faults.add({ match: { operation: 'file' }, act: { kind: 'overwrite', afterBytes: 50 } });
  feed.onRequest(({ operation, numberOfOperation }) => {
    if (operation === 'file' && numberOfOperation === 2) replace(feed);
    if (operation === 'file' && numberOfOperation === 3) feed.clock.advance(3_600_000);
  });
  const [first, second] = [await bytesOf(files[0].url), await bytesOf(files[1].url)];
  expect([first.status, second.status]).toEqual([200, 403]);
  const renewed = (await call(feed, '/v1/subscriptions/sub_1/manifest')).body.datasets[0].files;
  const newer = (await bytesOf(renewed[0].url)).bytes.subarray(50, old.bytes.length);
  expect(first.bytes.equals(Buffer.concat([old.bytes.subarray(0, 50), newer]))).toBe(true);
  expect(first.bytes.equals(old.bytes)).toBe(false);
});
