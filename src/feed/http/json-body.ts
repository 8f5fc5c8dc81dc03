/**
 * Reads a JSON body under limits of bytes, depth and parts, all checked on the stream and after inflating: memory stays
 * flat whatever is sent, and `JSON.parse` never sees a document that could hurt it.
 */

import { Readable, type Transform } from 'node:stream';
import { createBrotliDecompress, createGunzip, createInflate } from 'node:zlib';
import { systemCode } from '../../lib/system-code.ts';
import { formatBytes, formatCount } from '../../lib/units.ts';
import { ContractViolationError } from '../../model/errors.ts';
import { WHOLE_BODY } from '../wire/fields.ts';
import type { HttpAnswer } from './http.ts';
import { JsonDepth } from './json-depth.ts';
import { TransientTrouble } from './trouble.ts';

export interface JsonLimits {
  readonly maxBytes: number;
  readonly maxDepth: number;
}

export interface JsonBody {
  /** As sent, but inflated. */
  readonly bytes: Buffer;
  readonly text: string;
  readonly json: unknown;
  /** Service time of the answer. */
  readonly readAt: Date;
}

/** Lists, objects and members of objects in a body; more in one that may be larger than so many parts of so many bytes. */
const MAX_JSON_PARTS = 4_000_000;
const BYTES_OF_A_PART = 16;

/**
 * `title` is what is being done, as the end of "Could not …".
 * @throws TransientTrouble when the body breaks off or is no JSON.
 * @throws ContractViolationError when it is larger, deeper or of more parts than the limits.
 */
export async function readJsonBody(answer: HttpAnswer, limits: JsonLimits, title: string): Promise<JsonBody> {
  const refuseSize = (): never => {
    throw new ContractViolationError(
      `Could not ${title}: the answer is larger than ${formatBytes(limits.maxBytes)}.`,
      WHOLE_BODY,
      { hint: 'If the service is meant to send so much at once, raise http.maxJsonBytes.' },
    );
  };
  const stated = Number(answer.header('content-length') ?? 0);
  if (stated > limits.maxBytes) {
    answer.discard();
    refuseSize();
  }
  const depth = new JsonDepth(limits.maxDepth);
  const maxParts = Math.max(MAX_JSON_PARTS, Math.floor(limits.maxBytes / BYTES_OF_A_PART));
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of inflated(answer)) {
    size += chunk.length;
    if (size > limits.maxBytes) refuseSize();
    if (!depth.accepts(chunk)) {
      throw new ContractViolationError(
        `Could not ${title}: the answer is nested deeper than ${formatCount(limits.maxDepth)} levels.`,
        WHOLE_BODY,
      );
    }
    if (depth.parts > maxParts) {
      throw new ContractViolationError(
        `Could not ${title}: the answer has more than ${formatCount(maxParts)} parts.`,
        WHOLE_BODY,
        { hint: 'If the service is meant to send so much at once, raise http.maxJsonBytes.' },
      );
    }
    chunks.push(chunk);
  }
  const bytes = Buffer.concat(chunks);
  return { bytes, ...parsed(bytes), readAt: answer.readAt };
}

function parsed(bytes: Buffer): Pick<JsonBody, 'text' | 'json'> {
  try {
    const text = new TextDecoder('utf-8', { fatal: true }).decode(bytes);
    return { text, json: JSON.parse(text) };
  } catch {
    // The parser's own message quotes the body, so it goes nowhere.
    throw new TransientTrouble('the answer is not JSON', {
      hint: 'Something between here and the service may be answering in its place: check the base URL and the proxy.',
    });
  }
}

/** We ask for no encoding; a body that comes in one all the same is inflated, and counted as what it inflates to. */
async function* inflated(answer: HttpAnswer): AsyncGenerator<Buffer> {
  const encoding = (answer.header('content-encoding') ?? 'identity').trim().toLowerCase();
  if (encoding === 'identity' || encoding === '') {
    yield* answer.chunks();
    return;
  }
  const inflate = inflaterFor(encoding);
  if (inflate === null) {
    answer.discard();
    throw new TransientTrouble('the answer is in an encoding that was not asked for');
  }
  const source = Readable.from(answer.chunks(), { objectMode: false });
  source.once('error', (error) => inflate.destroy(error));
  try {
    yield* source.pipe(inflate);
  } catch (error) {
    const code = systemCode(error);
    if (error instanceof TransientTrouble || code === null) throw error;
    throw new TransientTrouble(`the answer cannot be inflated (${code})`, { cause: error });
  } finally {
    source.destroy();
    inflate.destroy();
  }
}

function inflaterFor(encoding: string): Transform | null {
  switch (encoding) {
    case 'gzip':
    case 'x-gzip':
      return createGunzip();
    case 'deflate':
      return createInflate();
    case 'br':
      return createBrotliDecompress();
    default:
      return null;
  }
}
