import { createHash } from 'node:crypto';
import { appendFileSync, mkdtempSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { createDigests, type Digest, type Digests } from '../../src/feed/download/digest.ts';
import {
  MAX_PATHS_REMEMBERED,
  remember,
  type WrittenFile,
  writeBody,
} from '../../src/feed/download/receive-file.ts';
import { fileJobs } from '../../src/feed/download/snapshot-file.ts';
import { present } from '../../src/lib/assert.ts';
import { InterruptedError, StorageError } from '../../src/model/errors.ts';
import { startChild } from '../support/child.ts';
import { evaluatedInThread, madeThreads } from '../support/made-threads.ts';
import { openFilesIn } from '../support/open-files.ts';
import { PATIENCE_MS } from '../support/patience.ts';

/** The thread reads a chunk in one piece, and all chunks in several. */
const CHUNK_BYTES = 700_000;
const CHUNKS = [1, 2, 3, 4].map((number) => Buffer.alloc(CHUNK_BYTES, number));
const NEVER = Number.MAX_SAFE_INTEGER;
const MOST_READ = 20;

function folder(): string {
  const path = mkdtempSync(join(tmpdir(), 'feed-sync-digest-'));
  onTestFinished(() => rmSync(path, { recursive: true }));
  return path;
}

/** A file `part` of this content. */
function part(content: string | Buffer): string {
  const path = join(folder(), 'part');
  writeFileSync(path, content);
  return path;
}

function begun(digests: Digests, path: string, fromByte: number, expectedBytes: number | null): Digest {
  const digest = digests.begin(path, fromByte, expectedBytes);
  onTestFinished(() => digest.drop());
  return digest;
}

function sha256(...chunks: readonly Buffer[]): string {
  return createHash('sha256').update(Buffer.concat(chunks)).digest('hex');
}

describe.each([
  ['on this thread', NEVER],
  ['on a thread of its own', 0],
])('a digest that is computed %s', (_, threadFromBytes) => {
  it('covers a finished file, and reports a missing file as a storage error', async () => {
    const digests = createDigests(threadFromBytes);
    const path = part(Buffer.concat(CHUNKS));
    const digest = digests.beginFinished(path, CHUNK_BYTES * CHUNKS.length);
    onTestFinished(() => digest.drop());
    expect(await digest.end(CHUNK_BYTES * CHUNKS.length)).toBe(sha256(...CHUNKS));
    const missing = digests.beginFinished(`${path}-missing`, 1);
    onTestFinished(() => missing.drop());
    await expect(missing.end(1)).rejects.toThrow(StorageError);
  });

  it('covers the bytes that were there and the bytes that are added', async () => {
    const [first = Buffer.alloc(0), ...others] = CHUNKS;
    const path = part(first);
    const digest = begun(createDigests(threadFromBytes), path, first.length, CHUNK_BYTES * CHUNKS.length);
    for (const chunk of others) {
      appendFileSync(path, chunk);
      digest.add(chunk);
    }
    expect(await digest.end(CHUNK_BYTES * CHUNKS.length)).toBe(sha256(...CHUNKS));
  });

  it('waits for bytes that arrive slowly', async () => {
    const path = part('');
    const digest = begun(createDigests(threadFromBytes), path, 0, 8);
    for (const text of ['slow', 'ness']) {
      await setTimeout(100);
      appendFileSync(path, text);
      digest.add(Buffer.from(text));
    }
    expect(await digest.end(8)).toBe(sha256(Buffer.from('slowness')));
  });

  it('gives an empty file the digest of no bytes', async () => {
    expect(await begun(createDigests(threadFromBytes), part(''), 0, 0).end(0)).toBe(sha256());
  });

  it('names the path of a missing file', async () => {
    const path = join(folder(), 'part');
    const end = begun(createDigests(threadFromBytes), path, 7, 7).end(7);
    await expect(end).rejects.toThrow(StorageError);
    await expect(end).rejects.toThrow(`Could not open ${path}: no such file or directory (ENOENT).`);
  });
});

describe('the thread of a digest', () => {
  it('uses a thread only for large files, files of unknown length and continued files, and starts one for all of them', async () => {
    const threads = madeThreads();
    const directory = folder();
    const digests = createDigests(1_000);
    const sizes = [
      { bytes: 999, fromByte: 0, expectedBytes: 999, threads: 0, readBytes: 0 },
      { bytes: 1_000, fromByte: 0, expectedBytes: 1_000, threads: 1, readBytes: 1_000 },
      { bytes: 1, fromByte: 0, expectedBytes: null, threads: 1, readBytes: 1_001 },
      { bytes: 10, fromByte: 10, expectedBytes: 10, threads: 1, readBytes: 1_011 },
    ];
    for (const { bytes, fromByte, expectedBytes, threads: expected, readBytes } of sizes) {
      const path = join(directory, `${bytes}`);
      const content = Buffer.alloc(bytes, 'x');
      writeFileSync(path, content);
      const digest = begun(digests, path, fromByte, expectedBytes);
      digest.add(content.subarray(fromByte));
      expect(await digest.end(bytes)).toBe(sha256(content));
      expect(threads).toHaveLength(expected);
      expect(digests.readBytes).toBe(readBytes);
    }
    await expect.poll(() => openFilesIn(directory), { timeout: PATIENCE_MS }).toEqual([]);
  });

  it('computes the digests of several files at once by two threads, also of those that are still written', async () => {
    const threads = madeThreads();
    const digests = createDigests(0);
    const files = CHUNKS.map((content) => ({ content, path: part(content.subarray(0, 1_000)) }));
    const begunOnes = files.map(({ path }) => begun(digests, path, 0, CHUNK_BYTES));
    await setTimeout(100);
    for (const { content, path } of files) appendFileSync(path, content.subarray(1_000));
    const found = await Promise.all(begunOnes.map((digest) => digest.end(CHUNK_BYTES)));
    expect(found).toEqual(files.map(({ content }) => sha256(content)));
    expect(threads).toHaveLength(2);
  });

  it('ends threads that have nothing to do, and no others', async () => {
    const threads = madeThreads();
    const digests = createDigests(0);
    const [first = Buffer.alloc(0), second = Buffer.alloc(0)] = CHUNKS;
    const going = begun(digests, part(second), 0, null);
    expect(await begun(digests, part(first), 0, null).end(CHUNK_BYTES)).toBe(sha256(first));
    const isEnded = threads.map((thread) => {
      const seen = { ended: false };
      thread.on('exit', () => {
        seen.ended = true;
      });
      return seen;
    });
    digests.endIdle();
    await expect.poll(() => isEnded, { timeout: PATIENCE_MS }).toEqual([{ ended: false }, { ended: true }]);
    expect(await going.end(CHUNK_BYTES)).toBe(sha256(second));
    expect(await begun(digests, part(first), 0, null).end(CHUNK_BYTES)).toBe(sha256(first));
    expect(threads).toHaveLength(2);
  });

  it('starts another thread where one has ended', async () => {
    const threads = madeThreads();
    const digests = createDigests(0);
    const [content = Buffer.alloc(0)] = CHUNKS;
    begun(digests, part(content), 0, null);
    await threads[0]?.terminate();
    expect(await begun(digests, part(content), 0, null).end(CHUNK_BYTES)).toBe(sha256(content));
    expect(threads).toHaveLength(2);
  });

  it('reports a file that was cut', async () => {
    const path = part('a beginning');
    const digest = begun(createDigests(0), path, 11, null);
    truncateSync(path, 1);
    await expect(digest.end(12)).rejects.toThrow(`Could not read ${path}: EOF.`);
  });

  it('closes a file that is dropped', async () => {
    const path = part('a beginning');
    const digest = createDigests(0).begin(path, 11, null);
    await expect.poll(() => openFilesIn(path), { timeout: PATIENCE_MS }).toEqual([path]);
    digest.drop();
    await expect.poll(() => openFilesIn(path), { timeout: PATIENCE_MS }).toEqual([]);
    digest.drop();
  });

  it('fails the digest when the thread ends too early', async () => {
    const threads = madeThreads();
    const path = part('a beginning');
    const digest = begun(createDigests(0), path, 11, null);
    await threads[0]?.terminate();
    await expect(digest.end(11)).rejects.toMatchObject({
      code: 'dataset_storage_failed',
      message: `The thread that computes the digest of ${path} ended.`,
    });
  });

  it('shows its progress while it reads a long file', async () => {
    const path = part('');
    truncateSync(path, 64_000_000);
    const digests = createDigests(0);
    const seen = new Set<number>();
    // A busy machine may hide the progress of one digest, so the test reads the file again.
    for (let read = 1; read <= MOST_READ && seen.size <= 2; read += 1) {
      const digest = begun(digests, path, 64_000_000, null);
      seen.clear();
      let isOver = false;
      const end = digest.end(64_000_000).finally(() => {
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

  it('gets neither the environment of the process, which may contain the key, nor its arguments', async () => {
    vi.stubEnv('FEED_SYNC_API_KEY', 'canary-key');
    onTestFinished(() => void vi.unstubAllEnvs());
    const path = part('');
    begun(createDigests(0), path, 0, null);
    await expect.poll(() => openFilesIn(path), { timeout: PATIENCE_MS }).toEqual([path]);
    expect(await evaluatedInThread('JSON.stringify([process.env, process.execArgv])')).toBe('[{},[]]');
  });

  it('keeps the process alive until the digest is there, and no longer', async () => {
    const path = part(Buffer.concat(CHUNKS));
    const child = startChild('digest-child.ts', path);
    expect(await child.nextLine()).toBe(sha256(...CHUNKS));
    await expect(child.nextLine()).rejects.toThrow('ended');
  });
});

it('ends a body whose digest is awaited at once when it is interrupted', async () => {
  const stop = new AbortController();
  let isDropped = false;
  const digest: Digest = {
    add() {},
    end: () => {
      stop.abort();
      return new Promise<string>(() => {});
    },
    drop: () => {
      isDropped = true;
    },
  };
  const directory = folder();
  const digests: Digests = { begin: () => digest, beginFinished: () => digest, readBytes: 0, endIdle() {} };
  const files = [{ url: '/file', bytes: null, rowCount: null, sha256: null }];
  const entry = { datasetId: 'parcels', version: 1, schemaVersion: null, rowCount: null, files };
  const job = present(fileJobs(entry, directory)[0], 'the entry has a file');
  const sets = { begunHere: new Set<string>(), verifiedHere: new Set<string>() };
  const parts = { directory, reserveBytes: 0, digests, ...sets, onBytes() {} };
  const incoming = { fromByte: 0, totalBytes: null, etag: null };
  const written: Promise<WrittenFile> = writeBody(chunks(), incoming, job, { ...parts, signal: stop.signal });
  await expect(written).rejects.toThrow(InterruptedError);
  expect(isDropped).toBe(true);
});

it('remembers the paths of its files up to a bound, and forgets the oldest first', () => {
  const paths = new Set<string>();
  for (let number = 0; number < MAX_PATHS_REMEMBERED; number += 1) remember(paths, `file-${number}`);
  remember(paths, 'file-0');
  expect(paths.size).toBe(MAX_PATHS_REMEMBERED);
  remember(paths, 'another');
  expect(paths.size).toBe(MAX_PATHS_REMEMBERED);
  expect(['file-0', 'file-1', 'another'].map((path) => paths.has(path))).toEqual([true, false, true]);
});

async function* chunks() {
  for (const piece of ['one', 'two']) yield Buffer.from(piece);
}
