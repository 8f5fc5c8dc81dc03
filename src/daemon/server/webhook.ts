/**
 * The receiver of webhooks. A valid webhook wakes the loop, whatever it contains: only the log says what happened.
 *
 * Invariant: a refused webhook wakes nothing and is stored nowhere.
 */

import { isUtf8 } from 'node:buffer';
import { timingSafeEqual } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import { Webhook } from 'standardwebhooks';
import type { ReadFile } from '../../configuration/file.ts';
import type { Clock } from '../../lib/clock.ts';
import { systemCode } from '../../lib/files.ts';
import {
  isWebhookSecret,
  MAX_WEBHOOK_SECRET_FILE_CHARACTERS,
  MAX_WEBHOOK_SECRETS,
  Secret,
} from '../../lib/secret.ts';
import { ConfigurationError, StorageError } from '../../model/errors.ts';
import { ACCEPTED, type Answer, BAD_REQUEST, NOT_FOUND, TOO_LARGE, UNAUTHORIZED } from './answers.ts';
import {
  MAX_BODY_BYTES,
  MAX_SIGNATURES,
  MAX_WEBHOOK_ID_CHARACTERS,
  WAKE_PAUSE_MS,
  WEBHOOK_TOLERANCE_MS,
} from './limits.ts';
import type { DeliveryOutcome } from './metrics.ts';

export interface WebhookParts {
  /** One secret per line. Read for each delivery, so that a new secret counts at once. */
  readonly secretFile: string;
  /** Returns the text of a file. @throws the system's errors, with `code`. */
  readonly readFile: ReadFile;
  /** Stores that a delivery arrived. False: it had arrived before. */
  readonly remember: (deliveryId: string, at: Date) => boolean;
  /** Makes the loop poll now. Must return at once. */
  readonly wake: () => void;
}

/** Receives the delivery of a webhook. @throws the errors of reading the secrets or storing the delivery. */
export async function receive(
  request: IncomingMessage,
  parts: WebhookParts,
  clock: Clock,
  count: (outcome: DeliveryOutcome) => void,
): Promise<Answer> {
  const secrets = readSecrets(parts.secretFile, parts.readFile);
  if (secrets.length === 0) return NOT_FOUND;
  const refuse = (answer: Answer): Answer => {
    count('refused');
    return answer;
  };
  const body = await readBody(request);
  if (body === null) return refuse(TOO_LARGE);
  const now = clock.now();
  const judgement = judge({ headers: request.headers, body }, secrets, now);
  if (judgement.kind === 'malformed') return refuse(BAD_REQUEST);
  if (judgement.kind === 'unauthorized') return refuse(UNAUTHORIZED);
  const isNew = wakeIfNew(judgement.id, now, parts);
  count(isNew ? 'woke' : 'repeated');
  return ACCEPTED;
}

/** Wakes the loop even where the delivery cannot be stored, because waking twice does no harm. */
function wakeIfNew(deliveryId: string, now: Date, { remember, wake }: WebhookParts): boolean {
  let isNew = true;
  try {
    isNew = remember(deliveryId, now);
  } finally {
    if (isNew) wake();
  }
  return isNew;
}

interface Delivery {
  /** By lower-case names. */
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>;
  readonly body: Buffer;
}

type Judgement =
  /** Signed with one of the secrets, and fresh. */
  | { readonly kind: 'valid'; readonly id: string }
  /** A required part of a webhook is missing. */
  | { readonly kind: 'malformed' }
  /** The delivery is too old, too new, or signed with none of the secrets. */
  | { readonly kind: 'unauthorized' };

export function judge(delivery: Delivery, secrets: readonly Secret[], now: Date): Judgement {
  const claim = claimOf(delivery);
  if (claim === null) return { kind: 'malformed' };
  const isFresh = Math.abs(now.getTime() - claim.sentAt.getTime()) <= WEBHOOK_TOLERANCE_MS;
  return isFresh && isSigned(claim, delivery.body, secrets)
    ? { kind: 'valid', id: claim.id }
    : { kind: 'unauthorized' };
}

interface Claim {
  readonly id: string;
  readonly sentAt: Date;
  /** The base64 signatures after `v1,`; other signatures are ignored. */
  readonly signatures: readonly Buffer[];
}

/** Null where a header is missing or cannot be signed, or the body is no text. */
function claimOf({ headers, body }: Delivery): Claim | null {
  const id = only(headers['webhook-id']);
  const timestamp = only(headers['webhook-timestamp']);
  const signatures = only(headers['webhook-signature']).split(' ');
  const isId = /^[\x21-\x7e]+$/.test(id) && id.length <= MAX_WEBHOOK_ID_CHARACTERS;
  const isWhole = isId && /^\d{1,12}$/.test(timestamp) && signatures[0] !== '';
  if (!isWhole || signatures.length > MAX_SIGNATURES || !isUtf8(body)) return null;
  const sentAt = new Date(Number(timestamp) * 1_000);
  return { id, sentAt, signatures: signatures.map((signature) => Buffer.from(signature)) };
}

/** The library signs, and this function compares: the library's own check uses the machine's clock and decodes the body. */
function isSigned({ id, sentAt, signatures }: Claim, body: Buffer, secrets: readonly Secret[]): boolean {
  const matches = secrets.flatMap((secret) => {
    const expected = Buffer.from(new Webhook(secret.reveal()).sign(id, sentAt, body));
    return signatures.map((given) => given.length === expected.length && timingSafeEqual(given, expected));
  });
  return matches.includes(true);
}

/** A header that is missing or repeated counts as missing. */
function only(value: string | readonly string[] | undefined): string {
  return typeof value === 'string' ? value : '';
}

/**
 * Returns no secret where there is no file yet. @throws StorageError when the file cannot be read, ConfigurationError when it contains
 * something else; the message quotes no line of it.
 */
function readSecrets(path: string, readFile: ReadFile): readonly Secret[] {
  const text = textOf(path, readFile);
  if (text.length > MAX_WEBHOOK_SECRET_FILE_CHARACTERS) {
    throw wrongFile(`The file ${path} is too large for webhook secrets.`);
  }
  const lines = text.split('\n').map((line) => line.trim());
  const wrong = lines.findIndex((line) => line !== '' && !isWebhookSecret(line));
  if (wrong !== -1) throw wrongFile(`Line ${wrong + 1} of the webhook secrets ${path} is no secret.`);
  const secrets = lines.filter((line) => line !== '');
  if (secrets.length > MAX_WEBHOOK_SECRETS) {
    throw wrongFile(`The file ${path} holds more than ${MAX_WEBHOOK_SECRETS} webhook secrets.`);
  }
  return secrets.map((line) => new Secret(line));
}

function textOf(path: string, readFile: ReadFile): string {
  try {
    return readFile(path);
  } catch (error) {
    if (systemCode(error) === 'ENOENT') return '';
    const reason = systemCode(error) ?? String(error);
    throw new StorageError(`The webhook secrets ${path} cannot be read: ${reason}.`, {
      hint: 'Make the file readable for the user that feed-sync runs as.',
      cause: error,
    });
  }
}

function wrongFile(message: string): ConfigurationError {
  return new ConfigurationError(message, {
    hint: 'Leave those in it that the service signs with, each alone on its line, as feed-sync webhook add writes them.',
  });
}

/**
 * Returns the unchanged bytes; null where there are more than `MAX_BODY_BYTES`. The rest is then skipped, for as long as a request may
 * take, so that the sender reads the response. @throws when the connection ends before the body does.
 */
async function readBody(request: IncomingMessage): Promise<Buffer | null> {
  if (Number(request.headers['content-length'] ?? 0) > MAX_BODY_BYTES) return null;
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of request.iterator({ destroyOnReturn: false })) {
    bytes += chunk.length;
    if (bytes > MAX_BODY_BYTES) return null;
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

export class Waker {
  readonly #wake: () => void;
  readonly #clock: Clock;
  readonly #ended = new AbortController();
  #isPausing = false;
  #isAsked = false;

  constructor(wake: () => void, clock: Clock) {
    this.#wake = wake;
    this.#clock = clock;
  }

  /** Returns at once. */
  wake(): void {
    this.#isAsked = true;
    if (!this.#isPausing) void this.#wakeAndPause();
  }

  /** Ignores requests that came within the pause. */
  end(): void {
    this.#ended.abort();
  }

  async #wakeAndPause(): Promise<void> {
    this.#isPausing = true;
    while (this.#isAsked && !this.#ended.signal.aborted) {
      this.#isAsked = false;
      this.#wake();
      await this.#clock.sleep(WAKE_PAUSE_MS, this.#ended.signal).catch(() => {});
    }
    this.#isPausing = false;
  }
}
