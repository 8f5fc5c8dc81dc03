import { createHash } from 'node:crypto';
import { appendFileSync, mkdtempSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { createDigests, type Digest, type Digests } from '../../src/feed/download/digest.ts';
import { type WrittenFile, writeBody } from '../../src/feed/download/receive-file.ts';
import { InterruptedError, StorageError } from '../../src/model/errors.ts';
import { startChild } from '../support/child.ts';
import { evaluatedInThread, madeThreads } from '../support/made-threads.ts';
import { openFilesIn } from '../support/open-files.ts';

/** Several pieces of what the thread reads at once. */
const CHUNK_BYTES = 700_000;
const CHUNKS = [1, 2, 3, 4].map((number) => Buffer.alloc(CHUNK_BYTES, number));
const NEVER_APART = Number.MAX_SAFE_INTEGER;
const MAX_LAG_BYTES = 1_000_000;
const MOST_READ = 20;

function folder(): string {
  const path = mkdtempSync(join(tmpdir(), 'feed-sync-digest-'));
  onTestFinished(() => rmSync(path, { recursive: true }));
  return path;
}

function started(apartFromBytes: number, digestThreads = 1): Digests {
  const limits = { digestApartFromBytes: apartFromBytes, digestThreads, digestLagBytes: MAX_LAG_BYTES };
  const digests = createDigests(limits);
  onTestFinished(() => digests.close());
  return digests;
}

function sha256(...chunks: readonly Buffer[]): string {
  return createHash('sha256').update(Buffer.concat(chunks)).digest('hex');
}

describe.each([
  ['on this thread', NEVER_APART],
  ['on a thread of its own', 0],
])('a digest made %s', (_, apartFromBytes) => {
  it('covers what was there and what was written', async () => {
    const path = join(folder(), 'part');
    const [first = Buffer.alloc(0), ...others] = CHUNKS;
    writeFileSync(path, first);
    const digest = await started(apartFromBytes).begin(path, first.length, CHUNK_BYTES * CHUNKS.length);
    for (const chunk of others) {
      appendFileSync(path, chunk);
      digest.written(chunk);
    }
    expect(await digest.end()).toBe(sha256(...CHUNKS));
  });

  it('covers no more of a file than that', async () => {
    const path = join(folder(), 'part');
    writeFileSync(path, 'what was there, and what was written, and more');
    const digest = await started(apartFromBytes).begin(path, 14, 100);
    digest.written(Buffer.from(', and what was written'));
    expect(await digest.end()).toBe(sha256(Buffer.from('what was there, and what was written')));
  });

  it('of nothing is that of nothing', async () => {
    const path = join(folder(), 'part');
    writeFileSync(path, '');
    expect(await (await started(apartFromBytes).begin(path, 0, 0)).end()).toBe(sha256());
  });

  it('of a file that is not there ends with its path', async () => {
    const path = join(folder(), 'part');
    const made = async () => (await started(apartFromBytes).begin(path, 7, 7)).end();
    await expect(made()).rejects.toThrow(StorageError);
    await expect(made()).rejects.toThrow(`Could not open ${path}: ENOENT.`);
  });
});

describe('the thread', () => {
  it('is made for large files and those of unknown length, and serves all of them', async () => {
    const threads = madeThreads();
    const directory = folder();
    const digests = started(1_000);
    const ofSize = async (name: string, bytes: number, expectedBytes: number | null): Promise<void> => {
      const path = join(directory, name);
      const content = Buffer.alloc(bytes, name);
      writeFileSync(path, content);
      const digest = await digests.begin(path, 0, expectedBytes);
      digest.written(content);
      expect(await digest.end()).toBe(sha256(content));
    };
    await ofSize('small', 999, 999);
    expect(threads).toHaveLength(0);
    const large = [1, 2, 3].map((number) =>
      ofSize(`large ${number}`, number * CHUNK_BYTES, number * CHUNK_BYTES),
    );
    await Promise.all([...large, ofSize('unknown', 1, null)]);
    expect(threads).toHaveLength(1);
    await ofSize('another', 1_000, 1_000);
    expect(threads).toHaveLength(1);
    expect(openFilesIn(directory)).toEqual([]);
  });

  it('shares the files that are under way with as many others as there may be', async () => {
    const threads = madeThreads();
    const path = join(folder(), 'part');
    writeFileSync(path, 'a beginning');
    const digests = started(0, 2);
    const alone = await digests.begin(path, 11, null);
    expect(await alone.end()).toBe(sha256(Buffer.from('a beginning')));
    expect(threads).toHaveLength(1);
    const underWay = [];
    for (const bytes of [1, 11, 1]) underWay.push(await digests.begin(path, bytes, null));
    expect(threads).toHaveLength(2);
    expect(await Promise.all(underWay.map((digest) => digest.end()))).toEqual(
      ['a', 'a beginning', 'a'].map((text) => sha256(Buffer.from(text))),
    );
    expect(digests.readBytes).toBe(11 + 1 + 11 + 1);
  });

  it('tells of a file that was cut behind its back, and goes on with others', async () => {
    const path = join(folder(), 'part');
    writeFileSync(path, 'a beginning');
    const digests = started(0);
    const cut = await digests.begin(path, 12, null);
    await expect(cut.end()).rejects.toThrow(`Could not read ${path}: EOF.`);
    truncateSync(path, 1);
    expect(await (await digests.begin(path, 1, null)).end()).toBe(sha256(Buffer.from('a')));
  });

  it('lets go of a file that is dropped', async () => {
    const directory = folder();
    const path = join(directory, 'part');
    writeFileSync(path, 'a beginning');
    const digest = await started(0).begin(path, 11, null);
    await expect.poll(() => openFilesIn(directory)).toEqual([path]);
    digest.drop();
    await expect.poll(() => openFilesIn(directory)).toEqual([]);
    digest.drop();
  });

  it('that ends is told to all who wait for it, and the next digest makes a new one', async () => {
    const threads = madeThreads();
    const path = join(folder(), 'part');
    writeFileSync(path, 'a beginning');
    const digests = started(0);
    const [one, another] = [await digests.begin(path, 11, null), await digests.begin(path, 0, null)];
    const ended = [one, another].map((digest) => digest.end());
    await threads[0]?.terminate();
    for (const end of ended) {
      await expect(end).rejects.toMatchObject({
        code: 'dataset_storage_failed',
        message: `The thread that was to read ${path} for its digest ended.`,
      });
    }
    expect(await (await digests.begin(path, 11, null)).end()).toBe(sha256(Buffer.from('a beginning')));
    expect(threads).toHaveLength(2);
  });

  it('has who writes wait while it is further behind than the limit, and no longer', async () => {
    const path = join(folder(), 'part');
    writeFileSync(path, Buffer.concat(CHUNKS));
    const digests = started(0);
    const digest = await digests.begin(path, 0, null);
    const [first = Buffer.alloc(0), ...others] = CHUNKS;
    digest.written(first);
    expect(digest.room()).toBeNull();
    for (const chunk of others) digest.written(chunk);
    const room = digest.room();
    expect(room).not.toBeNull();
    await room;
    expect(digests.readBytes).toBeGreaterThanOrEqual(CHUNK_BYTES * CHUNKS.length - MAX_LAG_BYTES);
    expect(await digest.end()).toBe(sha256(...CHUNKS));
    expect(digests.readBytes).toBe(CHUNK_BYTES * CHUNKS.length);
  });

  it('has nobody wait for what was there before', async () => {
    const path = join(folder(), 'part');
    writeFileSync(path, Buffer.concat(CHUNKS));
    const [, , third = Buffer.alloc(0), fourth = Buffer.alloc(0)] = CHUNKS;
    const digest = await started(0).begin(path, 2 * CHUNK_BYTES, null);
    expect(digest.room()).toBeNull();
    digest.written(third);
    expect(digest.room()).toBeNull();
    digest.written(fourth);
    await digest.room();
    expect(await digest.end()).toBe(sha256(...CHUNKS));
  });

  it('has nobody wait once it has ended, or once the file is dropped', async () => {
    const threads = madeThreads();
    const path = join(folder(), 'part');
    writeFileSync(path, 'a beginning');
    const digests = started(0);
    const begun = async () => {
      const digest = await digests.begin(path, 0, null);
      // More than there is: the thread finds the end of the file, and its trouble is told by the end.
      digest.written(Buffer.alloc(2 * MAX_LAG_BYTES));
      return digest;
    };
    const [cut, dropped, ended] = [await begun(), await begun(), await begun()];
    await cut.room();
    await expect(cut.end()).rejects.toThrow('EOF');
    const droppedRoom = dropped.room();
    dropped.drop();
    await droppedRoom;
    const endedRoom = ended.room();
    await threads[0]?.terminate();
    await endedRoom;
    expect(ended.room()).toBeNull();
  });

  it('shows that it gets on while it reads a long part', async () => {
    const path = join(folder(), 'part');
    writeFileSync(path, '');
    truncateSync(path, 64_000_000);
    const digests = started(0);
    const seen = new Set<number>();
    // Where the machine lets nobody look meanwhile, another one is read.
    for (let read = 1; read <= MOST_READ && seen.size <= 2; read += 1) {
      const digest = await digests.begin(path, 64_000_000, null);
      seen.clear();
      let isOver = false;
      const end = digest.end().finally(() => {
        isOver = true;
      });
      while (!isOver) {
        seen.add(digests.readBytes);
        await new Promise((resolve) => setImmediate(resolve));
      }
      await end;
      expect(digests.readBytes).toBe(read * 64_000_000);
    }
    expect(seen.size).toBeGreaterThan(2);
  });

  it('gets nothing of the process: no environment, in which the key may be, and nothing that was to be loaded', async () => {
    vi.stubEnv('FEED_SYNC_API_KEY', 'canary-key');
    onTestFinished(() => void vi.unstubAllEnvs());
    const path = join(folder(), 'part');
    writeFileSync(path, '');
    await (await started(0).begin(path, 0, null)).end();
    expect(await evaluatedInThread('JSON.stringify([process.env, process.execArgv])')).toBe('[{},[]]');
  });

  it('keeps a process alive until a digest is there, and no longer', async () => {
    const path = join(folder(), 'part');
    writeFileSync(path, Buffer.concat(CHUNKS));
    const child = startChild('digest-child.ts', path);
    expect(await child.nextLine()).toBe(sha256(...CHUNKS));
    await expect(child.nextLine()).rejects.toThrow('ended');
  });
});

describe('who writes a body', () => {
  /** `room` is asked for after each piece; `took` hears of each piece that is taken. */
  function written(
    room: () => Promise<void> | null,
    took: (piece: string) => void,
    signal: AbortSignal,
  ): Promise<WrittenFile> {
    const directory = folder();
    const digest: Digest = { written() {}, room, end: async () => 'digest', drop() {} };
    const digests: Digests = { begin: async () => digest, readBytes: 0, close: async () => {} };
    async function* chunks() {
      for (const piece of ['one', 'two']) {
        took(piece);
        yield Buffer.from(piece);
      }
    }
    const parts = { path: join(directory, 'file'), directory, reserveBytes: 0, title: 'the bytes', digests };
    return writeBody(chunks(), 0, null, { ...parts, expectedBytes: null, onBytes() {}, signal });
  }

  it('takes no more while the digest is too far behind', async () => {
    const happened: string[] = [];
    const room = async () => {
      happened.push('waits');
      await new Promise((resolve) => setImmediate(resolve));
      happened.push('goes on');
    };
    const body = written(room, (piece) => void happened.push(piece), new AbortController().signal);
    expect(await body).toEqual({ bytes: 6, sha256: 'digest' });
    expect(happened).toEqual(['one', 'waits', 'goes on', 'two', 'waits', 'goes on']);
  });

  it('ends at once where it is interrupted meanwhile', async () => {
    const stop = new AbortController();
    const room = () => {
      stop.abort();
      return new Promise<void>(() => {});
    };
    const taken: string[] = [];
    await expect(written(room, (piece) => void taken.push(piece), stop.signal)).rejects.toThrow(
      InterruptedError,
    );
    expect(taken).toEqual(['one']);
  });
});
