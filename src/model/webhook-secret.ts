/**
 * The secrets that sign what the service pushes to webhooks, and the file that holds them: one on each line, the newest
 * first. What is written there when a webhook is added is what a receiver reads. Pure.
 */

/** Of one file. All are tried with every delivery, so there are few. */
export const MAX_WEBHOOK_SECRETS = 16;
export const MAX_WEBHOOK_SECRET_FILE_CHARACTERS = 64_000;
const MAX_SECRET_CHARACTERS = 1_000;

/** Standard Webhooks: the prefix, and base64 with its padding. */
const SECRET = /^whsec_(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{4}|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{2}==)$/;

export function isWebhookSecret(text: string): boolean {
  return text.length <= MAX_SECRET_CHARACTERS && SECRET.test(text);
}
