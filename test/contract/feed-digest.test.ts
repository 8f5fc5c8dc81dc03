/** Downloads verify, continue and refuse files alike, whether a thread computes the digest or not. */

import { readdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type FixtureFeed, startFixtureFeed } from '../../fixtures/feed/feed.ts';
import type { Download, DownloadRequest, Feed } from '../../src/feed/feed.ts';
import { present } from '../../src/lib/assert.ts';
import type { ManifestEntry } from '../../src/model/manifest.ts';
import { CANARY_KEY, errorOf, impatientClock, testFeed } from '../support/feed-client.ts';
import { madeThreads } from '../support/made-threads.ts';
import { openFilesIn } from '../support/open-files.ts';
import { numberedRows, smallContent } from '../support/small-content.ts';

const signal = new AbortController().signal;
const ONCE = { maxAttempts: 1, baseDelayMs: 1, maxDelayMs: 1 };

let server: FixtureFeed;
let directory: string;
let clients: Feed[];

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'feed-digest-'));
  clients = [];
  server = await startFixtureFeed({ apiKey: CANARY_KEY });
  server.publisher.subscribe({ subscriptionId: 'sub_1', datasetIds: ['parcels'] });
  server.publisher.addDataset({ datasetId: 'parcels' });
  server.publisher.publish('parcels', smallContent(numberedRows(20_000)));
});
afterEach(async () => {
  for (const feed of clients) await feed.close();
  await server.close();
  await rm(directory, { recursive: true, force: true });
});

function client(digestThreadFromBytes: number, options: Parameters<typeof testFeed>[1] = {}): Feed {
  const limits = { digestThreadFromBytes };
  const { feed } = testFeed(server.baseUrl, { clock: impatientClock(), limits, ...options });
  clients.push(feed);
  return feed;
}

async function entry(feed: Feed): Promise<ManifestEntry> {
  const { datasets } = await feed.manifest('sub_1', signal);
  return present(datasets[0], 'the manifest lists the dataset');
}

async function download(feed: Feed, request: Partial<DownloadRequest> = {}): Promise<Download> {
  const refresh = () => entry(feed);
  return feed.download({ entry: await entry(feed), directory, refresh, onBytes() {}, ...request }, signal);
}

function fileRequests() {
  return server.requests.entries('file').map(({ status, range }) => ({ status, range }));
}

function partPath(): string {
  const name = readdirSync(directory).find((each) => each.endsWith('.part'));
  return join(directory, present(name, 'there is a part'));
}

describe.each([
  ['on the thread of the client', Number.MAX_SAFE_INTEGER, 0],
  ['on a thread of its own', 1_000, 1],
])('a download whose digest is computed %s', (_, digestThreadFromBytes, threads) => {
  it('verifies a downloaded file', async () => {
    const made = madeThreads();
    expect(await download(client(digestThreadFromBytes))).toMatchObject({ kind: 'complete' });
    expect(readdirSync(directory)).toHaveLength(1);
    expect(made).toHaveLength(threads);
  });

  it('F16 verifies both sides of a cut', async () => {
    server.faults.add({ match: { operation: 'file' }, act: { kind: 'reset', afterBytes: 10_000 } });
    expect(await download(client(digestThreadFromBytes))).toMatchObject({ kind: 'complete' });
    expect(fileRequests()).toEqual([
      { status: 200, range: null },
      { status: 206, range: 'bytes=10000-' },
    ]);
  });

  it('F16 F43 verifies bytes that another process left, and fetches the file again where a bit has changed', async () => {
    server.faults.add({ match: { operation: 'file' }, act: { kind: 'truncate', afterBytes: 10_000 } });
    const once = client(digestThreadFromBytes, { limits: { digestThreadFromBytes }, retry: ONCE });
    await errorOf(download(once));
    const part = readFileSync(partPath());
    part.writeUInt8(part.readUInt8(500) ^ 1, 500);
    writeFileSync(partPath(), part);
    expect(await download(client(digestThreadFromBytes))).toMatchObject({ kind: 'complete' });
    expect(fileRequests().map(({ range }) => range)).toEqual([null, 'bytes=10000-', null]);
  });

  it('F16 verifies a whole part without a request for more', async () => {
    const first = await download(client(digestThreadFromBytes));
    const [file] = first.kind === 'complete' ? first.files : [];
    const { path, bytes } = present(file, 'there is a file');
    renameSync(path, `${path}.part`);
    writeFileSync(`${path}.part.json`, JSON.stringify({ etag: '"any"', totalBytes: bytes }));
    expect(await download(client(digestThreadFromBytes))).toEqual(first);
    expect(fileRequests()).toHaveLength(1);
    expect(readdirSync(directory)).toHaveLength(1);
  });

  it('F43 refuses a file that differs by a bit', async () => {
    server.faults.add({
      match: { operation: 'file', times: 'always' },
      act: { kind: 'flipBit', atByte: 500 },
    });
    const error = await errorOf(download(client(digestThreadFromBytes)));
    expect(error.message).toMatch(
      /stated sha256 [\da-f]{64}, found sha256 [\da-f]{64}, in each of 3 downloads/,
    );
    expect(readdirSync(directory)).toEqual([]);
  });

  it('F16 closes a file that breaks off', async () => {
    server.faults.add({ match: { operation: 'file' }, act: { kind: 'truncate', afterBytes: 10_000 } });
    const once = client(digestThreadFromBytes, { limits: { digestThreadFromBytes }, retry: ONCE });
    await errorOf(download(once));
    await expect.poll(() => openFilesIn(directory)).toEqual([]);
  });
});

describe('the thread of a digest', () => {
  it('the digest thread shows progress with a whole part, of which no byte arrives', async () => {
    const first = await download(client(1_000));
    const [file] = first.kind === 'complete' ? first.files : [];
    const { path, bytes } = present(file, 'there is a file');
    renameSync(path, `${path}.part`);
    writeFileSync(`${path}.part.json`, JSON.stringify({ etag: '"any"', totalBytes: bytes }));
    const feed = client(1_000);
    let arrivedBytes = 0;
    const onBytes = (more: number): void => {
      arrivedBytes += more;
    };
    expect(feed.progress()).toBe(0);
    expect(await download(feed, { onBytes })).toEqual(first);
    expect({ arrivedBytes, progress: feed.progress() }).toEqual({ arrivedBytes: 0, progress: bytes });
  });

  it('the digest thread does not delay an interruption', async () => {
    const feed = client(1_000);
    const stop = new AbortController();
    const bytes = present((await entry(feed)).files[0]?.bytes, 'its length is stated');
    let leftBytes = bytes;
    const request = {
      entry: await entry(feed),
      directory,
      refresh: () => entry(feed),
      onBytes: (more: number) => {
        leftBytes -= more;
        if (leftBytes === 0) stop.abort();
      },
    };
    expect((await errorOf(feed.download(request, stop.signal))).name).toBe('InterruptedError');
    expect(readFileSync(partPath())).toHaveLength(bytes);
    await expect.poll(() => openFilesIn(directory)).toEqual([]);
    expect(await download(feed)).toMatchObject({ kind: 'complete' });
    expect(fileRequests()).toHaveLength(1);
  });

  it('a digest thread that ends too early fails the dataset, and the next download goes on with what arrived', async () => {
    const made = madeThreads();
    const feed = client(1_000);
    const onBytes = (): void => void made[0]?.terminate();
    const error = await errorOf(download(feed, { onBytes }));
    expect(error.code).toBe('dataset_storage_failed');
    expect(error.message).toBe(`The thread that computes the digest of ${partPath()} ended.`);
    expect(await download(feed)).toMatchObject({ kind: 'complete' });
    expect(made).toHaveLength(2);
    expect(fileRequests()).toHaveLength(1);
  });
});
