/**
 * F53 content that is replaced while it is downloaded, where the service states no digests: a snapshot has the files of one
 * content, whatever is replaced, expires or is left of an earlier download.
 */

import { createHash } from 'node:crypto';
import { readdirSync, readFileSync, rmSync } from 'node:fs';
import { mkdtemp } from 'node:fs/promises';
import type { ServerResponse } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import type { FileSettings } from '../../fixtures/feed/settings.ts';
import type { Row } from '../../fixtures/source/content.ts';
import type { Download, Feed } from '../../src/feed/feed.ts';
import type { ManifestEntry, ManifestFile } from '../../src/model/manifest.ts';
import { inMirror } from '../support/duckdb-mirror.ts';
import { CANARY_KEY, errorOf, impatientClock, testFeed } from '../support/feed-client.ts';
import { type OwnServer, ownServer } from '../support/own-server.ts';
import { withRealMirror } from '../support/served-world.ts';
import { numberedRows, smallContent } from '../support/small-content.ts';
import { kinds } from '../support/small-world.ts';

const signal = new AbortController().signal;

/** How files carry entity tags: strong ones, none, or those that promise no more than the same meaning. */
type Tags = 'strong' | 'none' | 'weak';

interface Bucket {
  readonly server: OwnServer;
  /** By path: what is served there now. */
  readonly files: Map<string, string>;
  tags: Tags;
  /** Links that were signed before this number have expired. */
  goodFrom: number;
  /** Whether a part is sent without a tag, whatever the request says that it has to be a part of. */
  ignoresIfRange: boolean;
  /** After so many bytes the connection ends, once. */
  cutAfter: number | null;
  /** Called before each answer, with the number of requests so far. */
  before: (request: number) => void;
}

async function bucketOf(files: Readonly<Record<string, string>>): Promise<Bucket> {
  const bucket: Omit<Bucket, 'server'> = {
    files: new Map(Object.entries(files)),
    tags: 'strong',
    goodFrom: 0,
    ignoresIfRange: false,
    cutAfter: null,
    before: () => {},
  };
  let requests = 0;
  const server = await ownServer(({ url = '', headers }, response) => {
    requests += 1;
    bucket.before(requests);
    const [path = '', signature = ''] = url.split('?');
    const content = bucket.files.get(path);
    if (Number(signature) < bucket.goodFrom || content === undefined) response.writeHead(403).end();
    else answer(bucket, Buffer.from(content), headers, response);
  });
  return Object.assign(bucket, { server });
}

function answer(
  bucket: Omit<Bucket, 'server'>,
  content: Buffer,
  headers: OwnServer['seen'][number]['headers'],
  response: ServerResponse,
): void {
  const etag = `"${content.toString('hex')}"`;
  const tag = { strong: { etag }, weak: { etag: `W/${etag}` }, none: {} }[bucket.tags];
  if (bucket.tags !== 'none' && headers['if-none-match'] === etag) {
    response.writeHead(304, tag).end();
    return;
  }
  const from = /^bytes=(\d+)-$/.exec(headers.range ?? '')?.[1];
  if (from !== undefined && (bucket.ignoresIfRange || headers['if-range'] === etag)) {
    const range = { 'content-range': `bytes ${from}-${content.length - 1}/${content.length}` };
    response.writeHead(206, bucket.ignoresIfRange ? range : { ...range, ...tag });
    response.end(content.subarray(Number(from)));
    return;
  }
  response.writeHead(200, { ...tag, 'content-length': content.length });
  if (bucket.cutAfter === null) {
    response.end(content);
    return;
  }
  response.write(content.subarray(0, bucket.cutAfter), () => response.destroy());
  bucket.cutAfter = null;
}

/** What looks like Parquet, and says what it is. All are of one length. */
const parquetOf = (text: string): string => `PAR1${text.padEnd(20)}\0\0\0\0PAR1`;

const OLD = { '/a': parquetOf('old a'), '/b': parquetOf('old b') };
const NEW = { '/a': parquetOf('new a'), '/b': parquetOf('new b') };

function replaceAll(bucket: Bucket, files: Readonly<Record<string, string>>): void {
  for (const [path, content] of Object.entries(files)) bucket.files.set(path, content);
}

/** Replaces the content before the second request is answered, and lets the links expire. */
function replaceAndExpire(bucket: Bucket): void {
  bucket.before = (request) => {
    if (request !== 2) return;
    replaceAll(bucket, NEW);
    bucket.goodFrom = 1;
  };
}

/** Lets the links expire before the second request is answered. */
function expire(bucket: Bucket): void {
  bucket.before = (request) => {
    if (request === 2) bucket.goodFrom = 1;
  };
}

/** An entry whose links are signed with `signature`. */
function entryOf(
  { server }: Bucket,
  signature = 0,
  paths: readonly string[] = ['/a', '/b'],
  stated: Partial<ManifestFile> = {},
): ManifestEntry {
  const files = paths.map((path) => ({
    url: `${server.url}${path}?${signature}`,
    bytes: null,
    rowCount: null,
    sha256: null,
    ...stated,
  }));
  return { datasetId: 'parcels', version: 1, schemaVersion: null, rowCount: null, files };
}

interface Downloader {
  readonly directory: string;
  readonly feed: Feed;
  get(entry: ManifestEntry, ...renewed: readonly ManifestEntry[]): Promise<Download>;
}

/** Downloads one file after the other, as one process does; each renewal of the entry gives the next of those given, or the last. */
async function downloaderOf(
  { server }: Bucket,
  options: Parameters<typeof testFeed>[1] & { readonly directory?: string } = {},
): Promise<Downloader> {
  const directory = options.directory ?? (await mkdtemp(join(tmpdir(), 'feed-one-content-')));
  onTestFinished(() => rmSync(directory, { recursive: true, force: true }));
  const downloads = { allowedOrigins: [], concurrency: 1 };
  const { feed } = testFeed(server.url, { clock: impatientClock(), downloads, ...options });
  onTestFinished(() => feed.close());
  return {
    directory,
    feed,
    get(entry, ...renewed) {
      let reading = 0;
      const refresh = async (): Promise<ManifestEntry> => {
        reading += 1;
        return renewed[Math.min(reading, renewed.length) - 1] ?? entry;
      };
      return feed.download({ entry, directory, refresh, onBytes() {} }, signal);
    },
  };
}

/** What was downloaded: the words in each file. */
function wordsOf(download: Download): readonly string[] {
  if (download.kind !== 'complete') throw new Error(`expected a complete download, got ${download.kind}`);
  return download.files.map(({ path }) =>
    readFileSync(path, 'utf8')
      .replaceAll(/PAR1|\0/g, '')
      .trim(),
  );
}

/** What was asked for, in order: the path, and whether it was asked whether the file has changed. */
function asked({ server }: Bucket): readonly string[] {
  return server.seen.map(
    ({ path, headers }) => `${headers['if-none-match'] === undefined ? 'get' : 'same?'} ${path}`,
  );
}

describe('F53 content that is replaced in its place', () => {
  it('F53 loads no content that is replaced between two files, and only the new content at the next download', async () => {
    const bucket = await bucketOf(OLD);
    const { get } = await downloaderOf(bucket);
    bucket.before = (request) => request === 2 && replaceAll(bucket, NEW);
    const entry = entryOf(bucket);
    const renewed = entryOf(bucket, 1);
    expect(await get(entry, renewed)).toEqual({ kind: 'superseded', entry: renewed });
    const before = asked(bucket).length;
    expect(wordsOf(await get(renewed))).toEqual(['new a', 'new b']);
    expect(asked(bucket).slice(before)).toEqual(['same? /a?1', 'same? /b?1', 'same? /a?1', 'same? /b?1']);
  });

  it('F53 loads no content that is replaced while a link expires', async () => {
    const bucket = await bucketOf(OLD);
    const { get } = await downloaderOf(bucket);
    replaceAndExpire(bucket);
    expect(await get(entryOf(bucket), entryOf(bucket, 1))).toMatchObject({ kind: 'superseded' });
    expect(wordsOf(await get(entryOf(bucket, 1)))).toEqual(['new a', 'new b']);
  });

  it.each(['none', 'weak'] as const)(
    'F53 loads no content that is replaced while a link expires, with tags: %s',
    async (tags) => {
      const bucket = await bucketOf(OLD);
      bucket.tags = tags;
      const { get } = await downloaderOf(bucket);
      replaceAndExpire(bucket);
      const renewed = entryOf(bucket, 1);
      expect(await get(entryOf(bucket), renewed)).toEqual({ kind: 'superseded', entry: renewed });
      const before = asked(bucket).length;
      expect(wordsOf(await get(renewed))).toEqual(['new a', 'new b']);
      expect(asked(bucket).slice(before)).toEqual(['get /a?1', 'get /b?1']);
    },
  );

  it('F53 loads no mixture of content that is replaced between downloads in two processes', async () => {
    const bucket = await bucketOf(OLD);
    const first = await downloaderOf(bucket, { retry: { maxAttempts: 1, baseDelayMs: 1, maxDelayMs: 1 } });
    bucket.before = (request) => {
      if (request === 2) bucket.cutAfter = 10;
    };
    expect((await errorOf(first.get(entryOf(bucket)))).name).toBe('ServiceUnavailableError');
    replaceAll(bucket, { '/b': NEW['/b'] });
    const { directory } = first;
    const second = await downloaderOf(bucket, { directory });
    bucket.before = (request) => request === 4 && replaceAll(bucket, NEW);
    expect(await second.get(entryOf(bucket, 1))).toMatchObject({ kind: 'superseded' });
    expect(wordsOf(await second.get(entryOf(bucket, 2)))).toEqual(['new a', 'new b']);
  });

  it('F53 loads no content that is replaced where one file of the two has a stated digest', async () => {
    const bucket = await bucketOf(OLD);
    const { get } = await downloaderOf(bucket);
    bucket.before = (request) => request === 2 && replaceAll(bucket, NEW);
    const sha256 = createHash('sha256').update(OLD['/a']).digest('hex');
    const { files, ...rest } = entryOf(bucket);
    const entry = { ...rest, files: files.map((file, place) => (place === 0 ? { ...file, sha256 } : file)) };
    const renewed = entryOf(bucket, 1);
    expect((await errorOf(get(entry, renewed))).message).toContain('differs from what its manifest states');
  });
});

describe('F53 files that were downloaded before', () => {
  it('F53 keeps a file whose tag is the same, and does not fetch it again by a fresh link', async () => {
    const bucket = await bucketOf(OLD);
    const { get } = await downloaderOf(bucket);
    expire(bucket);
    expect(await get(entryOf(bucket), entryOf(bucket, 1))).toMatchObject({
      kind: 'complete',
      digestKind: 'computed',
      isSurelyOneContent: true,
    });
    expect(asked(bucket)).toEqual(['get /a?0', 'get /b?0', 'get /b?1', 'same? /a?1', 'same? /b?1']);
  });

  it('F53 takes a file for another where the renewed entry has it elsewhere, whatever the tags say', async () => {
    const bucket = await bucketOf({ ...OLD, '/c': OLD['/a'] });
    const { get } = await downloaderOf(bucket);
    expire(bucket);
    const renewed = entryOf(bucket, 1, ['/c', '/b']);
    expect(await get(entryOf(bucket), renewed)).toEqual({ kind: 'superseded', entry: renewed });
  });

  it('F53 takes a file for another where the renewed entry states other rows', async () => {
    const bucket = await bucketOf(OLD);
    const { get } = await downloaderOf(bucket);
    expire(bucket);
    const renewed = entryOf(bucket, 1, ['/a', '/b'], { rowCount: 7 });
    expect(await get(entryOf(bucket), renewed)).toEqual({ kind: 'superseded', entry: renewed });
  });

  it('F53 loads files without tags and expired links as they came, and not as surely one content', async () => {
    const bucket = await bucketOf(OLD);
    bucket.tags = 'none';
    const { get } = await downloaderOf(bucket);
    const download = await get(entryOf(bucket));
    expect(download).toMatchObject({ kind: 'complete', isSurelyOneContent: false });
    expect(wordsOf(download)).toEqual(['old a', 'old b']);
    expect(asked(bucket)).toEqual(['get /a?0', 'get /b?0']);
  });

  it('F53 does not recognise a file by the tag of earlier content', async () => {
    const bucket = await bucketOf(OLD);
    const { get, directory } = await downloaderOf(bucket);
    await get(entryOf(bucket, 0, ['/a']));
    bucket.tags = 'none';
    replaceAll(bucket, NEW);
    expect(wordsOf(await get(entryOf(bucket, 0, ['/a'])))).toEqual(['new a']);
    expect(readdirSync(directory)).toHaveLength(1);
  });

  it('F53 does not keep a file where another length is stated now', async () => {
    const bucket = await bucketOf(OLD);
    const { get } = await downloaderOf(bucket);
    await get(entryOf(bucket, 0, ['/a']));
    expect((await errorOf(get(entryOf(bucket, 0, ['/a'], { bytes: 7 })))).message).toContain(
      'stated 7 bytes',
    );
  });

  it('F53 does not continue a file with a rest that has no tag', async () => {
    const bucket = await bucketOf(OLD);
    const { get } = await downloaderOf(bucket);
    bucket.cutAfter = 10;
    bucket.ignoresIfRange = true;
    bucket.before = (request) => request === 2 && replaceAll(bucket, NEW);
    expect(wordsOf(await get(entryOf(bucket, 0, ['/a'])))).toEqual(['new a']);
  });

  it('F53 does not keep a file unasked though all of its bytes are there', async () => {
    const bucket = await bucketOf(OLD);
    const { feed, directory } = await downloaderOf(bucket);
    const stop = new AbortController();
    const request = { directory, refresh: async () => null };
    let bytes = 0;
    const onBytes = (more: number): void => {
      bytes += more;
      if (bytes === OLD['/a'].length) stop.abort();
    };
    const entry = entryOf(bucket, 0, ['/a']);
    expect((await errorOf(feed.download({ ...request, entry, onBytes }, stop.signal))).name).toBe(
      'InterruptedError',
    );
    replaceAll(bucket, NEW);
    expect(wordsOf(await feed.download({ ...request, entry, onBytes() {} }, signal))).toEqual(['new a']);
  });

  it('F53 tries files again later whose links expire before they can be asked about', async () => {
    const bucket = await bucketOf(OLD);
    const { get } = await downloaderOf(bucket);
    bucket.before = (request) => {
      if (request % 3 === 0) bucket.goodFrom += 1;
    };
    const renewed = Array.from({ length: 9 }, (_, reading) => entryOf(bucket, reading + 1));
    const error = await errorOf(get(entryOf(bucket), ...renewed));
    expect(error.name).toBe('ServiceUnavailableError');
    expect(error.message).toContain('their links expire before all of them were asked about');
  });
});

/** A mirror of permits, whose content `replace` replaces: the ids of its rows begin with "old", then with "new". */
async function withPermits(files: Partial<FileSettings>) {
  const downloads = { allowedOrigins: [], concurrency: 1 };
  const world = await withRealMirror({ apiKey: CANARY_KEY, files }, { downloads });
  Object.assign(world.parts.choices, { include: ['permits'] });
  const { publisher, faults } = world.feed;
  const rowsOf = (name: string): Row[] =>
    numberedRows(40).map(([, amount = null]) => [`${name} ${amount}`, amount]);
  publisher.publish('permits', smallContent(rowsOf('old')));
  return {
    faults,
    replace: async (): Promise<void> => {
      publisher.resync('permits', 'source_retired', { content: smallContent(rowsOf('new')) });
    },
    async expectLoadedNew(): Promise<void> {
      expect(kinds(await world.catchUp())).toMatchObject({ permits: 'loaded' });
      const names = await inMirror(world.folder, "SELECT DISTINCT split_part(id, ' ', 1) FROM permits");
      expect(names).toEqual([['new']]);
    },
  };
}

it('F53 a table has the rows of one content, though it is replaced and a link expires during the download', async () => {
  const files = { sha256: false, bytes: false, rowCount: false, filesPerSnapshot: 2 };
  const { faults, replace, expectLoadedNew } = await withPermits(files);
  const match = { operation: 'file', datasetId: 'permits', nth: 2 } as const;
  faults.add({ match, act: { kind: 'wait', until: replace } });
  faults.add({ match, act: { kind: 'respond', status: 403 } });
  await expectLoadedNew();
});

it('F53 a table has the rows of one content, though only the log says that it is replaced during the download', async () => {
  const files = {
    sha256: false,
    bytes: false,
    rowCount: false,
    etag: false,
    addresses: 'dataset',
    filesPerSnapshot: 2,
  } as const;
  const { faults, replace, expectLoadedNew } = await withPermits(files);
  faults.add({
    match: { operation: 'file', datasetId: 'permits', nth: 2 },
    act: { kind: 'wait', until: replace },
  });
  await expectLoadedNew();
});
