/**
 * Ranges of a large file from a service, a proxy or a disk that means no good: nothing of the key is stored, no content is mixed, and
 * nothing that one of them can do keeps the file from arriving for good.
 */

import { createCipheriv } from 'node:crypto';
import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import type { ServerResponse } from 'node:http';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import type { Download } from '../../src/feed/feed.ts';
import { present } from '../../src/lib/assert.ts';
import type { ManifestEntry } from '../../src/model/manifest.ts';
import { temporaryFolder } from '../support/duckdb-mirror.ts';
import { CANARY_KEY, errorOf, impatientClock, testFeed } from '../support/feed-client.ts';
import { ownServer } from '../support/own-server.ts';
import { until } from '../support/patience.ts';

const never = new AbortController().signal;
const FILE_BYTES = 6_000_000;
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
const KEY = Buffer.from(CANARY_KEY);
const HALF = 16;
const TAG = '"one"';

/** Looks like Parquet, with noise that has no beginning of the key by chance alone. */
const CONTENT = createCipheriv('aes-128-ctr', Buffer.alloc(16, 1), Buffer.alloc(16)).update(
  Buffer.alloc(FILE_BYTES),
);
CONTENT.write('PAR1');
CONTENT.write('\0\0\0\0PAR1', FILE_BYTES - 8);

interface Asked {
  /** Counted from 1. */
  readonly nth: number;
  readonly from: number;
  /** Null: up to the end of the file. */
  readonly end: number | null;
  readonly ifRange: string | undefined;
}

/** Changes an answer, which is sent unless this has sent one itself and returns null. */
type Meddle = (asked: Asked, bytes: Buffer, response: ServerResponse, directory: string) => Buffer | null;

interface Hostile {
  readonly directory: string;
  readonly asked: readonly Asked[];
  readonly sleptMs: readonly number[];
  download(): Promise<Download>;
}

async function hostile(
  meddle: Meddle,
  limits: Partial<typeof RANGES> = {},
  sha256: string | null = null,
): Promise<Hostile> {
  const asked: Asked[] = [];
  const folder = await temporaryFolder();
  onTestFinished(() => folder[Symbol.asyncDispose]());
  const server = await ownServer(({ headers }, response) => {
    const [, from = '0', last = ''] = /^bytes=(\d+)-(\d*)$/.exec(headers.range ?? '') ?? [];
    const end = last === '' ? null : Number(last) + 1;
    const ifRange = headers['if-range']?.toString();
    const one = { nth: asked.length + 1, from: Number(from), end, ifRange };
    asked.push(one);
    response.setHeader('etag', TAG);
    if (headers.range !== undefined) {
      response.statusCode = 206;
      response.setHeader('content-range', `bytes ${from}-${(end ?? FILE_BYTES) - 1}/${FILE_BYTES}`);
    }
    const own = Buffer.from(CONTENT.subarray(one.from, end ?? FILE_BYTES));
    const bytes = meddle(one, own, response, folder.path);
    if (bytes !== null) response.setHeader('content-length', bytes.length).end(bytes);
  });
  const clock = impatientClock();
  const { feed } = testFeed(server.url, { clock, limits: { ranges: { ...RANGES, ...limits } } });
  onTestFinished(() => feed.close());
  const files = [{ url: `${server.url}/file.parquet`, bytes: FILE_BYTES, rowCount: 1, sha256 }];
  const entry: ManifestEntry = { datasetId: 'parcels', version: 1, schemaVersion: '1', rowCount: 1, files };
  const request = { entry, directory: folder.path, refresh: async () => entry, onBytes() {} };
  return {
    asked,
    directory: folder.path,
    sleptMs: clock.sleptMs,
    download: () => feed.download(request, never),
  };
}

function stored({ directory }: Hostile): Buffer {
  const [name] = readdirSync(directory).filter((one) => one.endsWith('.parquet'));
  return readFileSync(join(directory, present(name, 'the file is whole')));
}

/** The part of the only file; null where there is none yet. */
function partIn(directory: string): string | null {
  const name = readdirSync(directory).find((one) => one.endsWith('.part'));
  return name === undefined ? null : join(directory, name);
}

/** Sends these bytes of the file, calls `then` once so many are stored, and breaks the connection. */
function breakOff(
  bytes: Buffer,
  storedBytes: number,
  response: ServerResponse,
  directory: string,
  then: (part: string) => void = () => {},
): null {
  response.setHeader('content-length', FILE_BYTES);
  response.write(bytes);
  const isStored = (): boolean => {
    const part = partIn(directory);
    return part !== null && statSync(part).size >= storedBytes;
  };
  void until('bytes that are stored', isStored).then(() => {
    then(present(partIn(directory), 'there is a part'));
    response.destroy();
  });
  return null;
}

/** Returns the names and contents of everything in the folder. */
function everything({ directory }: Hostile): readonly (readonly [string, Buffer])[] {
  return readdirSync(directory).map((name) => [name, readFileSync(join(directory, name))]);
}

describe('F45 a key that lies across two answers', () => {
  /** The end of each range is the first half of the key, and the beginning of the next one the second half. */
  const cut: Meddle = ({ end }, bytes) => {
    if (end === null) return bytes;
    KEY.copy(bytes, 0, HALF);
    if (end < FILE_BYTES) KEY.copy(bytes, bytes.length - HALF, 0, HALF);
    return bytes;
  };

  it('is found where ranges of a file meet, and no byte of it is stored', async () => {
    const world = await hostile(cut);
    const error = await errorOf(world.download());
    expect(error.message).toContain('repeats the API key');
    expect(world.asked.length).toBeGreaterThan(3);
    for (const [name, bytes] of everything(world)) {
      expect(bytes.includes(KEY), name).toBe(false);
      expect(bytes.subarray(-HALF).equals(KEY.subarray(0, HALF)), name).toBe(false);
    }
  });

  it('is reported where ranges beside the first stream contain the whole of it', async () => {
    const world = await hostile(({ end }, bytes) => {
      if (end !== null) KEY.copy(bytes, 100);
      return bytes;
    });
    expect((await errorOf(world.download())).message).toContain('repeats the API key');
    for (const [name, bytes] of everything(world)) expect(bytes.includes(KEY), name).toBe(false);
  });

  it('is found where a download goes on after an interruption', async () => {
    const world = await hostile(
      ({ nth, from }, bytes, response, directory) => {
        if (nth === 1) {
          KEY.copy(bytes, 1_000_000, 0, HALF);
          return breakOff(bytes.subarray(0, 1_000_000 + HALF), 1_000_000, response, directory);
        }
        // What is asked for begins where the first half was held back, or behind it.
        if (from === 1_000_000) KEY.copy(bytes, 0);
        else KEY.copy(bytes, 0, HALF);
        return bytes;
      },
      { atOnce: 1 },
    );
    expect((await errorOf(world.download())).message).toContain('repeats the API key');
    expect(world.asked[1]?.from).toBe(1_000_000);
    for (const [name, bytes] of everything(world)) expect(bytes.includes(KEY), name).toBe(false);
  });

  it('is found where a killed process has stored its first half', async () => {
    const sha256 = 'f'.repeat(64);
    const world = await hostile(
      (_, bytes) => {
        KEY.copy(bytes, 0, HALF);
        return bytes;
      },
      {},
      sha256,
    );
    const part = join(world.directory, `${sha256}.parquet.part`);
    writeFileSync(part, Buffer.concat([CONTENT.subarray(0, 1_000_000), KEY.subarray(0, HALF)]));
    writeFileSync(`${part}.json`, JSON.stringify({ etag: TAG, totalBytes: FILE_BYTES }));
    expect((await errorOf(world.download())).message).toContain('repeats the API key');
    expect(world.asked[0]?.from).toBe(1_000_000 + HALF);
  });

  it('is no reason to refuse a file that contains beginnings of the key alone', async () => {
    const world = await hostile(({ end }, bytes) => {
      if (end !== null && end < FILE_BYTES) KEY.copy(bytes, bytes.length - HALF, 0, HALF);
      return bytes;
    });
    expect(await world.download()).toMatchObject({ kind: 'complete' });
    expect(stored(world)).toHaveLength(FILE_BYTES);
  });
});

describe('F16 ranges that come slowly', () => {
  /** Sends a piece of the range, and then a byte now and then. */
  const dripping = (bytes: Buffer, response: ServerResponse): null => {
    response.setHeader('content-length', bytes.length);
    let at = 0;
    const timer = setInterval(() => {
      response.write(bytes.subarray(at, at + 1));
      at += 1;
      if (at === bytes.length) response.end();
    }, 5);
    response.on('close', () => clearInterval(timer));
    return null;
  };

  it('a service that delays ranges alone loses nothing: the first stream brings the file', async () => {
    const world = await hostile(
      ({ end }, bytes, response) => (end === null ? bytes : dripping(bytes, response)),
      { slowestRangeMs: 300 },
    );
    expect(await world.download()).toMatchObject({ kind: 'complete' });
    expect(stored(world).equals(CONTENT)).toBe(true);
    expect(world.asked.filter(({ end }) => end === null)).toHaveLength(1);
  });

  it('a range that stands nearly still is requested again from where it stopped', async () => {
    const world = await hostile(
      ({ nth }, bytes, response) => (nth === 4 ? dripping(bytes, response) : bytes),
      { slowestRangeMs: 300 },
    );
    expect(await world.download()).toMatchObject({ kind: 'complete' });
    expect(stored(world).equals(CONTENT)).toBe(true);
    const slow = present(world.asked[3], 'it was requested');
    expect(world.asked.some(({ from, end }) => end === slow.end && from > slow.from)).toBe(true);
    expect(world.asked.filter(({ end }) => end === null)).toHaveLength(1);
  });
});

describe('F16 F21 F22 single ranges that a service or a proxy spoils', () => {
  const once =
    (nth: number, spoil: Meddle): Meddle =>
    (asked, bytes, response, directory) =>
      asked.nth === nth ? spoil(asked, bytes, response, directory) : bytes;

  /** With other headers; null takes one away. */
  const withHeaders =
    (headersOf: (asked: Asked) => Readonly<Record<string, string | null>>): Meddle =>
    (asked, bytes, response) => {
      for (const [name, value] of Object.entries(headersOf(asked))) {
        if (value === null) response.removeHeader(name);
        else response.setHeader(name, value);
      }
      return bytes;
    };
  const withStatus =
    (status: number, headers: Readonly<Record<string, string>> = {}): Meddle =>
    (_asked, _bytes, response) => {
      response.writeHead(status, headers).end();
      return null;
    };

  const spoilt: readonly (readonly [string, Meddle])[] = [
    ['is sent compressed', withHeaders(() => ({ 'content-encoding': 'gzip' }))],
    ['ends early', (_, bytes) => bytes.subarray(0, 10)],
    [
      'is longer than stated',
      (_, bytes, response) => {
        response.setHeader('transfer-encoding', 'chunked');
        response.write(bytes);
        response.end(bytes);
        return null;
      },
    ],
    ['comes with another total', withHeaders(() => ({ 'content-range': `bytes 0-1/${FILE_BYTES + 1}` }))],
    ['comes without its place', withHeaders(() => ({ 'content-range': null }))],
    [
      'overlaps the one before',
      withHeaders(({ from, end }) => ({
        'content-range': `bytes ${from - 100}-${(end ?? 0) - 101}/${FILE_BYTES}`,
      })),
    ],
    ['comes with another tag', withHeaders(() => ({ etag: '"two"' }))],
    ...[200, 304, 403, 416, 500].map((status) => [`is answered with ${status}`, withStatus(status)] as const),
    [
      'is reset',
      (_asked, _bytes, response) => {
        response.destroy();
        return null;
      },
    ],
    ['is redirected in a circle', withStatus(302, { location: '/file.parquet' })],
    ['is redirected into a private network', withStatus(302, { location: 'http://10.0.0.1/file.parquet' })],
  ];

  it.each(spoilt.flatMap(([what, spoil]) => [2, 3, 6, 12].map((nth) => [what, nth, spoil] as const)))(
    'the file is whole where a range %s, as request %i',
    async (_, nth, spoil) => {
      const world = await hostile(once(nth, spoil));
      expect(await world.download()).toMatchObject({ kind: 'complete' });
      expect(stored(world).equals(CONTENT)).toBe(true);
      expect(world.asked.length).toBeLessThan(100);
    },
  );

  it.each([429, 503])(
    'a range that is put off by %i is waited for as long as the service says',
    async (status) => {
      const world = await hostile(once(6, withStatus(status, { 'retry-after': '7' })));
      expect(await world.download()).toMatchObject({ kind: 'complete' });
      expect(stored(world).equals(CONTENT)).toBe(true);
      expect(Math.max(...world.sleptMs)).toBeGreaterThanOrEqual(6_000);
    },
  );

  it('a range in pieces of one byte takes no more memory than its length', async () => {
    const before = process.memoryUsage();
    const world = await hostile(({ end }, bytes, response) => {
      if (end === null) return bytes;
      response.setHeader('content-length', bytes.length);
      let at = 0;
      const send = (): void => {
        for (; at < bytes.length; at += 1) if (!response.write(bytes.subarray(at, at + 1))) break;
        at += 1;
        if (at >= bytes.length) response.end();
        else response.once('drain', send);
      };
      send();
      return null;
    });
    expect(await world.download()).toMatchObject({ kind: 'complete' });
    expect(process.memoryUsage().external - before.external).toBeLessThan(100_000_000);
  });
});

describe('a part and its note that somebody altered', () => {
  const broken =
    (then: (part: string) => void = () => {}): Meddle =>
    ({ nth }, bytes, response, directory) =>
      nth > 1 ? bytes : breakOff(bytes.subarray(0, 1_000_000), 1_000_000, response, directory, then);

  it.each([
    ['a tag with a line break', JSON.stringify({ etag: '"a"\r\nx: y"', totalBytes: FILE_BYTES })],
    ['a tag that no header can carry', JSON.stringify({ etag: '"\u20ac"', totalBytes: FILE_BYTES })],
    ['a weak tag', JSON.stringify({ etag: 'W/"one"', totalBytes: FILE_BYTES })],
    ['another tag', JSON.stringify({ etag: '"two"', totalBytes: FILE_BYTES })],
    ['a smaller total', JSON.stringify({ etag: TAG, totalBytes: 1 })],
    ['a larger total', JSON.stringify({ etag: TAG, totalBytes: FILE_BYTES + 1 })],
    ['no JSON', 'x'],
  ])('a note with %s costs the part at most', async (_, note) => {
    const alter = broken((part) => writeFileSync(`${part}.json`, note));
    const world = await hostile((asked, bytes, response, directory) => {
      // The service compares tags.
      if (asked.ifRange === undefined || asked.ifRange === TAG)
        return alter(asked, bytes, response, directory);
      response.statusCode = 200;
      response.removeHeader('content-range');
      return Buffer.from(CONTENT);
    });
    expect(await world.download()).toMatchObject({ kind: 'complete' });
    expect(stored(world).equals(CONTENT)).toBe(true);
  });

  it('a tag that no header can carry back leads to one stream, begun anew after an interruption', async () => {
    const world = await hostile((asked, bytes, response, directory) => {
      response.setHeader('etag', '"\u00e9"');
      return broken()(asked, bytes, response, directory);
    });
    expect(await world.download()).toMatchObject({ kind: 'complete' });
    expect(world.asked.map(({ from, end }) => [from, end])).toEqual([
      [0, null],
      [0, null],
    ]);
  });
});
