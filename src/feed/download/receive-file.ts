/**
 * Receives the bytes of a file and verifies them.
 *
 * Invariant: a file gets its final name only when its length and digest are those that the manifest states, or, where the
 * manifest states no digest, when the file looks like Parquet. A part that fails this is deleted.
 */

import { type FileHandle, open } from 'node:fs/promises';
import { formatCount } from '../../lib/units.ts';
import { onDisk } from '../../model/disk-errors.ts';
import { StorageError } from '../../model/errors.ts';
import { unlessStopped } from '../http/failures.ts';
import { requireSpace } from '../storage.ts';
import type { Digest, Digests } from './digest.ts';
import {
  describeJob,
  dropPart,
  type FileJob,
  finishPart,
  openPart,
  partPathOf,
  syncPart,
} from './snapshot-file.ts';

/** The content differs from the manifest, or is no Parquet file where the manifest states no digest. */
export class ContentDiffers extends Error {
  readonly stated: string;
  readonly found: string;
  /** Whether the service stated it. */
  readonly isStated: boolean;

  constructor(stated: string, found: string, isStated: boolean) {
    super(`stated ${stated}, found ${found}`);
    this.stated = stated;
    this.found = found;
    this.isStated = isStated;
  }
}

export interface FetchedFile extends WrittenFile {
  /** The strong entity tag of the file; null where the service gave no tag with a length, or was not asked. */
  readonly etag: string | null;
  /** The service said that the existing file is still the same, and sent nothing. */
  readonly isUnchanged: boolean;
}

export interface ReceivingParts {
  readonly directory: string;
  /** Bytes that stay free on the disk. */
  readonly reserveBytes: number;
  readonly digests: Digests;
  /** Paths of the parts that this process began. No loss of power can have damaged them. */
  readonly begunHere: Set<string>;
  /** Paths of the finished files that this process has verified. */
  readonly verifiedHere: Set<string>;
  /** Called with the number of bytes that arrived since the last call. */
  readonly onBytes: (bytes: number) => void;
  readonly signal: AbortSignal;
}

/** Receives the whole file. @throws ContentDiffers, where the length differs before any byte is read. */
export async function receiveWhole(
  job: FileJob,
  chunks: AsyncGenerator<Buffer>,
  { totalBytes, etag }: Pick<Incoming, 'totalBytes' | 'etag'>,
  parts: ReceivingParts,
): Promise<FetchedFile> {
  if (totalBytes !== null) {
    refuseOtherLength(job, totalBytes);
    await requireSpace(parts.directory, totalBytes, parts.reserveBytes, titleOf(job));
  }
  remember(parts.begunHere, job.path);
  return receiveRest(job, chunks, { fromByte: 0, totalBytes, etag }, parts);
}

/** The place of the bytes in the file, and the length and tag of the whole; null where the service states none. */
interface Incoming {
  readonly fromByte: number;
  readonly totalBytes: number | null;
  readonly etag: string | null;
}

/** Receives the bytes that follow an existing part. @throws ContentDiffers */
export async function receiveRest(
  job: FileJob,
  chunks: AsyncGenerator<Buffer>,
  incoming: Incoming,
  parts: ReceivingParts,
): Promise<FetchedFile> {
  const { fromByte, totalBytes, etag } = incoming;
  const written = await writeBody(upTo(job.file.bytes, fromByte, chunks), incoming, job, parts);
  const received = await finish(job, written, totalBytes === null ? null : etag);
  remember(parts.verifiedHere, job.path);
  return received;
}

/**
 * Returns whether a finished file has the content that was once verified. The disk may have damaged a file that another process has
 * finished: such a file, or one that cannot be read, is downloaded again.
 */
export async function isStillVerified(
  { path }: FileJob,
  { bytes, sha256 }: WrittenFile,
  { digests, verifiedHere, signal }: Pick<ReceivingParts, 'digests' | 'verifiedHere' | 'signal'>,
): Promise<boolean> {
  if (verifiedHere.has(path)) return true;
  const digest = digests.beginFinished(path, bytes);
  try {
    if ((await unlessStopped(digest.end(bytes), signal)) !== sha256) return false;
  } catch (error) {
    if (error instanceof StorageError) return false;
    throw error;
  } finally {
    digest.drop();
  }
  remember(verifiedHere, path);
  return true;
}

/** The paths that a process remembers in a set. A part that is forgotten begins anew, a finished file is verified once more. */
export const MAX_PATHS_REMEMBERED = 10_000;

/** Adds a path, and forgets the one that was added longest ago where there are too many. */
export function remember(paths: Set<string>, path: string): void {
  paths.delete(path);
  paths.add(path);
  const [oldest] = paths;
  if (oldest !== undefined && paths.size > MAX_PATHS_REMEMBERED) paths.delete(oldest);
}

/** Names the bytes in messages. */
function titleOf(job: FileJob): string {
  return `the bytes of ${describeJob(job)}`;
}

/** Returns the rest of a part that is already whole. */
export async function* nothingMore(): AsyncGenerator<Buffer> {}

/** A body that is longer than the manifest states may never end, so it is not read on. */
async function* upTo(
  statedBytes: number | null,
  fromByte: number,
  chunks: AsyncGenerator<Buffer>,
): AsyncGenerator<Buffer> {
  let bytes = fromByte;
  for await (const chunk of chunks) {
    bytes += chunk.length;
    yield chunk;
    if (statedBytes !== null && bytes > statedBytes) return;
  }
}

async function finish(job: FileJob, written: WrittenFile, etag: string | null): Promise<FetchedFile> {
  try {
    refuseOtherLength(job, written.bytes);
    await refuseOtherContent(job, written);
  } catch (error) {
    await dropPart(job.path);
    throw error;
  }
  const note = etag === null ? null : { etag, ...written };
  await finishPart(job.path, job.belongsByDigest ? 'by-name' : note);
  return { ...written, etag, isUnchanged: false };
}

/** A file without a stated digest must at least look like Parquet. @throws ContentDiffers */
async function refuseOtherContent({ file: { sha256 }, path }: FileJob, written: WrittenFile): Promise<void> {
  if (sha256 !== null) {
    if (sha256 === written.sha256) return;
    throw new ContentDiffers(`sha256 ${sha256}`, `sha256 ${written.sha256}`, true);
  }
  const partPath = partPathOf(path);
  if (await onDisk(partPath, () => hasParquetShape(partPath, written.bytes))) return;
  throw new ContentDiffers('a Parquet file', `${formatCount(written.bytes)} bytes that are none`, false);
}

/** @throws ContentDiffers */
function refuseOtherLength({ file }: FileJob, foundBytes: number): void {
  if (file.bytes === null || file.bytes === foundBytes) return;
  throw new ContentDiffers(`${file.bytes} bytes`, `${foundBytes} bytes`, true);
}

/** Others use the disk too, so the free space is checked again after this many bytes. */
const CHECK_SPACE_EVERY_BYTES = 64_000_000;

export interface WrittenFile {
  readonly bytes: number;
  readonly sha256: string;
}

/**
 * Appends `chunks` to the `fromByte` existing bytes, or starts the part where `fromByte` is 0. A large part is synced when the
 * promise resolves; a small one that a loss of power takes is soon downloaded again.
 * @throws StorageError, the error of `chunks`, and the reason of `signal`
 */
export async function writeBody(
  chunks: AsyncIterable<Buffer>,
  { fromByte, totalBytes, etag }: Incoming,
  job: FileJob,
  parts: ReceivingParts,
): Promise<WrittenFile> {
  const partPath = partPathOf(job.path);
  const origin = etag === null || totalBytes === null ? null : { etag, totalBytes };
  const file = await openPart(job.path, origin, fromByte > 0 ? 'append' : 'truncate');
  try {
    const digest = parts.digests.begin(partPath, fromByte, job.file.bytes ?? totalBytes);
    try {
      const behind = new WriteBehind(file, partPath);
      const bytes = fromByte + (await writeAll(chunks, digest, behind, job, parts));
      // The thread of the digest goes on while the disk stores the last bytes. No sync is in progress when this function ends.
      const [synced, hashed] = await Promise.allSettled([
        bytes < SYNC_EVERY_BYTES ? null : syncPart(partPath, file, 'all'),
        unlessStopped(digest.end(bytes), parts.signal),
      ]);
      if (synced.status === 'rejected') throw synced.reason;
      if (hashed.status === 'rejected') throw hashed.reason;
      return { bytes, sha256: hashed.value };
    } finally {
      digest.drop();
    }
  } finally {
    await file.close();
  }
}

/** Returns the number of bytes that arrived. However this function ends, no write is in progress then. */
async function writeAll(
  chunks: AsyncIterable<Buffer>,
  digest: Digest,
  behind: WriteBehind,
  job: FileJob,
  { directory, reserveBytes, onBytes }: ReceivingParts,
): Promise<number> {
  let bytes = 0;
  let uncheckedBytes = 0;
  try {
    for await (const chunk of chunks) {
      uncheckedBytes += chunk.length;
      if (uncheckedBytes >= CHECK_SPACE_EVERY_BYTES) {
        await requireSpace(directory, chunk.length, reserveBytes, titleOf(job));
        uncheckedBytes = 0;
      }
      await behind.write(chunk);
      digest.add(chunk);
      bytes += chunk.length;
      onBytes(chunk.length);
    }
    await behind.flush();
    return bytes;
  } finally {
    // The error is known by now, or an earlier error matters more.
    await behind.flush().catch(() => {});
  }
}

/** The bytes that may wait while a write is in progress. */
const MOST_WAITING_BYTES = 4_000_000;
/** A sync starts after this many bytes, so that little is left for the last sync. */
const SYNC_EVERY_BYTES = 16_000_000;

export class WriteBehind {
  readonly #file: FileHandle;
  readonly #path: string;
  #waiting: Buffer[] = [];
  #waitingBytes = 0;
  #writing: Promise<void> | null = null;
  #unsyncedBytes = 0;
  #syncing: Promise<void> | null = null;

  /** `path` is for messages. */
  constructor(file: FileHandle, path: string) {
    this.#file = file;
    this.#path = path;
  }

  /** Buffers writes so that receiving continues while the disk catches up. @throws StorageError, also of an earlier write */
  async write(chunk: Buffer): Promise<void> {
    this.#waiting.push(chunk);
    this.#waitingBytes += chunk.length;
    this.#writing ??= this.#begin();
    if (this.#waitingBytes >= MOST_WAITING_BYTES) await this.#writing;
  }

  /** Resolves once all bytes are written and no operation on the file is in progress. @throws StorageError */
  async flush(): Promise<void> {
    try {
      await this.#writing;
    } finally {
      await this.#syncing;
    }
  }

  /** A write that failed stays in place, so that nothing is written behind missing bytes. */
  #begin(): Promise<void> {
    const writing = this.#writeAll();
    // The next call of `write` that waits, or `flush`, reports the error; until then nobody listens.
    writing.catch(() => {});
    return writing;
  }

  async #writeAll(): Promise<void> {
    while (this.#waiting.length > 0) {
      const pieces = this.#waiting;
      const bytes = this.#waitingBytes;
      this.#waiting = [];
      this.#waitingBytes = 0;
      await onDisk(this.#path, () => writeWhole(this.#file, pieces, bytes));
      this.#syncBehind(bytes);
    }
    this.#writing = null;
  }

  /** The system reports a failed sync only once, so a sync that failed stays in place, too. */
  #syncBehind(bytes: number): void {
    this.#unsyncedBytes += bytes;
    if (this.#unsyncedBytes < SYNC_EVERY_BYTES || this.#syncing !== null) return;
    this.#unsyncedBytes = 0;
    this.#syncing = this.#sync();
    this.#syncing.catch(() => {});
  }

  async #sync(): Promise<void> {
    await syncPart(this.#path, this.#file, 'data');
    this.#syncing = null;
  }
}

/** The system may write fewer bytes than it was given. The write of the rest then reports the reason. */
async function writeWhole(file: FileHandle, pieces: Buffer[], bytes: number): Promise<void> {
  const { bytesWritten } = await file.writev(pieces);
  if (bytesWritten < bytes) await file.appendFile(Buffer.concat(pieces).subarray(bytesWritten));
}

const MARK = Buffer.from('PAR1');
/** Four bytes with the length of the footer, and the mark. */
const END_BYTES = 8;

/** Returns whether the file at `path` looks like a complete Parquet file. */
async function hasParquetShape(path: string, bytes: number): Promise<boolean> {
  if (bytes < MARK.length + END_BYTES) return false;
  const file = await open(path, 'r');
  try {
    const begin = await bytesAt(file, 0, MARK.length);
    const end = await bytesAt(file, bytes - END_BYTES, END_BYTES);
    const footerBytes = end.readUInt32LE(0);
    const isMarked = begin.equals(MARK) && end.subarray(END_BYTES - MARK.length).equals(MARK);
    return isMarked && footerBytes <= bytes - MARK.length - END_BYTES;
  } finally {
    await file.close();
  }
}

async function bytesAt(file: FileHandle, position: number, length: number): Promise<Buffer> {
  const bytes = Buffer.alloc(length);
  await file.read(bytes, 0, length, position);
  return bytes;
}
