/** The token that `/status` and the page ask for: `Authorization: Bearer TOKEN`, or as the password of any name, as browsers ask for it. */

import { createHash, timingSafeEqual } from 'node:crypto';
import type { ReadFile } from '../../configuration/file.ts';
import { systemReason } from '../../lib/files.ts';
import { Secret } from '../../lib/secret.ts';
import { ConfigurationError } from '../../model/errors.ts';
import { MAX_TOKEN_CHARACTERS, MIN_TOKEN_CHARACTERS } from './limits.ts';

export interface TokenParts {
  /** Read for each request, so that a new token counts at once. */
  readonly file: string;
  /** Returns the text of a file. @throws the system's errors, with `code`. */
  readonly readFile: ReadFile;
}

/** Reads the token. @throws ConfigurationError when the file cannot be read or holds no token; the message quotes nothing of it. */
export function readToken({ file, readFile }: TokenParts): Secret {
  const token = textOf(file, readFile).trim();
  const isToken = /^[\x21-\x7e]+$/.test(token) && token.length <= MAX_TOKEN_CHARACTERS;
  if (isToken && token.length >= MIN_TOKEN_CHARACTERS) return new Secret(token);
  throw new ConfigurationError(`The file ${file} of status.tokenFile holds no token.`, {
    hint: `A token is one line of ${MIN_TOKEN_CHARACTERS} to ${MAX_TOKEN_CHARACTERS} letters, digits and signs: openssl rand -hex 32.`,
  });
}

function textOf(file: string, readFile: ReadFile): string {
  try {
    return readFile(file);
  } catch (error) {
    throw new ConfigurationError(
      `The file ${file} of status.tokenFile cannot be read: ${systemReason(error)}.`,
      {
        hint: 'Make the file readable for the user that feed-sync runs as.',
        cause: error,
      },
    );
  }
}

/** Returns whether a request has the token; `authorization` is its header. */
export function hasToken(authorization: string | undefined, token: Secret): boolean {
  const [, scheme = '', credentials = ''] = /^(Bearer|Basic) +(\S+)$/i.exec(authorization ?? '') ?? [];
  const given =
    scheme.toLowerCase() === 'basic'
      ? Buffer.from(credentials, 'base64')
          .toString()
          .replace(/^[^:]*:/, '')
      : credentials;
  return timingSafeEqual(digestOf(given), digestOf(token.reveal()));
}

/** Texts of all lengths have digests of one length. */
function digestOf(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}
