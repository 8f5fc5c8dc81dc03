/** The file of webhook secrets: one on each line, all of them accepted, so that one can be replaced without a gap. */

import type { ReadFile } from '../../configuration/locate.ts';
import { Secret } from '../../lib/secret.ts';
import { systemCode } from '../../lib/system-code.ts';
import { ConfigurationError, StorageError } from '../../model/errors.ts';
import { MAX_SECRET_FILE_CHARACTERS, MAX_SECRETS } from './limits.ts';

/** Base64 with its padding. */
const SECRET_LINE = /^whsec_(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{4}|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{2}==)$/;

/**
 * None where there is no file yet.
 * @throws StorageError when it cannot be read, ConfigurationError when a line is no secret; the line is not told.
 */
export function readSecrets(path: string, readFile: ReadFile): readonly Secret[] {
  const lines = textOf(path, readFile)
    .split('\n')
    .map((line) => line.trim());
  const wrong = lines.findIndex((line) => line !== '' && !SECRET_LINE.test(line));
  if (wrong !== -1) {
    throw new ConfigurationError(`Line ${wrong + 1} of the webhook secrets ${path} is no secret.`, {
      hint: 'A secret is whsec_ and base64, alone on its line. feed-sync webhook add writes it there.',
    });
  }
  const secrets = [...new Set(lines.filter((line) => line !== ''))];
  if (secrets.length > MAX_SECRETS) {
    throw new ConfigurationError(
      `The webhook secrets ${path} are ${secrets.length}; at most ${MAX_SECRETS} are tried.`,
      {
        hint: 'Take out those that the service signs with no more.',
      },
    );
  }
  return secrets.map((line) => new Secret(line));
}

function textOf(path: string, readFile: ReadFile): string {
  try {
    const text = readFile(path);
    if (text.length <= MAX_SECRET_FILE_CHARACTERS) return text;
  } catch (error) {
    if (systemCode(error) === 'ENOENT') return '';
    throw new StorageError(
      `The webhook secrets ${path} cannot be read: ${systemCode(error) ?? String(error)}.`,
      {
        hint: 'Make the file readable for the user that feed-sync runs as.',
        cause: error,
      },
    );
  }
  throw new ConfigurationError(`The file ${path} is too large for webhook secrets.`, {
    hint: 'Name the right file in webhook.secretFile.',
  });
}
