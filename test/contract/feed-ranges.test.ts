/** Large files in ranges side by side, from the real fixture server: whatever becomes of a range, the file is whole and of one content. */

import { createCipheriv, createHash } from 'node:crypto';
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Act, FaultMatch } from '../../fixtures/feed/faults.ts';
import { type FixtureFeed, startFixtureFeed } from '../../fixtures/feed/feed.ts';
import type { FileSettings } from '../../fixtures/feed/settings.ts';
import type { Download, DownloadRequest, Feed } from '../../src/feed/feed.ts';
import { present } from '../../src/lib/assert.ts';
import type { ManifestEntry } from '../../src/model/manifest.ts';
import { CANARY_KEY, errorOf, impatientClock, testFeed } from '../support/feed-client.ts';
import { numberedRows, smallContent } from '../support/small-content.ts';

const never = new AbortController().signal;

/** More than is buffered for a slow reader, so that ranges begin in the midst of it. */
const FILE_BYTES = 6_000_000;

/** Every file that is longer than a few ranges is far enough away. */
const RANGES = {
  fromBytes: 50_000,
  atOnce: 4,
  maxRangeBytes: 200_000,
  minRangeBytes: 200_000,
  rangeMs: 3_600_000,
  slowestRangeMs: 3_600_000,
  measureMs: 0.001,
  worthMs: 0,
};

let server: FixtureFeed;
let feed: Feed;
let served: string;
let directory: string;

async function start(files: Partial<FileSettings> = {}): Promise<void> {
  server = await startFixtureFeed({ apiKey: CANARY_KEY, files });
  server.publisher.subscribe({ subscriptionId: 'sub_1', datasetIds: ['parcels'] });
  server.publisher.addDataset({ datasetId: 'parcels' });
  await publish(1);
  feed = client();
}

/** Publishes a file that looks like Parquet, with noise that differs by `seed`. */
async function publish(seed: number): Promise<void> {
  const noise = createCipheriv('aes-128-ctr', Buffer.alloc(16, seed), Buffer.alloc(16)).update(
    Buffer.alloc(FILE_BYTES),
  );
  noise.write('PAR1');
  noise.write('\0\0\0\0PAR1', FILE_BYTES - 8);
  const path = join(served, `${seed}`);
  await writeFile(path, noise);
  const file = { path, bytes: FILE_BYTES, rowCount: 1, sha256: sha256Of(noise) };
  server.publisher.publish('parcels', { ...smallContent(numberedRows(1)), files: [file] });
}

function client(options: Parameters<typeof testFeed>[1] = {}): Feed {
  const limits = { ranges: RANGES, ...options.limits };
  return testFeed(server.baseUrl, { clock: impatientClock(), ...options, limits }).feed;
}

beforeEach(async () => {
  served = await mkdtemp(join(tmpdir(), 'feed-served-'));
  directory = await mkdtemp(join(tmpdir(), 'feed-ranges-'));
});
afterEach(async () => {
  await feed.close();
  await server.close();
  for (const folder of [served, directory]) await rm(folder, { recursive: true, force: true });
});

async function refresh(): Promise<ManifestEntry> {
  const { datasets } = await feed.manifest('sub_1', never);
  return present(datasets[0], 'the manifest lists the dataset');
}

async function download(
  request: Partial<DownloadRequest> = {},
  by = feed,
  signal = never,
): Promise<Download> {
  const defaults = { entry: await refresh(), directory, refresh, onBytes() {} };
  return by.download({ ...defaults, ...request }, signal);
}

/** The first request for the file is the 1st, and that of the first range the 2nd. */
function fault(act: Act, match: FaultMatch = {}): void {
  server.faults.add({ match: { operation: 'file', ...match }, act });
}

interface Asked {
  readonly status: number | null;
  readonly from: number;
  /** Null: up to the end of the file. */
  readonly to: number | null;
}

function asked(): readonly Asked[] {
  return server.requests.entries('file').map(({ status, range }) => {
    const [, from = '0', to = ''] = /^bytes=(\d+)-(\d*)$/.exec(range ?? '') ?? [];
    return { status, from: Number(from), to: to === '' ? null : Number(to) };
  });
}

/** Requests for the file from some byte to its end. */
function streams(): readonly Asked[] {
  return asked().filter(({ to }) => to === null);
}

function sha256Of(content: Buffer): string {
  return createHash('sha256').update(content).digest('hex');
}

/** Returns the bytes of the finished file, which must have the stated digest and be the only file. */
function finished(result: Download): Buffer {
  if (result.kind !== 'complete') throw new Error(`expected a complete download, got ${result.kind}`);
  const { path, sha256 } = present(result.files[0], 'there is a file');
  const content = readFileSync(path);
  expect(sha256Of(content)).toBe(sha256);
  expect(readdirSync(directory).filter((name) => name.includes('.part'))).toEqual([]);
  return content;
}

async function expectWhole(result: Download): Promise<Buffer> {
  const content = finished(result);
  expect(sha256Of(content)).toBe((await refresh()).files[0]?.sha256);
  return content;
}

describe('files in ranges', () => {
  it('a large file goes on in ranges, each requested once, which are counted as they are written', async () => {
    await start();
    let counted = 0;
    const onBytes = (bytes: number): void => {
      counted += bytes;
    };
    const { length } = await expectWhole(await download({ onBytes }));
    expect(counted).toBe(length);
    const [first, ...ranges] = asked();
    expect(first).toEqual({ status: 200, from: 0, to: null });
    expect(ranges.length).toBeGreaterThan(4);
    expect(new Set(ranges.map(({ status }) => status))).toEqual(new Set([206]));
    const sorted = ranges.toSorted((one, other) => one.from - other.from);
    expect(sorted.slice(1).map(({ from }) => from)).toEqual(
      sorted.slice(0, -1).map(({ to }) => Number(to) + 1),
    );
    expect(sorted.at(-1)?.to).toBe(length - 1);
    expect(new Set(server.requests.entries('file').map(({ ifRange }) => ifRange)).size).toBe(2);
  });

  it('ranges arrive side by side', async () => {
    await start();
    const third = Promise.withResolvers<void>();
    let requests = 0;
    server.onRequest(({ operation }) => {
      if (operation === 'file') requests += 1;
      if (requests === 4) third.resolve();
    });
    fault({ kind: 'wait', until: () => third.promise }, { nth: 2, times: 2 });
    await expectWhole(await download());
  });

  it.each([
    ['smaller than the bound', { fromBytes: FILE_BYTES + 1 }],
    ['that one stream brings soon', { worthMs: 3_600_000 }],
    ['that comes over a slow line', { minRangeBytes: 200_001 }],
    ['whose ranges may not be several', { atOnce: 1 }],
  ])('a file %s is one stream', async (_, limits) => {
    await start();
    await expectWhole(await download({}, client({ limits: { ranges: { ...RANGES, ...limits } } })));
    expect(asked()).toHaveLength(1);
  });

  it('a file without a strong tag is one stream', async () => {
    await start({ etag: false });
    await expectWhole(await download());
    expect(asked()).toHaveLength(1);
  });

  it.each([2, 3])('with %i connections one is left to other requests', async (connections) => {
    await start({ urls: 'base-origin' });
    const http = { timeoutMs: 60_000, connections, maxJsonBytes: 1_000_000, maxRetryAfterMs: 900_000 };
    const few = client({ http });
    const waiting = Promise.withResolvers<void>();
    const arrived = Promise.withResolvers<void>();
    let requests = 0;
    server.onRequest(({ operation }) => {
      if (operation === 'file') requests += 1;
      if (requests === connections - 1) arrived.resolve();
    });
    fault({ kind: 'wait', until: () => waiting.promise }, { nth: connections - 1 });
    const downloading = download({}, few);
    await arrived.promise;
    await few.manifest('sub_1', never);
    waiting.resolve();
    await expectWhole(await downloading);
    expect(asked().length > 1).toBe(connections > 2);
  });
});

describe('F16 F22: ranges that fail', () => {
  it.each(['truncate', 'reset'] as const)(
    'a range that is cut by %s goes on where it stopped',
    async (kind) => {
      await start();
      fault({ kind, afterBytes: 40_000 }, { nth: 3 });
      await expectWhole(await download());
      const { from, to } = present(asked()[2], 'the cut range was requested');
      expect(asked()).toContainEqual({ status: 206, from: from + 40_000, to });
      expect(streams()).toHaveLength(1);
    },
  );

  it('a range that fails again and again leaves what came before it, and fewer are requested at once', async () => {
    await start();
    fault({ kind: 'respond', status: 500 }, { nth: 5, times: 'always' });
    const failed = await errorOf(download());
    expect(failed.message).toMatch(/answered 500 after 3 attempts/);
    server.faults.clear();
    const before = statSync(
      join(
        directory,
        present(
          readdirSync(directory).find((name) => name.endsWith('.part')),
          'a part',
        ),
      ),
    );
    await expectWhole(await download());
    expect(before.size).toBeGreaterThan(20_000);
    expect(streams().map(({ from }) => from)).toContain(before.size);
  });

  it.each([
    ['answers 200 to ranges', { kind: 'ignoreRange' }],
    ['answers 416 to ranges', { kind: 'respond', status: 416 }],
    ['refuses several requests at once', { kind: 'respond', status: 429 }],
    ['has no time for ranges', { kind: 'respond', status: 503 }],
    ['lets links expire at once', { kind: 'respond', status: 403 }],
    ['sends another range', { kind: 'headers', headers: { 'content-range': 'bytes 0-1/2' } }],
    ['sends another tag', { kind: 'headers', headers: { etag: '"another"' } }],
  ] as const)('a service that %s loses nothing: the first stream brings the file', async (_, act) => {
    await start();
    fault(act, { nth: 2, times: 'always' });
    await expectWhole(await download());
    expect(streams()).toEqual([{ status: 200, from: 0, to: null }]);
    expect(server.requests.entries('manifest')).toHaveLength(2);
  });

  it('a range that is answered with the whole file ends ranges, and starts over', async () => {
    await start();
    fault({ kind: 'ignoreRange' }, { nth: 6, times: 'always' });
    await expectWhole(await download());
    expect(streams().map(({ status }) => status)).toEqual([200, 200]);
  });

  it('a range with a flipped bit is noticed, and one stream brings the file', async () => {
    await start();
    fault({ kind: 'flipBit', atByte: 100 }, { nth: 4 });
    await expectWhole(await download());
    const again = asked().findLastIndex(({ from, to }) => from === 0 && to === null);
    expect(asked().slice(again)).toHaveLength(1);
  });

  it('M8 M9 a link that expires between ranges is replaced, and the file goes on where it stopped', async () => {
    await start();
    fault({ kind: 'respond', status: 403 }, { nth: 6 });
    const result = await download();
    expect(server.requests.entries('manifest')).toHaveLength(2);
    await expectWhole(result);
    expect(streams()).toHaveLength(2);
    expect(streams()[1]).toMatchObject({ status: 206 });
    expect(streams()[1]?.from).toBeGreaterThan(20_000);
  });

  it.each([2, 3, 5, 8])('F53 content that is replaced before request %i is never mixed', async (nth) => {
    await start({ addresses: 'dataset', sha256: false, bytes: false });
    const old = finished(await download());
    await rm(directory, { recursive: true });
    directory = await mkdtemp(join(tmpdir(), 'feed-ranges-'));
    let requests = 0;
    const published = Promise.withResolvers<void>();
    server.onRequest(({ operation }) => {
      if (operation === 'file') requests += 1;
      if (operation === 'file' && requests === nth) publish(2).then(published.resolve, published.reject);
    });
    fault({ kind: 'wait', until: () => published.promise }, { nth });
    const content = finished(await download({}, client()));
    await rm(directory, { recursive: true });
    directory = await mkdtemp(join(tmpdir(), 'feed-ranges-'));
    const now = finished(await download({}, client({ limits: { ranges: { ...RANGES, atOnce: 1 } } })));
    expect([sha256Of(old), sha256Of(now)]).toContain(sha256Of(content));
    expect(sha256Of(now)).not.toBe(sha256Of(old));
  });
});

describe('ranges of a download that is stopped', () => {
  it('a part has no holes, and another process goes on at its end', async () => {
    await start();
    const stop = new AbortController();
    let counted = 0;
    const onBytes = (bytes: number): void => {
      counted += bytes;
      if (counted > 2_000_000) stop.abort();
    };
    expect((await errorOf(download({ onBytes }, feed, stop.signal))).name).toBe('InterruptedError');
    const name = present(
      readdirSync(directory).find((one) => one.endsWith('.part')),
      'there is a part',
    );
    const part = readFileSync(join(directory, name));
    expect(part.length).toBeGreaterThan(2_000_000);
    const whole = await expectWhole(await download({}, client()));
    expect(whole.subarray(0, part.length).equals(part)).toBe(true);
    expect(streams().at(-1)).toEqual({ status: 206, from: part.length, to: null });
  });
});
