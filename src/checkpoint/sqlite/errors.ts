/**
 * Turns errors of SQLite and the file system into errors that name the file and say what to do, by code and never by message
 * text. An error that is not listed here is a bug and passes unchanged.
 */

import { dirname } from 'node:path';
import Database from 'better-sqlite3';
import {
  fileInTheWay,
  freeBytesOrNull,
  hasNoInodes,
  systemCode,
  systemReason,
  whyFull,
} from '../../lib/files.ts';
import { formatBytes } from '../../lib/units.ts';
import { BusyError, StorageError } from '../../model/errors.ts';

/** The file that an operation uses, and the user who runs it. */
export interface Place {
  /** The kind of file, as messages name it: `checkpoint`. */
  readonly what: string;
  readonly path: string;
  /** The user id of this process; null where the system has none. */
  readonly uid: number | null;
  /** The remedy for a damaged file. */
  readonly ifDamaged: string;
}

/** The primary result codes of SQLite and the codes of the system. */
const CODES: Readonly<Record<Fault, string>> = {
  busy: 'SQLITE_BUSY SQLITE_LOCKED SQLITE_PROTOCOL',
  full: 'SQLITE_FULL ENOSPC EDQUOT',
  denied:
    'SQLITE_READONLY SQLITE_CANTOPEN SQLITE_PERM SQLITE_AUTH EACCES EPERM EROFS ENOENT ENOTDIR EISDIR EEXIST ELOOP ENAMETOOLONG',
  broken: 'SQLITE_IOERR SQLITE_NOLFS EIO EMFILE ENFILE',
  corrupt: 'SQLITE_CORRUPT SQLITE_NOTADB',
};

const FAULTS = ['busy', 'full', 'denied', 'broken', 'corrupt'] as const;

type Fault = (typeof FAULTS)[number];

/** Translates the errors of SQLite. @throws StorageError, BusyError for errors of the file at `place`. */
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
  const code = codeOf(error);
  const fault = FAULTS.find((each) => code !== null && CODES[each].split(' ').includes(code));
  if (fault === undefined || !(error instanceof Error)) return error;
  const isFull = COULD_NOT_MAKE_A_FILE.includes(systemCode(error) ?? '') && hasNoInodes(dirname(place.path));
  return describe(isFull ? 'full' : fault, place, error);
}

/** SQLite does not say why it could not make the log, or its index, beside its file. */
const COULD_NOT_MAKE_A_FILE: readonly string[] = ['SQLITE_CANTOPEN', 'SQLITE_IOERR_SHMOPEN'];

function describe(fault: Fault, { what, path, uid, ifDamaged }: Place, cause: Error): Error {
  const user = uid === null ? 'this user' : `user id ${uid}`;
  switch (fault) {
    case 'busy':
      return new BusyError(`The ${what} ${path} is being written by another process: ${cause.message}.`, {
        code: 'checkpoint_busy',
        hint: 'Try again in a moment.',
        cause,
      });
    case 'full': {
      const { fact, hint } = whyFull(dirname(path), {
        fact: 'The disk is full',
        hint: `Free some space on the file system of ${dirname(path)}, or move the file to another one.`,
      });
      const message = `${fact}: the ${what} ${path} could not be written${freeSpace(path)}.`;
      return new StorageError(message, { hint, cause });
    }
    case 'denied': {
      const inTheWay = fileInTheWay(path);
      if (inTheWay !== null) {
        const message = `The ${what} ${path} cannot be opened: ${inTheWay} is a file, where a folder is needed.`;
        return new StorageError(message, { hint: 'Move the file away, or set another path.', cause });
      }
      return new StorageError(
        `The ${what} ${path} cannot be opened or written by ${user}: ${reasonOf(cause)}.`,
        {
          hint: `Make ${dirname(path)} and the files in it writable for ${user}, or choose another place for them.`,
          cause,
        },
      );
    }
    case 'broken':
      return new StorageError(`Reading or writing the ${what} ${path} failed (${user}): ${cause.message}.`, {
        hint: `Check the disk of ${dirname(path)}, its free space${freeSpace(path)} and what this user may write.`,
        cause,
      });
    case 'corrupt':
      return new StorageError(`The ${what} ${path} is damaged: ${cause.message}.`, {
        hint: ifDamaged,
        cause,
      });
  }
}

/** The message of SQLite says more than its code. The message of the system would repeat the path. */
function reasonOf(error: Error): string {
  return 'errno' in error ? systemReason(error) : error.message;
}

/** The message is about a worse error, so it does without the free space where that cannot be known. */
function freeSpace(path: string): string {
  const bytes = freeBytesOrNull(dirname(path));
  return bytes === null ? '' : ` (${formatBytes(bytes)} free)`;
}
