/**
 * The file of webhook secrets, which has one per line, the newest first.
 *
 * Invariants: existing secrets stay until their webhook is forgotten, because a receiver accepts a signature by any of them; the
 * file is readable by its owner only and never written in part.
 */

import { createHash } from 'node:crypto';
import { realpath } from 'node:fs/promises';
import type { KeptWebhook } from '../../checkpoint/checkpoint.ts';
import { remove, replaceFile, systemCode } from '../../lib/files.ts';
import {
  isWebhookSecret,
  MAX_WEBHOOK_SECRET_FILE_CHARACTERS,
  MAX_WEBHOOK_SECRETS,
  type Secret,
} from '../../lib/secret.ts';
import { printable } from '../../lib/text.ts';
import { StorageError, UsageError } from '../../model/errors.ts';
import type { Context } from '../context.ts';

export interface SecretFile {
  readonly path: string;
  /** Adds the secret before the existing ones. @throws StorageError */
  add(secret: Secret): Promise<void>;
}

/**
 * Opens the file of secrets. @throws StorageError when the file cannot be read or written. @throws UsageError when the file contains
 * something other than secrets.
 */
export async function openSecretFile(named: string, { readFile }: Context): Promise<SecretFile> {
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

/** Returns a digest that finds the line of a secret in the file, and reveals nothing else of the secret. */
export function digestOf(secret: string): string {
  return createHash('sha256').update('feed-sync webhook\n').update(secret).digest('hex');
}

/** Resolves to whether the file had the secret. @throws StorageError, UsageError */
export async function removeSecret(
  { path, digest }: NonNullable<KeptWebhook['secret']>,
  { readFile }: Context,
): Promise<boolean> {
  const before = secretsIn(path, readFile);
  const rest = before.filter((secret) => digestOf(secret) !== digest);
  if (rest.length === before.length) return false;
  try {
    await replaceFile('cli.remove-secret', path, rest.map((secret) => `${secret}\n`).join(''));
    return true;
  } catch (error) {
    throw unwritable(path, error);
  }
}
