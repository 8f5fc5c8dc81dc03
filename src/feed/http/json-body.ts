/**
 * Reads a JSON body within limits of bytes, depth and parts. The stream is checked after inflating, so memory stays bounded and
 * `JSON.parse` never gets a harmful document.
 */

import { Readable, type Transform } from 'node:stream';
import { createBrotliDecompress, createGunzip, createInflate } from 'node:zlib';
import { systemCode } from '../../lib/files.ts';
import { formatBytes, formatCount } from '../../lib/units.ts';
import { ContractViolationError } from '../../model/errors.ts';
import { WHOLE_BODY } from '../wire/fields.ts';
import { TransientError } from './failures.ts';
import type { HttpAnswer } from './http.ts';

export interface JsonLimits {
  readonly maxBytes: number;
  readonly maxDepth: number;
}

interface JsonBody {
  /** The inflated bytes as sent. */
  readonly bytes: Buffer;
  readonly text: string;
  readonly json: unknown;
}

/** The most lists, objects and members of objects in a body. The limit grows with the allowed size of the body. */
const MAX_JSON_PARTS = 4_000_000;
const BYTES_OF_A_PART = 16;

/**
 * `title` is what is being done, as the end of "Could not …".
 * @throws TransientError when the body breaks off or is no JSON.
 * @throws ContractViolationError `response_too_large` when it is larger than the limit.
 * @throws ContractViolationError when it is deeper or of more parts than the limits.
 */
export async function readJsonBody(answer: HttpAnswer, limits: JsonLimits, title: string): Promise<JsonBody> {
  const tooMuch = (fault: string) =>
    new ContractViolationError(`Could not ${title}: the answer ${fault}.`, WHOLE_BODY, {
      code: 'response_too_large',
      hint: 'If the service is meant to send so much at once, raise http.maxJsonBytes.',
    });
  const refuseSize = (): never => {
    throw tooMuch(`is larger than ${formatBytes(limits.maxBytes)}`);
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
    if (depth.parts > maxParts) throw tooMuch(`has more than ${formatCount(maxParts)} parts`);
    chunks.push(chunk);
  }
  const bytes = Buffer.concat(chunks);
  return { bytes, ...parsed(bytes) };
}

function parsed(bytes: Buffer): Pick<JsonBody, 'text' | 'json'> {
  try {
    const text = new TextDecoder('utf-8', { fatal: true }).decode(bytes);
    return { text, json: JSON.parse(text) };
  } catch {
    // The parser's message quotes the body, so it is dropped.
    throw new TransientError('the answer is not JSON', {
      hint: 'Something between here and the service may be answering in its place: check the base URL and the proxy.',
    });
  }
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

/** The classes of bytes. Most bytes are `NOTHING`, and the bytes of non-ASCII characters never look like syntax. */
const NOTHING = 0;
const QUOTE = 1;
const BACKSLASH = 2;
const SYNTAX = 3;
const KINDS = new Uint8Array(256);
KINDS[0x22] = QUOTE;
KINDS[0x5c] = BACKSLASH;
for (const byte of '[{]}:') KINDS[byte.charCodeAt(0)] = SYNTAX;

/** The change of depth by each byte outside of texts. */
const STEPS = new Int8Array(256);
for (const open of '[{') STEPS[open.charCodeAt(0)] = 1;
for (const close of ']}') STEPS[close.charCodeAt(0)] = -1;

/** Each list, object and member takes memory of its own. */
const PARTS = new Int8Array(256);
for (const begin of '[{:') PARTS[begin.charCodeAt(0)] = 1;

export class JsonDepth {
  readonly #maxDepth: number;
  #depth = 0;
  #parts = 0;
  #inText = false;
  #escaped = false;

  constructor(maxDepth: number) {
    this.#maxDepth = maxDepth;
  }

  /** The number of lists, objects and members so far. */
  get parts(): number {
    return this.#parts;
  }

  /** Returns false once the nesting is too deep. */
  accepts(chunk: Uint8Array): boolean {
    // Access to fields costs several times as much as to variables, and this loop runs for every byte.
    let depth = this.#depth;
    let parts = this.#parts;
    let inText = this.#inText;
    const maxDepth = this.#maxDepth;
    const { length } = chunk;
    let index = Number(this.#escaped);
    for (; index < length; index += 1) {
      const byte = chunk[index] ?? 0;
      const kind = KINDS[byte];
      if (kind === NOTHING) continue;
      if (kind === QUOTE) inText = !inText;
      // A backslash outside of a text is not JSON, and the parser stops there.
      else if (kind === BACKSLASH) index += 1;
      else if (!inText) {
        depth += STEPS[byte] ?? 0;
        parts += PARTS[byte] ?? 0;
        if (depth > maxDepth) return false;
      }
    }
    this.#depth = depth;
    this.#parts = parts;
    this.#inText = inText;
    // The escaped character may be the first byte of the next chunk.
    this.#escaped = index > length;
    return true;
  }
}
