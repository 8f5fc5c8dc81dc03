/** What a person says of a receiver of webhooks: its address, and the header that it requires. */

import { resolve } from 'node:path';
import { isLoopback } from '../../configuration/service-kinds.ts';
import type { NewWebhook } from '../../feed/operator.ts';
import { printable } from '../../lib/printable.ts';
import { Secret } from '../../lib/secret.ts';
import { systemCode } from '../../lib/system-code.ts';
import { UsageError } from '../../model/errors.ts';
import type { Context } from '../context.ts';

const MAX_URL_CHARACTERS = 1_000;
const MAX_VALUE_CHARACTERS = 4_096;
const HEADER_NAME = /^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,200}$/;
/** Visible ASCII, with spaces only inside. */
const HEADER_VALUE = /^[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?$/;
const STANDARD_INPUT = '-';
const HELP = 'feed-sync webhook add --help';

export interface HeaderFlags {
  readonly headerName?: string;
  readonly headerValueFile?: string;
}

/** @throws UsageError for anything but https, or http on this machine, and for an address with a password. */
export function receiverUrl(text: string): string {
  const refuse = (why: string): UsageError =>
    new UsageError(`The address of a webhook ${why}.`, { hint: HELP });
  if (text.length > MAX_URL_CHARACTERS) throw refuse(`has at most ${MAX_URL_CHARACTERS} characters`);
  const url = URL.parse(text);
  if (url === null) throw refuse('must be a whole one, such as https://receiver.example.com/webhook');
  if (url.username + url.password !== '') {
    throw refuse('must not hold a user or a password: let the receiver require a header');
  }
  if (url.protocol !== 'https:' && !(url.protocol === 'http:' && isLoopback(url.hostname))) {
    throw refuse('must be https; http is for this machine only');
  }
  return url.href;
}

/** Without its query, in which a secret may stand. */
export function shownUrl(text: string): string {
  const url = URL.parse(text);
  return printable(url === null ? text : `${url.origin}${url.pathname}`);
}

/**
 * Null where the receiver requires none. The value comes from a file or from standard input, because everybody on the
 * machine can see the words of a command.
 * @throws UsageError
 */
export async function requiredHeader(
  { headerName, headerValueFile }: HeaderFlags,
  context: Context,
): Promise<NewWebhook['header']> {
  if (headerName === undefined && headerValueFile === undefined) return null;
  if (headerName === undefined || headerValueFile === undefined) {
    throw new UsageError('--header-name and --header-value-file go together.', { hint: HELP });
  }
  if (!HEADER_NAME.test(headerName)) {
    throw new UsageError(`${printable(headerName)} is no name of a header.`, { hint: HELP });
  }
  const value = (await readValue(headerValueFile, context)).trim();
  if (value.length > MAX_VALUE_CHARACTERS || !HEADER_VALUE.test(value)) {
    const limit = `one line of 1 to ${MAX_VALUE_CHARACTERS} visible ASCII characters`;
    throw new UsageError(`${sourceName(headerValueFile)} must hold the value of the header: ${limit}.`, {
      hint: HELP,
    });
  }
  return { name: headerName, value: new Secret(value) };
}

async function readValue(
  file: string,
  { readFile, readStandardInput, workingDirectory }: Context,
): Promise<string> {
  if (file === STANDARD_INPUT) return readStandardInput(MAX_VALUE_CHARACTERS);
  try {
    return readFile(resolve(workingDirectory, file));
  } catch (error) {
    throw new UsageError(`${sourceName(file)} cannot be read (${systemCode(error) ?? 'without a code'}).`, {
      hint: `Name the file that holds the value, or ${STANDARD_INPUT} for standard input.`,
      cause: error,
    });
  }
}

function sourceName(file: string): string {
  return file === STANDARD_INPUT ? 'Standard input' : printable(file);
}
