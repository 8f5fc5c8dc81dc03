/** The secrets of webhooks that are accepted now: all that the file holds, so that one can be replaced without a gap. */

import type { ReadFile } from '../../configuration/locate.ts';
import { Secret } from '../../lib/secret.ts';
import { systemCode } from '../../lib/system-code.ts';
import { ConfigurationError, StorageError } from '../../model/errors.ts';
import {
  isWebhookSecret,
  MAX_WEBHOOK_SECRET_FILE_CHARACTERS,
  MAX_WEBHOOK_SECRETS,
} from '../../model/webhook-secret.ts';

/**
 * None where there is no file yet.
 * @throws StorageError when it cannot be read, ConfigurationError when it holds something else; no line of it is told.
 */
export function readSecrets(path: string, readFile: ReadFile): readonly Secret[] {
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
