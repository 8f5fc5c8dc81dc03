/**
 * Discards responses that contain the API key, which a proxy in front of the service may echo. The key would otherwise end up
 * in files, databases and messages.
 */

import { containsSecret, LEAST_SECRET_CHARACTERS, type Secret } from '../../lib/secret.ts';
import { ContractViolationError } from '../../model/errors.ts';
import { WHOLE_BODY } from '../wire/fields.ts';

/** Yields the chunks as they arrive. @throws ContractViolationError before any byte of the key is yielded. */
export async function* withoutKey(
  chunks: AsyncIterable<Buffer>,
  apiKey: Secret,
  title: string,
): AsyncGenerator<Buffer> {
  const key = Buffer.from(apiKey.reveal());
  if (key.length < LEAST_SECRET_CHARACTERS) {
    yield* chunks;
    return;
  }
  let heldBack: Buffer = Buffer.alloc(0);
  for await (const chunk of chunks) {
    const bytes = heldBack.length === 0 ? chunk : Buffer.concat([heldBack, chunk]);
    if (bytes.includes(key)) throw repeatsKey(title);
    // Bytes that may be the beginning of the key wait for the following bytes.
    const sure = bytes.length - beginningAtEnd(bytes, key);
    heldBack = bytes.subarray(sure);
    if (sure > 0) yield bytes.subarray(0, sure);
  }
  if (heldBack.length > 0) yield heldBack;
}

/** Returns how many bytes at the end are a beginning of the key. */
function beginningAtEnd(bytes: Buffer, key: Buffer): number {
  const first = key.subarray(0, 1);
  const from = Math.max(0, bytes.length - key.length + 1);
  for (let at = bytes.indexOf(first, from); at !== -1; at = bytes.indexOf(first, at + 1)) {
    const end = bytes.subarray(at);
    if (key.subarray(0, end.length).equals(end)) return end.length;
  }
  return 0;
}

/** @throws ContractViolationError when the text contains the key in any form that JSON allows. */
export function refuseKeyIn(text: string, apiKey: Secret, title: string): void {
  if (containsSecret(text, [apiKey.reveal()])) throw repeatsKey(title);
}

function repeatsKey(title: string): ContractViolationError {
  return new ContractViolationError(
    `Could not ${title}: the answer repeats the API key, so it was discarded.`,
    WHOLE_BODY,
    { hint: 'Tell the service, and get a new key: others may have seen this one.' },
  );
}
