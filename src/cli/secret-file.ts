/**
 * The file of webhook secrets, one a line, the newest first: a receiver accepts what any of them signed, so that they can
 * be replaced one after another.
 *
 * Invariants: what stands in the file stays; the file is its owner's alone and never written in part; that it can be
 * written is tried before a secret is asked for that would be shown only once.
 */

import { realpath } from 'node:fs/promises';
import { remove, replaceFile, systemCode } from '../lib/files.ts';
import {
  isWebhookSecret,
  MAX_WEBHOOK_SECRET_FILE_CHARACTERS,
  MAX_WEBHOOK_SECRETS,
  type Secret,
} from '../lib/secret.ts';
import { printable } from '../lib/text.ts';
import { StorageError, UsageError } from '../model/errors.ts';
import type { Context } from './context.ts';

export interface SecretFile {
  readonly path: string;
  /** Puts it before those that are there. @throws StorageError */
  add(secret: Secret): Promise<void>;
}

/**
 * @throws StorageError when the file cannot be read, or could not be written.
 * @throws UsageError when it holds something else than secrets.
 */
export async function openSecretFile(
  named: string,
  { readFile }: Pick<Context, 'readFile'>,
): Promise<SecretFile> {
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

/** In the very way that a secret is added, because a folder may be writable and a file in it not replaceable: one that is mounted. */
async function tryWriting(path: string, readFile: Context['readFile']): Promise<void> {
  const content = contentOf(path, readFile);
  try {
    await replaceFile('cli.try-secret-file', path, content ?? '');
    if (content === null) await remove('cli.end-try-of-secret-file', path);
  } catch (error) {
    throw unwritable(path, error);
  }
}

/** A link stays one: what it leads to is replaced. */
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
