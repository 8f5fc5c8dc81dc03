/**
 * One attempt at one file: asks for the rest of what is there, or for the whole, writes it, and verifies it before it
 * gets its final name.
 */

import { DataError } from '../../model/errors.ts';
import type { HttpAnswer } from '../http/http.ts';
import type { LeastThroughput } from '../http/throughput.ts';
import { TransientTrouble } from '../http/trouble.ts';
import { type AnswerKind, kindOfAnswer } from './answer-kind.ts';
import { describeJob, type FileJob } from './file-job.ts';
import { type FileStart, NOTHING_THERE, startOf } from './file-start.ts';
import { type FileSource, openFile } from './open-file.ts';
import type { KeptFile } from './part-file.ts';
import {
  type FetchedFile,
  nothingMore,
  type ReceivingParts,
  receiveRest,
  receiveWhole,
} from './receive-file.ts';
import { RefusedLinkError } from './refused-link.ts';

/** The link answered as one that has expired. */
export class LinkExpired extends Error {
  readonly status: number;

  constructor(status: number) {
    super(`the link answered ${status}`);
    this.status = status;
  }
}

export interface AttemptParts extends ReceivingParts {
  readonly source: FileSource;
  readonly deadlineMs: number;
  readonly leastThroughput: LeastThroughput;
  readonly now: () => Date;
}

/** @throws LinkExpired, ContentDiffers, TransientTrouble, DataError, StorageError, InterruptedError */
export async function attemptFile(
  job: FileJob,
  link: string,
  parts: AttemptParts,
  onBytes: (bytes: number) => void,
  signal: AbortSignal,
): Promise<FetchedFile> {
  const started = await startOf(job, parts.begunHere);
  const { resumption } = started;
  if (resumption !== null && resumption.fromByte === resumption.totalBytes) {
    return receiveRest(job, nothingMore(), resumption, parts, onBytes, signal);
  }
  const first = await ask(job, link, started, parts, signal);
  if (first.kind.kind !== 'start-over') return take(job, first, started, parts, onBytes, signal);
  first.answer.discard();
  const again = await ask(job, link, NOTHING_THERE, parts, signal);
  return take(job, again, NOTHING_THERE, parts, onBytes, signal);
}

async function take(
  job: FileJob,
  { answer, kind }: Answered,
  { resumption, kept }: FileStart,
  parts: AttemptParts,
  onBytes: (bytes: number) => void,
  signal: AbortSignal,
): Promise<FetchedFile> {
  try {
    if (kind.kind === 'whole') return await receiveWhole(job, answer, kind, parts, onBytes, signal);
    if (kind.kind === 'rest' && resumption !== null) {
      return await receiveRest(job, answer.chunks(), resumption, parts, onBytes, signal);
    }
  } finally {
    answer.discard();
  }
  if (kind.kind === 'expired') throw new LinkExpired(kind.status);
  if (kind.kind === 'unchanged' && kept !== null && isTagOf(kept, kind.etag)) {
    return { ...kept, isUnchanged: true };
  }
  throw new TransientTrouble(`the place of the file answered ${answer.status}, which was not asked for`);
}

/** A 304 may name the tag as a weak one, but no other. */
function isTagOf({ etag }: KeptFile, named: string | null): boolean {
  return named === null || named.replace(/^W\//, '') === etag;
}

interface Answered {
  readonly answer: HttpAnswer;
  readonly kind: AnswerKind;
}

type Headers = { range?: string; 'if-range'?: string; 'if-none-match'?: string };

async function ask(
  job: FileJob,
  link: string,
  { resumption, kept }: FileStart,
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
