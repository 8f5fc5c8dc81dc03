/**
 * The last of several hurdles for secrets: whatever the checks say, the API key is in none of it. Where somebody wrote
 * the key into another setting by mistake, that setting is shown; here the key is struck out of it. Pure.
 */

import { Secret } from '../../lib/secret.ts';

/** Shorter than any key; striking out less would make a text unreadable and hide nothing. */
const LEAST_SECRET_CHARACTERS = 6;

/** A copy of `value`, which holds texts, numbers, lists and plain objects, without any of the secrets in any text. */
export function masked<Value>(value: Value, secrets: readonly string[]): Value {
  const forms = secrets.filter(({ length }) => length >= LEAST_SECRET_CHARACTERS).flatMap(formsOf);
  const mask = String(new Secret(''));
  const strike = (text: string): string => forms.reduce((rest, form) => rest.replaceAll(form, mask), text);
  return JSON.parse(JSON.stringify(value), (_key, part: unknown) =>
    typeof part === 'string' ? strike(part) : part,
  );
}

/** The longest first, so that one that holds another is struck out whole. */
function formsOf(secret: string): readonly string[] {
  const base64 = Buffer.from(secret).toString('base64');
  const forms = [
    secret,
    encodeURIComponent(secret),
    base64,
    base64.replace(/=+$/, ''),
    Buffer.from(secret).toString('hex'),
  ];
  return [...new Set(forms)].sort((left, right) => right.length - left.length);
}
