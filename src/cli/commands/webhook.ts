/**
 * `feed-sync webhook add`: registers a receiver of events with the service. `webhook test` has a ping sent to one.
 *
 * The service shows the signing secret only once. So the command first tries everything that may fail on this machine, then
 * asks the service, then stores the secret, then the id. If something is lost nevertheless, the message says what to do.
 *
 * Invariants of the file of secrets, which has one per line, the newest first: existing secrets stay, because a receiver
 * accepts a signature by any of them; the file is readable by its owner only and never written in part.
 */

import { realpath } from 'node:fs/promises';
import { resolve } from 'node:path';
import type { Checkpoint } from '../../checkpoint/checkpoint.ts';
import { openCheckpoint, openCheckpointBeside, openCheckpointReader } from '../../checkpoint/sqlite/open.ts';
import type { Configuration } from '../../configuration/configuration.ts';
import { isLoopback } from '../../configuration/value-types.ts';
import type { AddedWebhook, NewWebhook } from '../../feed/operator.ts';
import { remove, replaceFile, systemCode } from '../../lib/files.ts';
import {
  isWebhookSecret,
  MAX_WEBHOOK_SECRET_FILE_CHARACTERS,
  MAX_WEBHOOK_SECRETS,
  Secret,
} from '../../lib/secret.ts';
import { printable } from '../../lib/text.ts';
import { CommandRefusedError, StorageError, UsageError } from '../../model/errors.ts';
import { type Context, write } from '../context.ts';
import { lockDataDirectory } from '../data-directory.ts';
import { EXIT_CODES, type ExitCode } from '../exit-codes.ts';
import { logFor } from '../render/screen.ts';
import { usingOperator } from '../service-client.ts';
import { oneByOne } from './operator.ts';

export interface WebhookAddFlags extends HeaderFlags {
  readonly secretFile?: string;
}

/**
 * @throws UsageError, StorageError before the service is asked, where something on this machine is an obstacle. @throws
 * StorageError where the webhook was added, but its secret or its id could not be stored.
 */
export async function webhookAdd(
  address: string,
  flags: WebhookAddFlags,
  configuration: Configuration,
  context: Context,
): Promise<ExitCode> {
  const url = receiverUrl(address);
  const header = await requiredHeader(flags, context);
  const secretFile = await openSecretFile(secretPath(flags, configuration, context), context);
  const checkpoint = await openForKeeping(configuration, context);
  try {
    const added = await usingOperator(configuration, context, (operator) =>
      operator.addWebhook({ url, header }, context.signal),
    );
    await keep(added, secretFile, checkpoint, context);
    await write(context.terminal.stdout, formatAdded(added, secretFile.path, configuration));
    return EXIT_CODES.caughtUp;
  } finally {
    checkpoint.close();
  }
}

function secretPath(
  { secretFile }: WebhookAddFlags,
  { webhook }: Configuration,
  { workingDirectory }: Context,
): string {
  if (secretFile !== undefined && secretFile !== '') return resolve(workingDirectory, secretFile);
  if (webhook.secretFile !== null) return webhook.secretFile;
  throw new UsageError("There is no file for the webhook's secret, which the service shows only once.", {
    hint: 'Set webhook.secretFile (FEED_SYNC_WEBHOOK_SECRET_FILE), or give --secret-file FILE. Nothing was asked of the service.',
  });
}

/** Opens an existing checkpoint beside an instance; creates one where there is none and no instance creates it. */
async function openForKeeping(configuration: Configuration, context: Context): Promise<Checkpoint> {
  const { clock, identity, terminal } = context;
  const options = { path: configuration.checkpoint.path, uid: identity.uid, clock };
  const there = openCheckpointBeside(options);
  if (there !== null) return there;
  const lock = await lockDataDirectory(configuration, context, 'webhook add');
  try {
    return await openCheckpoint({ ...options, log: logFor(configuration, terminal) });
  } finally {
    lock.release();
  }
}

/** Stores the secret first: the web application of the service shows the id again, but never the secret. */
async function keep(
  { id, url, secret }: AddedWebhook,
  secretFile: SecretFile,
  checkpoint: Checkpoint,
  { clock }: Context,
): Promise<void> {
  const name = printable(id);
  try {
    await secretFile.add(secret);
  } catch (error) {
    throw new StorageError(
      `The service has added the webhook ${name}, but its secret could not be kept and is lost: ${messageOf(error)}`,
      {
        hint: `Remove ${name} in the web application of the service, mend the file, and add the webhook again.`,
        cause: error,
      },
    );
  }
  try {
    checkpoint.keepWebhook({ webhookId: id, url, createdAt: clock.now() });
  } catch (error) {
    throw new StorageError(
      `The service has added the webhook ${name} and its secret is in ${printable(secretFile.path)}, ` +
        `but its id could not be kept: ${messageOf(error)}`,
      { hint: `Nothing but the id is missing. To test it: feed-sync webhook test ${name}`, cause: error },
    );
  }
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

function formatAdded({ id, url }: AddedWebhook, path: string, { webhook }: Configuration): string {
  const lines = [
    `Added the webhook ${printable(id)}: the service pushes events to ${shownUrl(url)}.`,
    `The secret that signs them is the first line of ${printable(path)}.`,
    ...(webhook.secretFile === null
      ? ['For a receiver to find it, set webhook.secretFile to that file.']
      : []),
    `Try it: feed-sync webhook test ${printable(id)}`,
  ];
  return `${lines.join('\n')}\n`;
}

interface SecretFile {
  readonly path: string;
  /** Adds the secret before the existing ones. @throws StorageError */
  add(secret: Secret): Promise<void>;
}

/**
 * @throws StorageError when the file cannot be read or written. @throws UsageError when the file contains something other
 * than secrets.
 */
async function openSecretFile(named: string, { readFile }: Context): Promise<SecretFile> {
  const path = await targetOf(named);
  if (secretsIn(path, readFile).length >= MAX_WEBHOOK_SECRETS) {
    throw new UsageError(
      `${printable(path)} holds ${MAX_WEBHOOK_SECRETS} secrets, the most that are tried.`,
      { hint: 'Nothing was asked of the service. Take out those that it signs with no more.' },
    );
  }
  await tryWriting(path, readFile);
  return {
    path,
    async add(secret) {
      const content = [secret.reveal(), ...secretsIn(path, readFile), ''].join('\n');
      try {
        await replaceFile('cli.add-secret', path, content);
      } catch (error) {
        throw unwritable(path, error);
      }
    },
  };
}

/**
 * Tries the same operation as adding a secret, because a folder may be writable while a mounted file in it cannot be
 * replaced.
 */
async function tryWriting(path: string, readFile: Context['readFile']): Promise<void> {
  const content = contentOf(path, readFile);
  try {
    await replaceFile('cli.try-secret-file', path, content ?? '');
    if (content === null) await remove('cli.end-try-of-secret-file', path);
  } catch (error) {
    throw unwritable(path, error);
  }
}

/** Follows a link, so that its target is replaced and the link stays. */
async function targetOf(path: string): Promise<string> {
  try {
    return await realpath(path);
  } catch (error) {
    if (systemCode(error) === 'ENOENT') return path;
    throw unwritable(path, error);
  }
}

function secretsIn(path: string, readFile: Context['readFile']): readonly string[] {
  const content = contentOf(path, readFile) ?? '';
  const lines = content
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '');
  const isShort = content.length <= MAX_WEBHOOK_SECRET_FILE_CHARACTERS;
  if (isShort && lines.every(isWebhookSecret)) return lines;
  throw new UsageError(`${printable(path)} holds something else than webhook secrets.`, {
    hint: 'Nothing was asked of the service. Name a file of its own; it is made where it is missing.',
  });
}

/** Null where there is no file. */
function contentOf(path: string, readFile: Context['readFile']): string | null {
  try {
    return readFile(path);
  } catch (error) {
    if (systemCode(error) === 'ENOENT') return null;
    throw unwritable(path, error);
  }
}

function unwritable(path: string, error: unknown): StorageError {
  return new StorageError(
    `The file of webhook secrets ${printable(path)} cannot be read and written (${systemCode(error) ?? 'without a code'}).`,
    { hint: 'Name a file in a folder that exists and that you may write to.', cause: error },
  );
}

/** @throws UsageError without an id where none is stored. */
export function webhookTest(
  webhookId: string | undefined,
  configuration: Configuration,
  context: Context,
): Promise<ExitCode> {
  const kept = keptWebhooks(configuration, context);
  const ids = webhookId === undefined ? [...kept.keys()] : [webhookId];
  if (ids.length === 0) {
    throw new UsageError('No webhook was added from here.', {
      hint: 'Give its id, or add one: feed-sync webhook add URL',
    });
  }
  if (webhookId === '')
    throw new UsageError('The id of a webhook is empty.', { hint: 'feed-sync webhook test --help' });
  return usingOperator(configuration, context, (operator) =>
    oneByOne(ids, context, {
      async ask(id) {
        try {
          await operator.testWebhook(id, context.signal);
        } catch (error) {
          // An id that was stored here is not the fault of the command line.
          const isOfKept = webhookId === undefined && error instanceof CommandRefusedError;
          throw isOfKept ? new CommandRefusedError(error.refusal) : error;
        }
      },
      report(id) {
        const url = kept.get(id);
        const name = `webhook ${printable(id)}`;
        return `A ping is on its way to ${url === undefined ? name : `${shownUrl(url)} (${name})`}.`;
      },
    }),
  );
}

/** Returns the addresses by id, the newest first. */
function keptWebhooks({ checkpoint }: Configuration, { identity }: Context): ReadonlyMap<string, string> {
  const reader = openCheckpointReader({ path: checkpoint.path, uid: identity.uid });
  try {
    return new Map(reader?.webhooks().map(({ webhookId, url }) => [webhookId, url]));
  } finally {
    reader?.close();
  }
}

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
function receiverUrl(text: string): string {
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

/** Leaves out the query, which may contain a secret. */
function shownUrl(text: string): string {
  const url = URL.parse(text);
  return printable(url === null ? text : `${url.origin}${url.pathname}`);
}

/**
 * Null where the receiver requires none. The value comes from a file or from standard input, because every user of the
 * machine can see the words of a command. @throws UsageError
 */
async function requiredHeader(
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
