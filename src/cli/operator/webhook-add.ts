/**
 * `feed-sync webhook add`: the service is told where to push events to.
 *
 * The secret that signs them is shown this once, so the order is: everything that can be wrong here is tried first, then
 * the service is asked, then the secret is written, then the id. What is lost nevertheless is told with what to do.
 */

import { resolve } from 'node:path';
import type { Checkpoint } from '../../checkpoint/checkpoint.ts';
import { acquireInstanceLock, instanceLockPath } from '../../checkpoint/instance-lock.ts';
import { openCheckpoint, openCheckpointBeside } from '../../checkpoint/sqlite/open.ts';
import type { Configuration } from '../../configuration/configuration.ts';
import type { AddedWebhook } from '../../feed/operator.ts';
import { printable } from '../../lib/printable.ts';
import { StorageError, UsageError } from '../../model/errors.ts';
import type { Context } from '../context.ts';
import { EXIT_CODES, type ExitCode } from '../exit-codes.ts';
import { logFor } from '../log-for.ts';
import { write } from '../terminal.ts';
import { type HeaderFlags, receiverUrl, requiredHeader, shownUrl } from './receiver.ts';
import { openSecretFile, type SecretFile } from './secret-file.ts';
import { usingOperator } from './using-operator.ts';

export interface WebhookAddFlags extends HeaderFlags {
  readonly secretFile?: string;
}

/**
 * @throws UsageError, StorageError before the service is asked where something is in the way here.
 * @throws StorageError where the webhook was added, but its secret or its id could not be kept.
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
    await write(context.terminal.stdout, tellAdded(added, secretFile.path, configuration));
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

/** Beside an instance where there is a checkpoint; a new one where there is none and no instance makes it. */
async function openForKeeping(configuration: Configuration, context: Context): Promise<Checkpoint> {
  const { clock, identity, terminal } = context;
  const options = { path: configuration.checkpoint.path, uid: identity.uid, clock };
  const there = openCheckpointBeside(options);
  if (there !== null) return there;
  const lock = await acquireInstanceLock({
    path: instanceLockPath(configuration.dataDirectory),
    uid: identity.uid,
    holder: { pid: identity.pid, host: identity.host, startedAt: clock.now(), command: 'webhook add' },
  });
  try {
    return await openCheckpoint({ ...options, log: logFor(configuration, terminal) });
  } finally {
    lock.release();
  }
}

/** The secret first: the id can be read in the web application of the service, the secret nowhere. */
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

function tellAdded({ id, url }: AddedWebhook, path: string, { webhook }: Configuration): string {
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
