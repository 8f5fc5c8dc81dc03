/**
 * Takes the bytes of a file and verifies them.
 *
 * Invariant: a file gets its final name only when its length and digest are those that the manifest states, or, without a
 * digest, when it looks like Parquet; a part that turns out to be something else is dropped.
 */

import { type FileHandle, open } from 'node:fs/promises';
import { formatCount } from '../../lib/units.ts';
import { unlessStopped } from '../http/cancellation.ts';
import type { HttpAnswer } from '../http/http.ts';
import { onDisk, requireSpace } from '../storage.ts';
import type { AnswerKind } from './attempt-file.ts';
import type { Digest, Digests } from './digest.ts';
import { describeJob, type FileJob } from './file-job.ts';
import { dropPart, finishPart, openPart, type PartOrigin, partPathOf, syncPart } from './part-file.ts';

/** The content is not what the manifest states, or, where it states no digest, no Parquet file. */
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
  /** The strong entity tag of the whole; null where the service gave none with a length, or was not asked. */
  readonly etag: string | null;
  /** Whether nothing was received: the service says that the file that was there is the same. */
  readonly isUnchanged: boolean;
}

export interface ReceivingParts {
  readonly directory: string;
  /** Bytes kept free on the disk. */
  readonly reserveBytes: number;
  readonly digests: Digests;
  /** Paths whose part was begun by this process, after any loss of power. */
  readonly begunHere: Set<string>;
}

/** Takes the whole file, from its first byte. @throws ContentDiffers before anything is read where the length is another. */
export async function receiveWhole(
  job: FileJob,
  answer: HttpAnswer,
  { totalBytes, etag }: AnswerKind & { readonly kind: 'whole' },
  parts: ReceivingParts,
  onBytes: (bytes: number) => void,
  signal: AbortSignal,
): Promise<FetchedFile> {
  if (totalBytes !== null) {
    refuseOtherLength(job, totalBytes);
    await requireSpace(parts.directory, totalBytes, parts.reserveBytes, `the bytes of ${describeJob(job)}`);
  }
  parts.begunHere.add(job.path);
  return receiveRest(job, answer.chunks(), { fromByte: 0, totalBytes, etag }, parts, onBytes, signal);
}

/** Where bytes that come belong in the file, and what the service says of the whole; null where it does not. */
interface Incoming {
  readonly fromByte: number;
  readonly totalBytes: number | null;
  readonly etag: string | null;
}

/** Takes what follows on the bytes that are there. @throws ContentDiffers */
export async function receiveRest(
  job: FileJob,
  chunks: AsyncGenerator<Buffer>,
  { fromByte, totalBytes, etag }: Incoming,
  parts: ReceivingParts,
  onBytes: (bytes: number) => void,
  signal: AbortSignal,
): Promise<FetchedFile> {
  const { path, file } = job;
  const { directory, reserveBytes, digests } = parts;
  const origin = etag === null || totalBytes === null ? null : { etag, totalBytes };
  const title = `the bytes of ${describeJob(job)}`;
  const expectedBytes = file.bytes ?? totalBytes;
  const target = { path, directory, reserveBytes, title, digests, expectedBytes, onBytes, signal };
  const written = await writeBody(upTo(file.bytes, fromByte, chunks), fromByte, origin, target);
  return finish(job, written, origin?.etag ?? null);
}

/** For a part that is whole already. */
export async function* nothingMore(): AsyncGenerator<Buffer> {}

/** A body longer than the manifest states is not read to its end, which may never come. */
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

/** Where no digest is stated, it must at least look like Parquet. @throws ContentDiffers */
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

/** How often, in bytes received, the free space is looked at where others use the disk too. */
const CHECK_SPACE_EVERY_BYTES = 64_000_000;

interface BodyTarget {
  /** The final path of the file. */
  readonly path: string;
  readonly directory: string;
  readonly reserveBytes: number;
  /** What it is for, for messages. */
  readonly title: string;
  readonly digests: Digests;
  /** What the file will have in the end; null where nobody knows. */
  readonly expectedBytes: number | null;
  readonly onBytes: (bytes: number) => void;
  readonly signal: AbortSignal;
}

export interface WrittenFile {
  readonly bytes: number;
  readonly sha256: string;
}

/**
 * Appends `chunks` to the `fromByte` bytes that are there, or writes the part anew where there are none. The part is synced
 * when this resolves.
 * @throws what `chunks` throws, StorageError, and what `signal` was aborted with
 */
export async function writeBody(
  chunks: AsyncIterable<Buffer>,
  fromByte: number,
  origin: PartOrigin | null,
  target: BodyTarget,
): Promise<WrittenFile> {
  const partPath = partPathOf(target.path);
  const file = await openPart(target.path, origin, fromByte > 0 ? 'append' : 'truncate');
  try {
    const digest = await target.digests.begin(partPath, fromByte, target.expectedBytes);
    try {
      const bytes = await writeAll(chunks, digest, new WriteBehind(file, partPath, digest.written), target);
      await syncPart(partPath, file, 'all');
      return { bytes: fromByte + bytes, sha256: await unlessStopped(digest.end(), target.signal) };
    } finally {
      digest.drop();
    }
  } finally {
    await file.close();
  }
}

/** How many bytes came. When this ends, in whatever way, nothing is being written any more. */
async function writeAll(
  chunks: AsyncIterable<Buffer>,
  digest: Digest,
  behind: WriteBehind,
  { directory, reserveBytes, title, onBytes, signal }: BodyTarget,
): Promise<number> {
  let bytes = 0;
  let unlooked = 0;
  try {
    for await (const chunk of chunks) {
      unlooked += chunk.length;
      if (unlooked >= CHECK_SPACE_EVERY_BYTES) {
        await requireSpace(directory, chunk.length, reserveBytes, title);
        unlooked = 0;
      }
      await behind.write(chunk);
      bytes += chunk.length;
      onBytes(chunk.length);
      const room = digest.room();
      if (room !== null) await unlessStopped(room, signal);
    }
    await behind.flush();
    return bytes;
  } finally {
    // What went wrong with it was told, or something else went wrong before.
    await behind.flush().catch(() => {});
  }
}

/** So many wait at the most while others are written; then they are written at once. */
const MOST_WAITING_BYTES = 4_000_000;
/** So many are written before the disk is asked to take them: what it has by the end is not waited for then. */
const SYNC_EVERY_BYTES = 16_000_000;

export class WriteBehind {
  readonly #file: FileHandle;
  readonly #path: string;
  readonly #onWritten: (bytes: Buffer) => void;
  #waiting: Buffer[] = [];
  #waitingBytes = 0;
  #writing: Promise<void> | null = null;
  #unsyncedBytes = 0;
  #syncing: Promise<void> | null = null;

  /** `path` is for messages. `onWritten` is told of all bytes in their order, once they can be read in the file. */
  constructor(file: FileHandle, path: string, onWritten: (bytes: Buffer) => void) {
    this.#file = file;
    this.#path = path;
    this.#onWritten = onWritten;
  }

  /** Resolves once there is room for more. @throws StorageError, of these bytes or of those before */
  async write(chunk: Buffer): Promise<void> {
    this.#waiting.push(chunk);
    this.#waitingBytes += chunk.length;
    this.#writing ??= this.#begin();
    if (this.#waitingBytes >= MOST_WAITING_BYTES) await this.#writing;
  }

  /** Resolves once all is written, and nothing more is done with the file. @throws StorageError */
  async flush(): Promise<void> {
    try {
      await this.#writing;
    } finally {
      await this.#syncing;
    }
  }

  /** One that fails stays: nothing is written after what is missing. */
  #begin(): Promise<void> {
    const writing = this.#writeAll();
    // Who gives more bytes than may wait is told, or who waits for all; until then nobody listens.
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
      for (const piece of pieces) this.#onWritten(piece);
      this.#syncBehind(bytes);
    }
    this.#writing = null;
  }

  /** The system tells only once that the disk did not take something: one that fails stays, too. */
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

/** The system may write fewer bytes than it was given; why, it tells whoever writes the rest. */
async function writeWhole(file: FileHandle, pieces: Buffer[], bytes: number): Promise<void> {
  const { bytesWritten } = await file.writev(pieces);
  if (bytesWritten < bytes) await file.appendFile(Buffer.concat(pieces).subarray(bytesWritten));
}

const MARK = Buffer.from('PAR1');
/** The length of the footer in four bytes, and the mark. */
const END_BYTES = 8;

/** Whether the file at `path` looks like a whole Parquet file. */
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
