/**
 * Whether a webhook is the service's: Standard Webhooks, on the bytes as they came. Pure.
 *
 * Invariants: the body is never decoded; how long a comparison takes tells nothing of the signature that was expected;
 * every secret and every signature is tried.
 */

import { isUtf8 } from 'node:buffer';
import { timingSafeEqual } from 'node:crypto';
import { Webhook } from 'standardwebhooks';
import type { Secret } from '../../lib/secret.ts';
import { MAX_SIGNATURES, MAX_WEBHOOK_ID_CHARACTERS, WEBHOOK_TOLERANCE_MS } from './limits.ts';

export interface Delivery {
  /** By lower-case names. */
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>;
  readonly body: Buffer;
}

export type Judgement =
  /** Signed with one of the secrets, and fresh. */
  | { readonly kind: 'valid'; readonly id: string }
  /** It lacks what a webhook has. */
  | { readonly kind: 'malformed' }
  /** It is too old, too new, or not signed with any of the secrets. */
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
  /** Each `v1,` and base64; others are passed over. */
  readonly signatures: readonly Buffer[];
}

/** Null where a header is missing, or says nothing that could be signed, or the body is no text. */
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

/** The library signs, and we compare: its own check goes by the machine's clock and decodes the body. */
function isSigned({ id, sentAt, signatures }: Claim, body: Buffer, secrets: readonly Secret[]): boolean {
  const matches = secrets.flatMap((secret) => {
    const expected = Buffer.from(new Webhook(secret.reveal()).sign(id, sentAt, body));
    return signatures.map((given) => given.length === expected.length && timingSafeEqual(given, expected));
  });
  return matches.includes(true);
}

/** A header that is missing, or is there twice, is as good as none. */
function only(value: string | readonly string[] | undefined): string {
  return typeof value === 'string' ? value : '';
}
