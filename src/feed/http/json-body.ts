/**
 * Reads a JSON body within limits of bytes, depth and parts. The stream is checked after inflating, so memory stays bounded and
 * `JSON.parse` never gets a harmful document.
 */

import { isUtf8 } from 'node:buffer';
import { Readable, type Transform } from 'node:stream';
import { createBrotliDecompress, createGunzip, createInflate } from 'node:zlib';
import { systemCode } from '../../lib/files.ts';
import { formatBytes, formatCount } from '../../lib/units.ts';
import { ContractViolationError } from '../../model/errors.ts';
import { WHOLE_BODY } from '../wire/fields.ts';
import { TransientError } from './failures.ts';
import type { HttpAnswer } from './http.ts';
import { JsonScan, withoutList } from './json-scan.ts';

export interface JsonLimits {
  readonly maxBytes: number;
  readonly maxDepth: number;
}

interface JsonBody {
  /** The inflated bytes as sent. */
  readonly bytes: Buffer;
  readonly json: unknown;
}

/** The most lists, objects and members of objects in a body. The limit grows with the allowed size of the body. */
const MAX_JSON_PARTS = 4_000_000;
const BYTES_OF_A_PART = 16;

/**
 * Reads a JSON body. `title` is what is being done, as the end of "Could not …". `unreadList` names a list of the whole object that is
 * empty in the result: its content is checked to be JSON, and only its bytes are used.
 * @throws TransientError when the body breaks off or is no JSON.
 * @throws ContractViolationError `response_too_large` when it is larger than the limit.
 * @throws ContractViolationError when it is deeper or of more parts than the limits.
 */
export async function readJsonBody(
  answer: HttpAnswer,
  limits: JsonLimits,
  title: string,
  unreadList: string | null = null,
): Promise<JsonBody> {
  const tooMuch = (fault: string) =>
    new ContractViolationError(`Could not ${title}: the answer ${fault}.`, WHOLE_BODY, {
      code: 'response_too_large',
      hint: 'If the service is meant to send so much at once, raise http.maxJsonBytes, and give it memory.',
    });
  const refuseSize = (): never => {
    throw tooMuch(`is larger than ${formatBytes(limits.maxBytes)}`);
  };
  const stated = Number(answer.header('content-length') ?? 0);
  if (stated > limits.maxBytes) {
    answer.discard();
    refuseSize();
  }
  const scan = new JsonScan(limits.maxDepth);
  const maxParts = Math.max(MAX_JSON_PARTS, Math.floor(limits.maxBytes / BYTES_OF_A_PART));
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of inflated(answer)) {
    size += chunk.length;
    if (size > limits.maxBytes) refuseSize();
    const verdict = scan.read(chunk);
    if (verdict === 'no-json') throw noJson();
    if (verdict === 'too-deep') {
      throw new ContractViolationError(
        `Could not ${title}: the answer is nested deeper than ${formatCount(limits.maxDepth)} levels.`,
        WHOLE_BODY,
      );
    }
    if (scan.parts > maxParts) throw tooMuch(`has more than ${formatCount(maxParts)} parts`);
    chunks.push(chunk);
  }
  const bytes = Buffer.concat(chunks);
  if (!scan.isWhole || !isUtf8(bytes)) throw noJson();
  const read = unreadList === null ? bytes : withoutList(bytes, scan, unreadList);
  return { bytes, json: JSON.parse(new TextDecoder().decode(read)) };
}

/** Quotes nothing of the body. */
function noJson(): TransientError {
  return new TransientError('the answer is not JSON', {
    hint: 'Something between here and the service may be answering in its place: check the base URL and the proxy.',
  });
}

const INFLATERS: Readonly<Record<string, () => Transform>> = {
  gzip: createGunzip,
  'x-gzip': createGunzip,
  deflate: createInflate,
  br: createBrotliDecompress,
};

/** The client asks for no encoding. An encoded body is inflated anyway, and its inflated size counts. */
async function* inflated(answer: HttpAnswer): AsyncGenerator<Buffer> {
  const encoding = (answer.header('content-encoding') ?? '').trim().toLowerCase();
  if (encoding === 'identity' || encoding === '') {
    yield* answer.chunks();
    return;
  }
  const inflate = Object.hasOwn(INFLATERS, encoding) ? INFLATERS[encoding]?.() : undefined;
  if (inflate === undefined) {
    answer.discard();
    throw new TransientError('the answer is in an encoding that was not asked for');
  }
  const source = Readable.from(answer.chunks(), { objectMode: false });
  source.once('error', (error) => inflate.destroy(error));
  try {
    yield* source.pipe(inflate);
  } catch (error) {
    const code = systemCode(error);
    if (error instanceof TransientError || code === null) throw error;
    throw new TransientError(`the answer cannot be inflated (${code})`, { cause: error });
  } finally {
    source.destroy();
    inflate.destroy();
  }
}
