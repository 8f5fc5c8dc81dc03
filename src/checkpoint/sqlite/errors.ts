/**
 * Turns errors of SQLite and the file system into errors that name the file and say what to do, by code and never by message
 * text. An error that is not listed here is a bug and passes unchanged. Also holds the limits of what is stored.
 */

import { statfsSync } from 'node:fs';
import { dirname } from 'node:path';
import Database from 'better-sqlite3';
import { systemCode, systemReason } from '../../lib/files.ts';
import { formatBytes } from '../../lib/units.ts';
import { BusyError, ContractViolationError, StorageError } from '../../model/errors.ts';

/** The file that an operation uses, and the user who runs it. */
export interface Place {
  /** The kind of file, as messages name it: `checkpoint`. */
  readonly what: string;
  readonly path: string;
  /** The user id of this process; null where the system has none. */
  readonly uid: number | null;
  /** What an operator can do where the file is damaged. */
  readonly ifDamaged: string;
}

type Fault = 'busy' | 'full' | 'denied' | 'broken' | 'corrupt';

const ERROR_BY_CODE: ReadonlyMap<string, Fault> = new Map<string, Fault>([
  ['SQLITE_BUSY', 'busy'],
  ['SQLITE_LOCKED', 'busy'],
  ['SQLITE_PROTOCOL', 'busy'],
  ['SQLITE_FULL', 'full'],
  ['ENOSPC', 'full'],
  ['EDQUOT', 'full'],
  ['SQLITE_READONLY', 'denied'],
  ['SQLITE_CANTOPEN', 'denied'],
  ['SQLITE_PERM', 'denied'],
  ['SQLITE_AUTH', 'denied'],
  ['EACCES', 'denied'],
  ['EPERM', 'denied'],
  ['EROFS', 'denied'],
  ['ENOENT', 'denied'],
  ['ENOTDIR', 'denied'],
  ['EISDIR', 'denied'],
  ['EEXIST', 'denied'],
  ['ELOOP', 'denied'],
  ['ENAMETOOLONG', 'denied'],
  ['SQLITE_IOERR', 'broken'],
  ['SQLITE_NOLFS', 'broken'],
  ['EIO', 'broken'],
  ['EMFILE', 'broken'],
  ['ENFILE', 'broken'],
  ['SQLITE_CORRUPT', 'corrupt'],
  ['SQLITE_NOTADB', 'corrupt'],
]);

/** @throws StorageError, BusyError for errors of the file at `place`. */
export function withStorageErrors<T>(place: Place, effect: () => T): T {
  try {
    return effect();
  } catch (error) {
    throw named(place, error);
  }
}

export async function withStorageErrorsAsync<T>(place: Place, effect: () => Promise<T>): Promise<T> {
  try {
    return await effect();
  } catch (error) {
    throw named(place, error);
  }
}

/** Waits for `effect` and ignores a failure with `code`. */
export async function tolerating(code: string, effect: Promise<void>): Promise<void> {
  try {
    await effect;
  } catch (error) {
    if (codeOf(error) !== code) throw error;
  }
}

/** Returns the primary result code of SQLite (`SQLITE_IOERR` of `SQLITE_IOERR_WRITE`) or the system's code. */
export function codeOf(error: unknown): string | null {
  if (error instanceof Database.SqliteError) return /^SQLITE_[A-Z]+/.exec(error.code)?.[0] ?? error.code;
  return systemCode(error);
}

function named(place: Place, error: unknown): unknown {
  const fault = ERROR_BY_CODE.get(codeOf(error) ?? '');
  if (fault === undefined || !(error instanceof Error)) return error;
  return describe(fault, place, error);
}

function describe(fault: Fault, { what, path, uid, ifDamaged }: Place, error: Error): Error {
  const cause = error;
  const user = uid === null ? 'this user' : `user id ${uid}`;
  switch (fault) {
    case 'busy':
      return new BusyError(`The ${what} ${path} is being written by another process: ${error.message}.`, {
        code: 'checkpoint_busy',
        hint: 'Try again in a moment.',
        cause,
      });
    case 'full':
      return new StorageError(
        `The disk is full: the ${what} ${path} could not be written${freeSpace(path)}.`,
        {
          hint: `Free some space on the file system of ${dirname(path)}, or move the file to another one.`,
          cause,
        },
      );
    case 'denied':
      return new StorageError(
        `The ${what} ${path} cannot be opened or written by ${user}: ${reasonOf(error)}.`,
        {
          hint: `Make ${dirname(path)} and the files in it writable for ${user}, or choose another place for them.`,
          cause,
        },
      );
    case 'broken':
      return new StorageError(`Reading or writing the ${what} ${path} failed (${user}): ${error.message}.`, {
        hint: `Look at the disk of ${dirname(path)}, its free space${freeSpace(path)} and what this user may write.`,
        cause,
      });
    case 'corrupt':
      return new StorageError(`The ${what} ${path} is damaged: ${error.message}.`, {
        hint: ifDamaged,
        cause,
      });
  }
}

/** The message of SQLite says more than its code. The message of the system would repeat the path. */
function reasonOf(error: Error): string {
  return 'errno' in error ? systemReason(error) : error.message;
}

function freeSpace(path: string): string {
  try {
    const { bavail, bsize } = statfsSync(dirname(path));
    return ` (${formatBytes(bavail * bsize)} free)`;
  } catch {
    // The message is about a worse error, so it does without the free space.
    return '';
  }
}

/** Returns the text, or its beginning with a mark that it was cut. */
export function cut(text: string): string {
  if (text.length <= MAX_TEXT_CHARACTERS) return text;
  return `${text.slice(0, MAX_TEXT_CHARACTERS - 1).toWellFormed()}…`;
}

export function cutOrNull(text: string | null): string | null {
  return text === null ? null : cut(text);
}

/**
 * Returns the id unchanged. `field` names it in the error.
 * @throws ContractViolationError when the id is too long, or contains half a character, which no database keeps.
 */
export function whole(id: string, field: string): string {
  if (id.length > MAX_ID_CHARACTERS) {
    throw new ContractViolationError(
      `A ${field} has ${id.length} characters; at most ${MAX_ID_CHARACTERS} can be kept.`,
      field,
    );
  }
  if (!id.isWellFormed()) {
    throw new ContractViolationError(`A ${field} is not valid Unicode: ${JSON.stringify(id)}.`, field);
  }
  return id;
}

/** How long a call waits for another process that writes. The call blocks, so the time is short. */
export const BUSY_TIMEOUT_MS = 5_000;

/** Ids are kept whole or refused. The feed decodes no longer ones. */
export const MAX_ID_CHARACTERS = 10_000;

/** Longer messages, hints and names are cut. */
export const MAX_TEXT_CHARACTERS = 8_000;

/** Further links of a refusal are left out. */
export const MAX_LINKS = 50;

/** The oldest sync runs are dropped. */
export const MAX_SYNC_RUNS = 10_000;

/** The oldest webhooks are dropped. */
export const MAX_WEBHOOKS = 100;

/** The oldest deliveries are dropped, and those that no service sends again after this age. */
export const MAX_DELIVERIES = 10_000;
export const MAX_DELIVERY_AGE_MS = 7 * 86_400_000;

/** Damaged files that are kept beside the new one. With as many, something damages them and an operator must act. */
export const MAX_CORRUPT_COPIES = 3;

/** SQLite truncates the write-ahead log to this size after it has copied the log into the file. */
export const MAX_KEPT_WAL_BYTES = 16_000_000;
