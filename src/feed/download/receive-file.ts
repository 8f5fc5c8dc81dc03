/**
 * Takes the bytes of a file and verifies them.
 *
 * Invariant: a file gets its final name only when its length and digest are those that the manifest states, or, without a
 * digest, when it looks like Parquet; a part that turns out to be something else is dropped.
 */

import { formatCount } from '../../lib/units.ts';
import type { HttpAnswer } from '../http/http.ts';
import { onDisk, requireSpace } from '../storage.ts';
import type { AnswerKind } from './answer-kind.ts';
import type { Digests } from './digest.ts';
import { describeJob, type FileJob } from './file-job.ts';
import { hasParquetShape } from './parquet-shape.ts';
import { dropPart, finishPart, partPathOf } from './part-file.ts';
import { type WrittenFile, writeBody } from './write-body.ts';

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
export interface Incoming {
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
