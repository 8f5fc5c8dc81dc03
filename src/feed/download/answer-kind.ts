/** What an answer to a request for a file means, and where its bytes belong. Pure. */

import { retryAfterMs } from '../http/retry-after.ts';
import { TransientTrouble } from '../http/trouble.ts';
import type { PartOrigin } from './part-file.ts';

/** The part of the file that was asked to be continued. */
export interface Resumption extends PartOrigin {
  /** Bytes that are there; the first one asked for has this number. */
  readonly fromByte: number;
  /** Whether a stated digest tells in the end that the bytes belong together; else the answer has to name the tag. */
  readonly hasDigest: boolean;
}

export type AnswerKind =
  /** The whole file comes; its length where the service told it. */
  | { readonly kind: 'whole'; readonly totalBytes: number | null; readonly etag: string | null }
  /** Exactly the rest comes. */
  | { readonly kind: 'rest' }
  /** What is there does not belong to what would come: ask for the whole. */
  | { readonly kind: 'start-over' }
  /** The file of the tag that was sent is still the same; null: the answer does not name the tag. */
  | { readonly kind: 'unchanged'; readonly etag: string | null }
  /** The link no longer opens. */
  | { readonly kind: 'expired'; readonly status: number };

/** The link is no longer good; a fresh one may be. */
const EXPIRED: readonly number[] = [401, 403, 404, 410];

export interface AnswerHead {
  readonly status: number;
  header(name: string): string | null;
}

/** @throws TransientTrouble for every answer that has no meaning here. */
export function kindOfAnswer(answer: AnswerHead, resumption: Resumption | null, now: Date): AnswerKind {
  const { status } = answer;
  if (EXPIRED.includes(status)) return { kind: 'expired', status };
  if (status === 304) return { kind: 'unchanged', etag: answer.header('etag') };
  if (status === 416 && resumption !== null) return { kind: 'start-over' };
  const encoding = answer.header('content-encoding');
  if (status < 300 && encoding !== null && encoding !== 'identity') {
    throw new TransientTrouble('the file came in an encoding that was not asked for');
  }
  if (status === 200) {
    return { kind: 'whole', totalBytes: lengthOf(answer), etag: strongTag(answer.header('etag')) };
  }
  if (status === 206 && resumption !== null) {
    return continues(answer, resumption) ? { kind: 'rest' } : { kind: 'start-over' };
  }
  throw new TransientTrouble(`the place of the file answered ${status}`, {
    retryAfterMs: retryAfterMs(answer.header('retry-after'), now),
  });
}

/** Only a part with the exact start, up to the end of the same total, and under the same tag may be appended. */
function continues(answer: AnswerHead, resumption: Resumption): boolean {
  const { fromByte, totalBytes, etag, hasDigest } = resumption;
  const tag = answer.header('etag');
  if (tag !== null && tag !== etag) return false;
  if (tag === null && !hasDigest) return false;
  return answer.header('content-range') === `bytes ${fromByte}-${totalBytes - 1}/${totalBytes}`;
}

function lengthOf(answer: AnswerHead): number | null {
  const text = answer.header('content-length');
  return text !== null && /^\d{1,15}$/.test(text) ? Number(text) : null;
}

/** A weak tag promises the same meaning, not the same bytes. */
function strongTag(tag: string | null): string | null {
  return tag !== null && /^"[^"]*"$/.test(tag) ? tag : null;
}
