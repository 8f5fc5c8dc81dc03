/**
 * `feed-sync webhook add`: registers a receiver of events with the service. `webhook test` has a ping sent to one, `webhook list`
 * shows those that were added from here, `webhook remove` forgets one: the service has a call for neither of the last two.
 *
 * The service shows the signing secret only once. So the command first tries everything that may fail on this machine, then
 * asks the service, then stores the secret, then the id. If something is lost nevertheless, the message says what to do.
 */

import { resolve } from 'node:path';
import type { Checkpoint, CheckpointReader, KeptWebhook } from '../../checkpoint/checkpoint.ts';
import { openCheckpoint, openCheckpointBeside, openCheckpointReader } from '../../checkpoint/sqlite/open.ts';
import type { Configuration, LocalConfiguration } from '../../configuration/configuration.ts';
import { isLoopback } from '../../configuration/value-types.ts';
import type { AddedWebhook, NewWebhook } from '../../feed/operator.ts';
import { systemCode } from '../../lib/files.ts';
import { Secret } from '../../lib/secret.ts';
import { printable } from '../../lib/text.ts';
import { formatDuration } from '../../lib/units.ts';
import {
  CommandRefusedError,
  ServiceUnavailableError,
  StorageError,
  UsageError,
} from '../../model/errors.ts';
import { confirm } from '../confirm.ts';
import { type Context, write } from '../context.ts';
import { lockDataDirectory, lockWebhooks, runningInstance } from '../data-directory.ts';
import { EXIT_CODES, type ExitCode } from '../exit-codes.ts';
import { formatTime, formatUnknown, listed, minuteOf } from '../render/messages.ts';
import { logFor } from '../render/screen.ts';
import { renderTable } from '../render/table.ts';
import { usingOperator } from '../service-client.ts';
import { oneByOne } from './operator.ts';
import { digestOf, openSecretFile, removeSecret, type SecretFile } from './webhook-secrets.ts';

export interface WebhookAddFlags extends HeaderFlags {
  readonly secretFile?: string;
  readonly yes?: boolean;
}

/**
 * Adds a webhook. @throws UsageError, StorageError before the service is asked, where something on this machine is an obstacle. @throws
 * StorageError where the webhook was added, but its secret or its id could not be stored.
 */
export async function webhookAdd(
  address: string,
  flags: WebhookAddFlags,
  configuration: Configuration,
  context: Context,
): Promise<ExitCode> {
  const url = receiverUrl(address);
  const isYes = flags.yes === true;
  const confirmed = await confirmAnother(url, null, isYes, configuration, context);
  const header = await requiredHeader(flags, context);
  const path = secretPath(flags, configuration, context);
  const lock = await lockWebhooks('webhook add', configuration, context);
  try {
    // Another command may have added one before this one held the lock.
    await confirmAnother(url, confirmed, isYes, configuration, context);
    return await addAndKeep({ url, header }, path, configuration, context);
  } finally {
    lock.release();
  }
}

/** The caller must hold the lock of the webhooks. */
async function addAndKeep(
  webhook: NewWebhook,
  path: string,
  configuration: Configuration,
  context: Context,
): Promise<ExitCode> {
  const secretFile = await openSecretFile(path, context);
  const checkpoint = await openForKeeping(configuration, context);
  try {
    const added = await usingOperator(configuration, context, (operator) =>
      operator.addWebhook(webhook, context.signal),
    );
    await keep(added, secretFile, checkpoint, context);
    await write(context.terminal.stdout, formatAdded(added, secretFile.path, configuration));
    return EXIT_CODES.caughtUp;
  } finally {
    checkpoint.close();
  }
}

/**
 * Asks where the service would push every event twice, and returns the id of the webhook that it asked about. `confirmed` is the one
 * that was asked about before.
 */
async function confirmAnother(
  url: string,
  confirmed: string | null,
  isYes: boolean,
  configuration: Configuration,
  context: Context,
): Promise<string | null> {
  const before = keptWebhooks(configuration, context).find((webhook) => webhook.url === url);
  if (before === undefined || before.webhookId === confirmed) return confirmed;
  const name = printable(before.webhookId);
  const added = `A webhook for ${shownUrl(url)} was added from here at ${formatTime(before.createdAt)}: ${name}.`;
  const lines = [added, 'With another one the service sends every event there twice.'];
  await confirm(isYes, { lines, question: 'Add another one?' }, context);
  return before.webhookId;
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
    const kept = { path: secretFile.path, digest: digestOf(secret.reveal()) };
    checkpoint.keepWebhook({ webhookId: id, url, createdAt: clock.now(), secret: kept });
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

/** Has a ping sent to webhooks. @throws UsageError without an id where none is stored. */
export function webhookTest(
  webhookId: string | undefined,
  configuration: Configuration,
  context: Context,
): Promise<ExitCode> {
  const kept = new Map(keptWebhooks(configuration, context).map((webhook) => [webhook.webhookId, webhook]));
  const ids = webhookId === undefined ? [...kept.keys()] : [webhookId];
  if (ids.length === 0) throw noneAdded();
  if (webhookId === '')
    throw new UsageError('The id of a webhook is empty.', { hint: 'feed-sync webhook test --help' });
  return usingOperator(configuration, context, (operator) =>
    oneByOne(ids, context, {
      async ask(id) {
        const arrival = arrivalAt(kept.get(id), configuration, context);
        try {
          await operator.testWebhook(id, context.signal);
        } catch (error) {
          // An id that was stored here is not the fault of the command line.
          const isOfKept = webhookId === undefined && error instanceof CommandRefusedError;
          throw isOfKept ? new CommandRefusedError(error.refusal) : error;
        }
        const url = kept.get(id)?.url;
        const name = `webhook ${printable(id)}`;
        const whole = url === undefined ? name : `${shownUrl(url)} (${name})`;
        if (arrival === null)
          return `The service accepted the test of ${whole}: it says that it sends a ping.`;
        return `The ping to ${whole} arrived here after ${formatDuration(await arrival())}.`;
      },
      known: async () => [...kept.keys()],
      none: 'No webhook was added from here.',
    }),
  );
}

/** How long a ping may take. */
const PING_WITHIN_MS = 30_000;
const LOOK_EVERY_MS = 200;
/** The path at which the status server receives deliveries. */
const OWN_PATH = '/webhook';

/**
 * Returns a function that resolves to how long a delivery took to arrive, where the receiver is the running instance here; null
 * where only the receiver knows. The function throws a `ServiceUnavailableError` once `PING_WITHIN_MS` have passed.
 */
function arrivalAt(
  webhook: KeptWebhook | undefined,
  configuration: Configuration,
  context: Context,
): (() => Promise<number>) | null {
  const isOwn =
    webhook !== undefined &&
    URL.parse(webhook.url)?.pathname === OWN_PATH &&
    configuration.webhook.secretFile !== null &&
    runningInstance(configuration, context)?.command === 'run';
  if (!isOwn) return null;
  const newest = (): number => usingReader(configuration, context, (reader) => reader.newestDelivery()) ?? 0;
  const { clock, signal } = context;
  const before = newest();
  return async () => {
    const startedMs = clock.monotonicMs();
    for (;;) {
      const passedMs = clock.monotonicMs() - startedMs;
      if (newest() > before) return passedMs;
      if (passedMs >= PING_WITHIN_MS) throw notArrived(webhook.webhookId);
      await clock.sleep(LOOK_EVERY_MS, signal);
    }
  };
}

function notArrived(webhookId: string): ServiceUnavailableError {
  const limit = formatDuration(PING_WITHIN_MS);
  return new ServiceUnavailableError(
    `The service accepted the test of webhook ${printable(webhookId)}, but nothing arrived here within ${limit}.`,
    {
      hint: 'Check the proxy before the status server, and the log of feed-sync run: it names each refused request.',
    },
  );
}

export async function webhookList(configuration: LocalConfiguration, context: Context): Promise<ExitCode> {
  const kept = keptWebhooks(configuration, context);
  const rows = kept.map(({ webhookId, url, createdAt, secret }) => [
    webhookId,
    minuteOf(createdAt),
    shownUrl(url),
    secret?.path ?? '',
  ]);
  const columns = ['webhook', 'added (UTC)', 'address', 'secret in'].map((title) => ({ title }));
  const note = 'These were added from here; the service has no list of its webhooks.';
  const text =
    rows.length === 0
      ? 'No webhook was added from here. Add one with: feed-sync webhook add URL'
      : `${renderTable(columns, rows)}\n\n${note}`;
  await write(context.terminal.stdout, `${text}\n`);
  return EXIT_CODES.caughtUp;
}

/** Forgets the webhook and takes its secret out of the file. @throws UsageError for one that was not added from here. */
export async function webhookRemove(
  webhookId: string,
  isYes: boolean,
  configuration: LocalConfiguration,
  context: Context,
): Promise<ExitCode> {
  const using = <T>(use: (checkpoint: Checkpoint) => T): T | null => {
    const { path } = configuration.checkpoint;
    const checkpoint = openCheckpointBeside({ path, uid: context.identity.uid, clock: context.clock });
    try {
      return checkpoint === null ? null : use(checkpoint);
    } finally {
      checkpoint?.close();
    }
  };
  // Opened for writing, so that the log of a process that was killed is put into the file.
  const kept = using((checkpoint) => checkpoint.webhooks()) ?? [];
  if (kept.length === 0) throw noneAdded();
  const webhook = kept.find((one) => one.webhookId === webhookId);
  if (webhook === undefined) {
    const ids = kept.map((one) => one.webhookId);
    throw new UsageError(`No such webhook was added from here: ${formatUnknown([webhookId], ids)}.`, {
      hint: `Known: ${listed(ids)}.`,
    });
  }
  const name = printable(webhookId);
  const lines = [
    `This forgets webhook ${name} (${shownUrl(webhook.url)}) and its secret: what it signs is refused from then on.`,
    'The service has no call to remove it: remove it in the web application of the service, best before.',
  ];
  await confirm(isYes, { lines, question: `Forget ${name}?` }, context);
  const lock = await lockWebhooks('webhook remove', configuration, context);
  let isTaken = false;
  try {
    isTaken = webhook.secret !== null && (await removeSecret(webhook.secret, context));
    using((checkpoint) => checkpoint.forgetWebhook(webhookId));
  } finally {
    lock.release();
  }
  const secret = isTaken ? 'Its secret is taken out.' : 'Its secret was not found in a file.';
  const done = `Forgotten here: webhook ${name}. ${secret} The service goes on sending until you remove it there.`;
  await write(context.terminal.stdout, `${done}\n`);
  return EXIT_CODES.caughtUp;
}

function noneAdded(): UsageError {
  return new UsageError('No webhook was added from here.', {
    hint: 'Give its id, or add one: feed-sync webhook add URL',
  });
}

/** Returns the webhooks that were added from here, the newest first. */
function keptWebhooks(configuration: LocalConfiguration, context: Context): readonly KeptWebhook[] {
  return usingReader(configuration, context, (reader) => reader.webhooks()) ?? [];
}

/** Null where there is no checkpoint. */
function usingReader<T>(
  { checkpoint: { path } }: LocalConfiguration,
  { identity: { uid } }: Context,
  use: (reader: CheckpointReader) => T,
): T | null {
  const reader = openCheckpointReader({ path, uid });
  try {
    return reader === null ? null : use(reader);
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
