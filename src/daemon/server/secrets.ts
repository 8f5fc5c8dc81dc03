/** The secrets of webhooks that are accepted now: all that the file holds, so that one can be replaced without a gap. */

import type { ReadFile } from '../../configuration/locate.ts';
import { Secret } from '../../lib/secret.ts';
import { systemCode } from '../../lib/system-code.ts';
import { ConfigurationError, StorageError } from '../../model/errors.ts';
import { secretLinesOf } from '../../model/webhook-secrets.ts';
import { MAX_SECRETS } from './limits.ts';

/**
 * The newest `MAX_SECRETS`; none where there is no file yet.
 * @throws StorageError when it cannot be read, ConfigurationError when a line is no secret; the line is not told.
 */
export function readSecrets(path: string, readFile: ReadFile): readonly Secret[] {
  const lines = secretLinesOf(textOf(path, readFile));
  if (lines.kind === 'wrong') {
    throw new ConfigurationError(`Line ${lines.line} of the webhook secrets ${path} is no secret.`, {
      hint: 'A secret is whsec_ and base64, alone on its line, as feed-sync webhook add writes it.',
    });
  }
  return [...new Set(lines.secrets)].slice(0, MAX_SECRETS).map((line) => new Secret(line));
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
