/** Downloads from the real fixture server: cuts, resumption, expiry, wrong content (F16, F17, F22, F43). */

import { createHash } from 'node:crypto';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Act, FaultMatch } from '../../fixtures/feed/faults.ts';
import { type FixtureFeed, startFixtureFeed } from '../../fixtures/feed/feed.ts';
import type { FixtureFeedOptions } from '../../fixtures/feed/settings.ts';
import type { Download, DownloadRequest, Feed } from '../../src/feed/feed.ts';
import { present } from '../../src/lib/assert.ts';
import type { ManifestEntry } from '../../src/model/manifest.ts';
import { CANARY_KEY, errorOf, impatientClock, testFeed } from '../support/feed-client.ts';
import { numberedRows, smallContent } from '../support/small-content.ts';

const signal = new AbortController().signal;

let server: FixtureFeed;
let feed: Feed;
let directory: string;

async function start(options: FixtureFeedOptions = {}): Promise<void> {
  server = await startFixtureFeed({ apiKey: CANARY_KEY, ...options });
  server.publisher.subscribe({ subscriptionId: 'sub_1', datasetIds: ['parcels'] });
  server.publisher.addDataset({ datasetId: 'parcels' });
  server.publisher.publish('parcels', smallContent(numberedRows(20_000)));
  feed = client();
}

function client(options: Parameters<typeof testFeed>[1] = {}): Feed {
  return testFeed(server.baseUrl, { clock: impatientClock(), ...options }).feed;
}

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'feed-download-'));
});
afterEach(async () => {
  await feed.close();
  await server.close();
  await rm(directory, { recursive: true, force: true });
});

async function entry(): Promise<ManifestEntry> {
  const { datasets } = await feed.manifest('sub_1', signal);
  return present(datasets[0], 'the manifest lists the dataset');
}

async function refresh(): Promise<ManifestEntry | null> {
  const { datasets } = await feed.manifest('sub_1', signal);
  return datasets[0] ?? null;
}

async function download(request: Partial<DownloadRequest> = {}, by: Feed = feed): Promise<Download> {
  const defaults = { directory, refresh, onBytes: () => {} };
  return by.download({ entry: await entry(), ...defaults, ...request }, signal);
}

function fault(act: Act, match: FaultMatch = {}): void {
  server.faults.add({ match: { operation: 'file', ...match }, act });
}

/** Flips a bit in the midst of the finished file. */
function damageFile(): void {
  const [name = ''] = readdirSync(directory).filter((one) => one.endsWith('.parquet'));
  const bytes = readFileSync(join(directory, name));
  const middle = Math.floor(bytes.length / 2);
  writeFileSync(join(directory, name), bytes.fill((bytes[middle] ?? 0) ^ 1, middle, middle + 1));
}

function fileRequests() {
  return server.requests.entries('file').map(({ status, range }) => ({ status, range }));
}

/** The one file of a finished download, which must be what the server has. */
async function expectWhole(result: Download): Promise<number> {
  if (result.kind !== 'complete') throw new Error(`expected a complete download, got ${result.kind}`);
  const [file] = result.files;
  const { path, bytes, sha256, rowCount } = present(file, 'there is a file');
  const content = readFileSync(path);
  const stated = present((await entry()).files[0], 'the manifest names a file');
  expect(content.length).toBe(bytes);
  expect(createHash('sha256').update(content).digest('hex')).toBe(sha256);
  if (stated.sha256 !== null) expect(sha256).toBe(stated.sha256);
  expect(rowCount).toBe(stated.rowCount);
  expect(readdirSync(directory).filter((name) => name.includes('.part'))).toEqual([]);
  return bytes;
}

describe('downloads of a file', () => {
  it('fetches a file once, names it by its digest, and keeps it', async () => {
    await start();
    let counted = 0;
    const onBytes = (bytes: number) => {
      counted += bytes;
    };
    const bytes = await expectWhole(await download({ onBytes }));
    expect(counted).toBe(bytes);
    expect(readdirSync(directory)).toEqual([`${(await entry()).files[0]?.sha256}.parquet`]);
    await expectWhole(await download({ onBytes }, client()));
    expect(fileRequests()).toEqual([{ status: 200, range: null }]);
    expect(server.requests.entries('file').map(({ hasAuthorization }) => hasAuthorization)).toEqual([false]);
    expect(counted).toBe(bytes);
  });

  it('downloads several files side by side, and none for a snapshot without rows', async () => {
    await start({ files: { filesPerSnapshot: 5 } });
    const result = await download();
    expect(result).toMatchObject({ kind: 'complete', files: [{}, {}, {}, {}, {}] });
    expect(result.kind === 'complete' && result.files.map(({ name }) => name)).toEqual(
      [0, 1, 2, 3, 4].map((number) => `part-${number}.parquet`),
    );
    const empty = { ...(await entry()), files: [] };
    expect(await download({ entry: empty })).toEqual({
      kind: 'complete',
      files: [],
      digestKind: 'stated',
      isSurelyOneContent: true,
    });
  });

  it('downloads a file that a snapshot names twice only once', async () => {
    await start();
    const { files, ...rest } = await entry();
    const result = await download({ entry: { ...rest, files: [...files, ...files] } });
    expect(result.kind === 'complete' && new Set(result.files.map(({ path }) => path)).size).toBe(1);
    expect(result).toMatchObject({ files: [{}, {}] });
    expect(fileRequests()).toHaveLength(1);
  });

  it('keeps a file without a stated digest only while the server says that it is the same', async () => {
    await start({ files: { sha256: false } });
    await expectWhole(await download());
    await expectWhole(await download({}, client()));
    fault({ kind: 'etag', etag: '"another"' });
    await expectWhole(await download({}, client()));
    expect(fileRequests().map(({ status }) => status)).toEqual([200, 304, 200]);
  });

  it.each([
    ['with', true, [200, 200]],
    ['without', false, [200, 200, 304]],
  ] as const)(
    'fetches a finished file %s a stated digest again when a disk has damaged it since (F58)',
    async (_, sha256, statuses) => {
      await start({ files: { sha256 } });
      await expectWhole(await download());
      damageFile();
      await expectWhole(await download({}, client()));
      await expectWhole(await download({}, client()));
      expect(fileRequests().map(({ status }) => status)).toEqual(statuses);
    },
  );

  it('does not read a file that this process finished again before its use', async () => {
    await start();
    await download();
    damageFile();
    await download();
    expect(fileRequests()).toHaveLength(1);
  });
});

describe('F16: downloads that are cut', () => {
  it.each(['truncate', 'reset'] as const)(
    'a download that is cut by %s goes on where it stopped',
    async (kind) => {
      await start();
      fault({ kind, afterBytes: 10_000 });
      let counted = 0;
      const bytes = await expectWhole(
        await download({
          onBytes: (more) => {
            counted += more;
          },
        }),
      );
      expect(fileRequests()).toEqual([
        { status: 200, range: null },
        { status: 206, range: 'bytes=10000-' },
      ]);
      expect(server.requests.entries('file')[1]?.ifRange).toMatch(/^"\w+"$/);
      expect(counted).toBe(bytes);
    },
  );

  it('a download that is cut goes on in another process', async () => {
    await start();
    fault({ kind: 'truncate', afterBytes: 12_345 });
    const once = client({ retry: { maxAttempts: 1, baseDelayMs: 1, maxDelayMs: 1 } });
    const error = await errorOf(download({}, once));
    expect(error.name).toBe('ServiceUnavailableError');
    expect(error.message).toMatch(
      /^Could not download file part-0\.parquet of dataset parcels, version 1: 127/,
    );
    await once.close();
    await expectWhole(await download({}, client()));
    expect(fileRequests().at(-1)).toEqual({ status: 206, range: 'bytes=12345-' });
  });

  it('a download without a digest does not go on in another process, which may have lost power', async () => {
    await start({ files: { sha256: false } });
    fault({ kind: 'truncate', afterBytes: 12_345 }, { times: 2 });
    const once = client({ retry: { maxAttempts: 1, baseDelayMs: 1, maxDelayMs: 1 } });
    await errorOf(download({}, once));
    await errorOf(download({}, once));
    await once.close();
    await expectWhole(await download({}, client()));
    expect(fileRequests().map(({ range }) => range)).toEqual([null, 'bytes=12345-', null]);
  });

  it('a download that is cut starts over where the entity tag changed', async () => {
    await start();
    fault({ kind: 'truncate', afterBytes: 10_000 });
    fault({ kind: 'etag', etag: '"another"' }, { nth: 2 });
    await expectWhole(await download());
    expect(fileRequests()).toEqual([
      { status: 200, range: null },
      { status: 200, range: 'bytes=10000-' },
    ]);
  });

  it('a download that is cut starts over where the server ignores ranges', async () => {
    await start();
    fault({ kind: 'truncate', afterBytes: 10_000 });
    fault({ kind: 'ignoreRange' }, { nth: 2 });
    await expectWhole(await download());
    expect(fileRequests().map(({ status }) => status)).toEqual([200, 200]);
  });

  it.each([
    ['a 416', { kind: 'respond', status: 416 }],
    ['another start', { kind: 'headers', headers: { 'content-range': 'bytes 9999-20000/30000' } }],
    ['another total', { kind: 'headers', headers: { 'content-range': 'bytes 10000-10001/10002' } }],
    ['no range at all', { kind: 'headers', headers: { 'content-range': '' } }],
    ['another tag in a 206', { kind: 'headers', headers: { etag: '"another"' } }],
  ] as const)('a download that is cut starts over after %s', async (_name, act) => {
    await start();
    fault({ kind: 'truncate', afterBytes: 10_000 });
    fault(act, { nth: 2 });
    await expectWhole(await download());
    expect(fileRequests().map(({ range }) => range)).toEqual([null, 'bytes=10000-', null]);
  });

  it('a download that is cut many times ends; a cut after much progress is forgiven', async () => {
    await start();
    fault({ kind: 'truncate', afterBytes: 5_000 }, { times: 4 });
    const strict = client();
    expect((await errorOf(download({}, strict))).message).toContain('after 3 attempts');
    await strict.close();
    server.faults.clear();
    fault({ kind: 'truncate', afterBytes: 5_000 }, { times: 5 });
    await expectWhole(await download({}, client({ limits: { forgivingProgressBytes: 5_000 } })));
  });
});

describe('F17: bodies that drip', () => {
  it('ends a body that drips by the least throughput', async () => {
    await start();
    fault({ kind: 'drip', bytes: 1, everyMs: 5 }, { times: 'always' });
    const limits = { slowestBytesPerSecond: 1_000_000, slowestOverMs: 50 };
    const error = await errorOf(download({}, client({ limits })));
    expect(error.message).toMatch(/only \d+ bytes arrived in [\d.]+ m?s after 3 attempts/);
  });

  it('ends a body that drips by the deadline', async () => {
    await start();
    fault({ kind: 'drip', bytes: 1, everyMs: 5 }, { times: 'always' });
    const error = await errorOf(download({}, client({ limits: { fileDeadlineMs: 100 } })));
    expect(error.message).toContain('took longer than 100 ms');
  });

  it('interrupts a body that drips', async () => {
    await start();
    fault({ kind: 'drip', bytes: 1, everyMs: 5 }, { times: 'always' });
    const stop = new AbortController();
    const request = { entry: await entry(), directory, refresh, onBytes: () => stop.abort() };
    expect((await errorOf(feed.download(request, stop.signal))).name).toBe('InterruptedError');
  });
});

describe('F22: links that expire', () => {
  const HOUR_MS = 3_600_000;

  it.each([401, 403, 404, 410])(
    'M8 M9 replaces a link that answers %i, and the download goes on',
    async (status) => {
      await start();
      fault({ kind: 'truncate', afterBytes: 10_000 });
      fault({ kind: 'respond', status }, { nth: 2 });
      const result = await download();
      expect(server.requests.entries('manifest')).toHaveLength(1 + 1);
      await expectWhole(result);
      expect(fileRequests()).toEqual([
        { status: 200, range: null },
        { status, range: 'bytes=10000-' },
        { status: 206, range: 'bytes=10000-' },
      ]);
    },
  );

  it('replaces links that expire while files are queued, once for all of them', async () => {
    await start({ files: { filesPerSnapshot: 4 } });
    const stale = await entry();
    server.clock.advance(HOUR_MS);
    let refreshes = 0;
    const counting = () => {
      refreshes += 1;
      return refresh();
    };
    const one = client({ downloads: { allowedOrigins: [], concurrency: 1 } });
    expect(await download({ entry: stale, refresh: counting }, one)).toMatchObject({ kind: 'complete' });
    expect(refreshes).toBe(1);
  });

  it('M8 replaces a link a few times, with growing waits, before the attempt ends', async () => {
    await start();
    fault({ kind: 'respond', status: 403 }, { times: 'always' });
    const clock = impatientClock();
    const error = await errorOf(download({}, client({ clock })));
    expect(server.requests.entries('manifest')).toHaveLength(1 + 3);
    expect(clock.sleptMs).toEqual([500, 1_000]);
    expect(error.name).toBe('ServiceUnavailableError');
    expect(error.message).toContain('its link has expired (403), and 3 fresh links did not open either');
  });

  it('a download is superseded where the manifest names a newer version', async () => {
    await start();
    const stale = await entry();
    server.publisher.publish('parcels', smallContent(numberedRows(7)));
    server.clock.advance(HOUR_MS);
    const result = await download({ entry: stale });
    expect(result).toMatchObject({ kind: 'superseded', entry: { version: 2 } });
  });

  it('a download is superseded where the manifest no longer lists the dataset', async () => {
    await start();
    const stale = await entry();
    server.clock.advance(HOUR_MS);
    expect(await download({ entry: stale, refresh: async () => null })).toEqual({
      kind: 'superseded',
      entry: null,
    });
  });

  it('a refused manifest ends a download whose link expired with the refusal', async () => {
    await start();
    const stale = await entry();
    server.clock.advance(HOUR_MS);
    server.access.refuse({ kind: 'subscription', subscriptionId: 'sub_1' }, { code: 'not_distributable' });
    expect(
      (await errorOf(feed.download({ entry: stale, directory, refresh, onBytes() {} }, signal))).name,
    ).toBe('RefusalError');
  });
});

describe('F43: content that is not what the manifest states', () => {
  it('F43 fetches a file that differs from its manifest again', async () => {
    await start();
    fault({ kind: 'flipBit', atByte: 500 }, { times: 2 });
    await expectWhole(await download());
    expect(fileRequests()).toHaveLength(3);
  });

  it('F43 fails after three downloads with the file, the stated and the found digest', async () => {
    await start();
    fault({ kind: 'flipBit', atByte: 500 }, { times: 'always' });
    const error = await errorOf(download());
    expect(error.code).toBe('content_mismatch');
    expect(error.message).toMatch(
      /^The file part-0\.parquet of dataset parcels, version 1 differs from what its manifest states: stated sha256 [\da-f]{64}, found sha256 [\da-f]{64}, in each of 3 downloads\.$/,
    );
    expect(fileRequests()).toHaveLength(3);
    expect(readdirSync(directory)).toEqual([]);
  });

  it.each([1, -1])('F43 does not load a file whose length is %i bytes off', async (difference) => {
    await start();
    const { files, ...rest } = await entry();
    const wrong = files.map((file) => ({ ...file, bytes: (file.bytes ?? 0) + difference }));
    const error = await errorOf(download({ entry: { ...rest, files: wrong } }));
    expect(error.code).toBe('content_mismatch');
    expect(error.message).toMatch(/stated \d+ bytes, found \d+ bytes/);
    expect(readdirSync(directory)).toEqual([]);
  });

  it('F43 stops an endless file where it is longer than stated', async () => {
    await start();
    const endless = async function* () {
      for (;;) yield new Uint8Array(100_000);
    };
    fault({ kind: 'stream', status: 200, body: endless }, { times: 'always' });
    expect((await errorOf(download())).message).toMatch(/stated \d+ bytes, found \d+ bytes/);
  });
});

describe('the disk of a download', () => {
  it('a download notices a disk that would be too full before any request', async () => {
    await start();
    const tight = client({ diskReserveBytes: Number.MAX_SAFE_INTEGER });
    const error = await errorOf(download({}, tight));
    expect(error.code).toBe('disk_full');
    expect(error.message).toContain(`Not enough space in ${directory}: the files of dataset parcels need`);
    expect(fileRequests()).toEqual([]);
  });

  it('a download names a folder that does not exist', async () => {
    await start({ files: { bytes: false } });
    const error = await errorOf(download({ directory: join(directory, 'missing') }));
    expect(error.name).toBe('StorageError');
    expect(error.message).toContain(join(directory, 'missing'));
  });
});
