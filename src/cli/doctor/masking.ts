/**
 * The last of several hurdles for secrets: whatever the checks say, the API key is in none of it. Where somebody wrote
 * the key into another setting by mistake, that setting is shown; here the key is struck out of it. Pure.
 */

import { struckOut } from '../../lib/secret-forms.ts';

/** A copy of `value`, which holds texts, numbers, lists and plain objects, without any of the secrets in any text. */
export function masked<Value>(value: Value, secrets: readonly string[]): Value {
  return JSON.parse(JSON.stringify(value), (_key, part: unknown) =>
    typeof part === 'string' ? struckOut(part, secrets) : part,
  );
}
