/**
 * The secrets that sign what the service pushes to webhooks, and the text of the file that holds them: one on each line,
 * the newest first. What is written there when a webhook is added is what a receiver reads. Pure.
 */

const MAX_SECRET_CHARACTERS = 1_000;
/** Of the whole file: far more than anybody rotates. What is longer is another file. */
export const MAX_SECRET_FILE_CHARACTERS = 64_000;

/** Standard Webhooks: the prefix, and base64 with its padding. */
const SECRET = /^whsec_(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{4}|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{2}==)$/;

export type SecretLines =
  | { readonly kind: 'secrets'; readonly secrets: readonly string[] }
  /** `line`, counted from 1, is the first that holds something else. */
  | { readonly kind: 'wrong'; readonly line: number };

export function isWebhookSecret(text: string): boolean {
  return text.length <= MAX_SECRET_CHARACTERS && SECRET.test(text);
}

/** Empty lines and white space around a secret do not matter. */
export function secretLinesOf(text: string): SecretLines {
  if (text.length > MAX_SECRET_FILE_CHARACTERS) return { kind: 'wrong', line: 1 };
  const lines = text.split('\n').map((line) => line.trim());
  const wrong = lines.findIndex((line) => line !== '' && !isWebhookSecret(line));
  if (wrong !== -1) return { kind: 'wrong', line: wrong + 1 };
  return { kind: 'secrets', secrets: lines.filter((line) => line !== '') };
}
