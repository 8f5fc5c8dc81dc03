/**
 * One attempt to download a file: requests the rest of an existing part, or the whole, writes the bytes, and verifies them before
 * the file gets its final name.
 */

import { DataError } from '../../model/errors.ts';
import { type AddressGuard, checkLink, type LinkRules, RefusedLinkError } from '../http/addresses.ts';
import { type LeastThroughput, withoutKey } from '../http/body.ts';
import { TransientError } from '../http/failures.ts';
import type { Http, HttpAnswer, HttpRequest } from '../http/http.ts';
import { TOO_MANY_REQUESTS } from '../http/throttle.ts';
import type { FetchParts } from './fetch-file.ts';
import { type FetchedFile, isStillVerified, nothingMore, receiveRest, receiveWhole } from './receive-file.ts';
import { type Breadth, RangeRefused, sideBySide } from './side-by-side.ts';
import {
  describeJob,
  type FileJob,
  type KeptFile,
  type PartOrigin,
  partPathOf,
  readKept,
  readPartBefore,
  readPartOrigin,
  STRONG_TAG,
  sizeOf,
} from './snapshot-file.ts';

/** The response says that the link has expired. */
export class LinkExpired extends Error {
  readonly status: number;

  constructor(status: number) {
    super(`the link answered ${status}`);
    this.status = status;
  }
}

export interface AttemptParts extends FetchParts {
  /** Of all attempts to download the file. */
  readonly breadth: Breadth;
}

/** Attempts to download a file once. @throws LinkExpired, ContentDiffers, TransientError, DataError, StorageError, InterruptedError */
export async function attemptFile(job: FileJob, link: string, parts: AttemptParts): Promise<FetchedFile> {
  const started = await startOf(job, parts);
  const { resumption } = started;
  if (resumption !== null && resumption.fromByte === resumption.totalBytes) {
    return receiveRest(job, nothingMore(), resumption, parts);
  }
  const first = await ask(job, link, started, parts);
  if (first.kind.kind !== 'start-over') return take(job, link, first, started, parts);
  first.answer.discard();
  const again = await ask(job, link, NOTHING_THERE, parts);
  return take(job, link, again, NOTHING_THERE, parts);
}

async function take(
  job: FileJob,
  link: string,
  { answer, kind }: Answered,
  { resumption, kept }: FileStart,
  parts: AttemptParts,
): Promise<FetchedFile> {
  try {
    if (kind.kind === 'whole') {
      const { etag, totalBytes } = kind;
      const isRangeable = etag !== null && totalBytes !== null;
      const start = { fromByte: 0, hasDigest: job.file.sha256 !== null };
      const bytes = isRangeable
        ? await bytesOf(job, link, answer, { etag, totalBytes, ...start }, parts)
        : answer.chunks();
      return await receiveWhole(job, bytes, kind, parts);
    }
    if (kind.kind === 'rest' && resumption !== null) {
      const bytes = await bytesOf(job, link, answer, resumption, parts);
      return await receiveRest(job, bytes, resumption, parts);
    }
  } finally {
    answer.discard();
  }
  if (kind.kind === 'expired') throw new LinkExpired(kind.status);
  if (kind.kind === 'unchanged' && kept !== null && isTagOf(kept, kind.etag)) {
    return { ...kept, isUnchanged: true };
  }
  throw new TransientError(`the place of the file answered ${answer.status}, which was not asked for`);
}

/** The bytes that the answer begins, of which none is of a key that lies across two answers. */
async function bytesOf(
  job: FileJob,
  link: string,
  answer: HttpAnswer,
  resumption: Resumption,
  parts: AttemptParts,
): Promise<AsyncGenerator<Buffer>> {
  const { apiKey } = parts.options;
  const before = await readPartBefore(job.path, resumption.fromByte, apiKey.reveal().length);
  return withoutKey(answeredBytes(job, link, answer, resumption, parts), apiKey, DOWNLOAD, { before });
}

/** Those of a large file may come in ranges side by side. */
function answeredBytes(
  job: FileJob,
  link: string,
  answer: HttpAnswer,
  resumption: Resumption,
  parts: AttemptParts,
): AsyncGenerator<Buffer> {
  const { options, limits, rangeSlots: slots, retryPolicy: backoff, breadth, signal } = parts;
  const { clock, random, log } = options;
  const { fromByte, totalBytes } = resumption;
  const startedMs = clock.monotonicMs();
  const open = async (
    from: number,
    endByte: number,
    least: LeastThroughput | null,
    stopped: AbortSignal,
  ): Promise<AsyncGenerator<Buffer>> => {
    const start = { resumption: { ...resumption, fromByte: from, endByte }, kept: null };
    const spentMs = clock.monotonicMs() - startedMs;
    const asking = { ...parts, signal: stopped };
    const { answer: more, kind } = await ask(job, link, start, asking, { spentMs, least }).catch(asRefused);
    if (kind.kind === 'rest') return more.chunks();
    more.discard();
    if (kind.kind === 'expired') throw new LinkExpired(kind.status);
    throw new RangeRefused(`the place of the file answered ${more.status} to a range`);
  };
  if (totalBytes < limits.ranges.fromBytes) return answer.chunks();
  const file = { stream: answer.chunks(), fromByte, totalBytes, open };
  return sideBySide(file, { limits: limits.ranges, breadth, slots, clock, random, backoff, log, signal });
}

/** The file itself came from an allowed place, so a single range that is redirected elsewhere is only no range. @throws always */
function asRefused(error: unknown): never {
  throw error instanceof DataError ? new RangeRefused(error.message) : error;
}

/** A 304 may name the tag as a weak one, but no other tag. */
function isTagOf({ etag }: KeptFile, named: string | null): boolean {
  return named === null || named.replace(/^W\//, '') === etag;
}

const DOWNLOAD = 'download a file';

interface Answered {
  readonly answer: HttpAnswer;
  readonly kind: AnswerKind;
}

interface Pace {
  /** How long the attempt has lasted. */
  readonly spentMs: number;
  /** Null: that of every file. */
  readonly least: LeastThroughput | null;
}

type Headers = { range?: string; 'if-range'?: string; 'if-none-match'?: string };

async function ask(
  job: FileJob,
  link: string,
  { resumption, kept }: FileStart,
  { source, limits, signal }: FetchParts,
  { spentMs, least }: Pace = { spentMs: 0, least: null },
): Promise<Answered> {
  const headers: Headers = {};
  if (resumption !== null) {
    const { fromByte, endByte } = resumption;
    headers.range = `bytes=${fromByte}-${endByte === undefined ? '' : endByte - 1}`;
    headers['if-range'] = resumption.etag;
  } else if (kept !== null) headers['if-none-match'] = kept.etag;
  const slowest = { bytesPerSecond: limits.slowestBytesPerSecond, overMs: limits.slowestOverMs };
  const leastThroughput = least ?? slowest;
  const deadlineMs = Math.max(1, Math.round(limits.fileDeadlineMs - spentMs));
  const request = { operation: DOWNLOAD, headers, deadlineMs, leastThroughput };
  try {
    const answer = await openFile(link, request, source, signal);
    try {
      return { answer, kind: kindOfAnswer(answer, resumption) };
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

const MAX_REDIRECTS = 3;
const REDIRECTS: readonly number[] = [301, 302, 303, 307, 308];

export interface FileSource {
  readonly http: Http;
  readonly rules: LinkRules;
  readonly guard: AddressGuard;
}

/**
 * `link` is absolute, or relative to the base URL. `request` contains the request headers.
 * @throws RefusedLinkError, TransientError
 */
async function openFile(
  link: string,
  request: Omit<HttpRequest, 'origin' | 'path'>,
  source: FileSource,
  signal: AbortSignal,
): Promise<HttpAnswer> {
  const { http, rules, guard } = source;
  let from: URL | null = null;
  let url = absolute(link, `${rules.baseUrl.href.replace(/\/$/, '')}/`);
  for (let redirects = 0; redirects <= MAX_REDIRECTS; redirects += 1) {
    checkLink(url, from, rules);
    if (!rules.trustedOrigins.has(url.origin)) await guard.checkLiteral(url.hostname);
    const answer = await http.send(
      { ...request, origin: url.origin, path: `${url.pathname}${url.search}` },
      signal,
    );
    const location = answer.header('location');
    if (!REDIRECTS.includes(answer.status) || location === null) return answer;
    answer.discard();
    from = url;
    url = absolute(location, url.href);
  }
  throw new TransientError(`its link is redirected more than ${MAX_REDIRECTS} times`);
}

function absolute(link: string, base: string): URL {
  if (URL.canParse(link, base)) return new URL(link, base);
  throw new RefusedLinkError('A link to a file cannot be read as an address.', {
    hint: 'Report it to the service.',
  });
}

interface FileStart {
  /** The part that the request may continue; null: the whole file has to be requested. */
  readonly resumption: Resumption | null;
  /** A finished file that is still good if the service says that the file is unchanged. */
  readonly kept: KeptFile | null;
}

const NOTHING_THERE: FileStart = { resumption: null, kept: null };

/**
 * Returns the existing bytes of the file. A loss of power may leave holes in a part, and without a stated digest nothing would
 * reveal them. So without a digest only a part that this process began is continued, and a complete part counts as the file only
 * after a request.
 */
async function startOf(job: FileJob, parts: FetchParts): Promise<FileStart> {
  const hasDigest = job.file.sha256 !== null;
  const kept = await keptOf(job);
  if (kept !== null && (await isStillVerified(job, kept, parts))) return { resumption: null, kept };
  if (!hasDigest && !parts.begunHere.has(job.path)) return NOTHING_THERE;
  const origin = await readPartOrigin(job.path);
  const fromByte = (await sizeOf(partPathOf(job.path))) ?? 0;
  if (origin === null || fromByte === 0 || fromByte > origin.totalBytes) return NOTHING_THERE;
  if (!hasDigest && fromByte === origin.totalBytes) return NOTHING_THERE;
  return { resumption: { ...origin, fromByte, hasDigest }, kept: null };
}

/** Returns a finished file that only the service can confirm as unchanged; null where there is none. */
export async function keptOf({ belongsByDigest, file, path }: FileJob): Promise<KeptFile | null> {
  if (belongsByDigest) return null;
  const kept = await readKept(path);
  if (kept === null || (await sizeOf(path)) !== kept.bytes) return null;
  return file.bytes === null || file.bytes === kept.bytes ? kept : null;
}

/** The part of the file that the request continues. */
interface Resumption extends PartOrigin {
  /** The number of existing bytes, which is the position of the first requested byte. */
  readonly fromByte: number;
  /** The position behind the last requested byte; left out: the rest of the file is requested. */
  readonly endByte?: number;
  /** Whether a stated digest proves in the end that the bytes belong together; otherwise the response has to name the tag. */
  readonly hasDigest: boolean;
}

export type AnswerKind =
  /** The whole file follows, with its length where the service states it. */
  | { readonly kind: 'whole'; readonly totalBytes: number | null; readonly etag: string | null }
  /** Exactly the rest follows. */
  | { readonly kind: 'rest' }
  /** The existing bytes do not belong to the response, so the whole has to be requested. */
  | { readonly kind: 'start-over' }
  /** The file with the requested tag is unchanged; null: the response does not name the tag. */
  | { readonly kind: 'unchanged'; readonly etag: string | null }
  /** The link has expired. */
  | { readonly kind: 'expired'; readonly status: number };

/** These statuses mean that the link has expired; a fresh link may work. */
const EXPIRED: readonly number[] = [401, 403, 404, 410];

type AnswerHead = Pick<HttpAnswer, 'status' | 'retryAfterMs' | 'header'>;

/** Classifies an answer. @throws TransientError for every response without a meaning here. */
export function kindOfAnswer(answer: AnswerHead, resumption: Resumption | null): AnswerKind {
  const { status } = answer;
  if (EXPIRED.includes(status)) return { kind: 'expired', status };
  if (status === 304) return { kind: 'unchanged', etag: answer.header('etag') };
  if (status === 416 && resumption !== null) return { kind: 'start-over' };
  const encoding = answer.header('content-encoding');
  if (status < 300 && encoding !== null && encoding !== 'identity') {
    throw new TransientError('the file came in an encoding that was not asked for');
  }
  if (status === 200) {
    return { kind: 'whole', totalBytes: lengthOf(answer), etag: strongTag(answer.header('etag')) };
  }
  if (status === 206 && resumption !== null) {
    return continues(answer, resumption) ? { kind: 'rest' } : { kind: 'start-over' };
  }
  throw new TransientError(`the place of the file answered ${status}`, {
    retryAfterMs: answer.retryAfterMs,
    isThrottled: status === TOO_MANY_REQUESTS,
  });
}

/** Only a part with the exact start and end, of the same total, and under the same tag may be appended. */
function continues(answer: AnswerHead, resumption: Resumption): boolean {
  const { fromByte, totalBytes, endByte = totalBytes, etag, hasDigest } = resumption;
  const tag = answer.header('etag');
  if (tag !== null && tag !== etag) return false;
  if (tag === null && !hasDigest) return false;
  return answer.header('content-range') === `bytes ${fromByte}-${endByte - 1}/${totalBytes}`;
}

function lengthOf(answer: AnswerHead): number | null {
  const text = answer.header('content-length');
  return text !== null && /^\d{1,15}$/.test(text) ? Number(text) : null;
}

/** A weak tag promises the same meaning, not the same bytes. */
function strongTag(tag: string | null): string | null {
  return tag !== null && STRONG_TAG.test(tag) ? tag : null;
}
