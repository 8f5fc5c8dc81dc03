/**
 * One attempt at one file: asks for the rest of what is there, or for the whole, writes it, and verifies it before it
 * gets its final name.
 */

import { DataError } from '../../model/errors.ts';
import type { HttpAnswer } from '../http/http.ts';
import type { LeastThroughput } from '../http/throughput.ts';
import { TransientTrouble } from '../http/trouble.ts';
import { requireSpace } from '../storage.ts';
import { type AnswerKind, kindOfAnswer, type Resumption } from './answer-kind.ts';
import { describeJob, type FileJob } from './file-job.ts';
import { type FileSource, openFile } from './open-file.ts';
import {
  dropPart,
  finishPart,
  type KeptFile,
  type PartOrigin,
  readKept,
  readPartOrigin,
  sizeOf,
} from './part-file.ts';
import { RefusedLinkError } from './refused-link.ts';
import { type Beginning, emptyBeginning, hashPart, type WrittenFile, writeBody } from './write-body.ts';

/** The link answered as one that has expired. */
export class LinkExpired extends Error {
  readonly status: number;

  constructor(status: number) {
    super(`the link answered ${status}`);
    this.status = status;
  }
}

/** The content is not what the manifest states. */
export class ContentDiffers extends Error {
  readonly stated: string;
  readonly found: string;

  constructor(stated: string, found: string) {
    super(`stated ${stated}, found ${found}`);
    this.stated = stated;
    this.found = found;
  }
}

export interface AttemptParts {
  readonly source: FileSource;
  readonly directory: string;
  readonly reserveBytes: number;
  readonly deadlineMs: number;
  readonly leastThroughput: LeastThroughput;
  readonly now: () => Date;
  /** Paths whose part was begun by this process, after any loss of power. */
  readonly begunHere: Set<string>;
}

/** @throws LinkExpired, ContentDiffers, TransientTrouble, DataError, StorageError, InterruptedError */
export async function attemptFile(
  job: FileJob,
  link: string,
  parts: AttemptParts,
  onBytes: (bytes: number) => void,
  signal: AbortSignal,
): Promise<WrittenFile> {
  const started = await startOf(job, parts);
  const { resumption } = started;
  if (resumption !== null && resumption.fromByte === resumption.totalBytes) {
    return receive(job, noChunks(), started.beginning, resumption, parts, onBytes);
  }
  const first = await ask(job, link, started, parts, signal);
  if (first.kind.kind !== 'start-over') return take(job, first, started, parts, onBytes);
  first.answer.discard();
  const nothing = { beginning: emptyBeginning(), ...NOTHING };
  return take(job, await ask(job, link, nothing, parts, signal), nothing, parts, onBytes);
}

async function take(
  job: FileJob,
  { answer, kind }: Answered,
  { beginning, resumption, kept }: Start,
  parts: AttemptParts,
  onBytes: (bytes: number) => void,
): Promise<WrittenFile> {
  if (kind.kind === 'whole') return receiveWhole(job, answer, kind, parts, onBytes);
  if (kind.kind === 'rest') return receive(job, answer.chunks(), beginning, resumption, parts, onBytes);
  answer.discard();
  if (kind.kind === 'expired') throw new LinkExpired(kind.status);
  if (kind.kind === 'unchanged' && kept !== null) return { bytes: kept.bytes, sha256: kept.sha256 };
  throw new TransientTrouble(`the place of the file answered ${answer.status}, which was not asked for`);
}

interface Answered {
  readonly answer: HttpAnswer;
  readonly kind: AnswerKind;
}

interface Start {
  readonly beginning: Beginning;
  readonly resumption: Resumption | null;
  readonly kept: KeptFile | null;
}

const NOTHING: Pick<Start, 'resumption' | 'kept'> = { resumption: null, kept: null };

/**
 * What is there of the file. Without a stated digest nothing would notice that a loss of power left holes in a part,
 * so there only a part that this process has begun is continued.
 */
async function startOf(job: FileJob, { begunHere }: AttemptParts): Promise<Start> {
  const nothing = { beginning: emptyBeginning(), ...NOTHING };
  if (job.file.sha256 === null) {
    const kept = await readKept(job.path);
    if (kept !== null && (await sizeOf(job.path)) === kept.bytes) return { ...nothing, kept };
    if (!begunHere.has(job.path)) return nothing;
  }
  const origin = await readPartOrigin(job.path);
  if (origin === null || (await sizeOf(`${job.path}.part`)) === null) return nothing;
  const beginning = await hashPart(job.path);
  if (beginning.bytes === 0 || beginning.bytes > origin.totalBytes) return nothing;
  return { beginning, resumption: { ...origin, fromByte: beginning.bytes }, kept: null };
}

type Headers = { range?: string; 'if-range'?: string; 'if-none-match'?: string };

async function ask(
  job: FileJob,
  link: string,
  { resumption, kept }: Start,
  parts: AttemptParts,
  signal: AbortSignal,
): Promise<Answered> {
  const headers: Headers = {};
  if (resumption !== null) {
    headers.range = `bytes=${resumption.fromByte}-`;
    headers['if-range'] = resumption.etag;
  } else if (kept !== null) headers['if-none-match'] = kept.etag;
  const { deadlineMs, leastThroughput } = parts;
  const request = { operation: 'download a file', headers, deadlineMs, leastThroughput };
  try {
    const answer = await openFile(link, request, parts.source, signal);
    try {
      return { answer, kind: kindOfAnswer(answer, resumption, parts.now()) };
    } catch (error) {
      answer.discard();
      throw error;
    }
  } catch (error) {
    if (!(error instanceof RefusedLinkError)) throw error;
    const hint = error.hint === null ? {} : { hint: error.hint };
    throw new DataError(`Could not download ${describeJob(job)}: ${error.message}`, {
      ...hint,
      cause: error,
    });
  }
}

async function receiveWhole(
  job: FileJob,
  answer: HttpAnswer,
  { totalBytes, etag }: AnswerKind & { readonly kind: 'whole' },
  parts: AttemptParts,
  onBytes: (bytes: number) => void,
): Promise<WrittenFile> {
  if (totalBytes !== null) {
    try {
      refuseOtherLength(job, totalBytes);
      await requireSpace(parts.directory, totalBytes, parts.reserveBytes, `the bytes of ${describeJob(job)}`);
    } catch (error) {
      answer.discard();
      throw error;
    }
  }
  const origin = etag === null || totalBytes === null ? null : { etag, totalBytes };
  parts.begunHere.add(job.path);
  return receive(job, answer.chunks(), emptyBeginning(), origin, parts, onBytes);
}

async function receive(
  job: FileJob,
  chunks: AsyncGenerator<Buffer>,
  beginning: Beginning,
  origin: PartOrigin | null,
  parts: AttemptParts,
  onBytes: (bytes: number) => void,
): Promise<WrittenFile> {
  const { path } = job;
  const { directory, reserveBytes } = parts;
  const title = `the bytes of ${describeJob(job)}`;
  const target = { path, directory, reserveBytes, title, onBytes };
  const expected = upTo(job.file.bytes, beginning.bytes, chunks);
  const written = await writeBody(expected, beginning, origin, target);
  return finish(job, written, origin?.etag ?? null);
}

async function* noChunks(): AsyncGenerator<Buffer> {}

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

async function finish(job: FileJob, written: WrittenFile, etag: string | null): Promise<WrittenFile> {
  try {
    refuseOtherLength(job, written.bytes);
    const { sha256 } = job.file;
    if (sha256 !== null && sha256 !== written.sha256) {
      throw new ContentDiffers(`sha256 ${sha256}`, `sha256 ${written.sha256}`);
    }
  } catch (error) {
    await dropPart(job.path);
    throw error;
  }
  const kept = job.file.sha256 === null && etag !== null ? { etag, ...written } : null;
  await finishPart(job.path, kept);
  return written;
}

/** @throws ContentDiffers */
function refuseOtherLength({ file }: FileJob, foundBytes: number): void {
  if (file.bytes === null || file.bytes === foundBytes) return;
  throw new ContentDiffers(`${file.bytes} bytes`, `${foundBytes} bytes`);
}
