/** Troubles of DuckDB as errors of the model, each with the path and what a person can do about it. */

import { dirname } from 'node:path';
import { freeBytes } from '../../../lib/files.ts';
import { formatBytes } from '../../../lib/units.ts';
import {
  BusyError,
  ConfigurationError,
  type FeedSyncError,
  InterruptedError,
  NoRoomError,
  StorageError,
} from '../../../model/errors.ts';
import { DuckDbError } from './diagnosis.ts';

/** Where the mirror lies, and the numeric id of the user who works on it, where the system has one. */
export interface MirrorPlace {
  readonly path: string;
  readonly uid?: number | null;
}

/** Whatever was thrown, as an error of the model: what is wrong with the mirror where DuckDB said it. */
export async function mirrorError(error: unknown, place: MirrorPlace): Promise<Error> {
  if (error instanceof DuckDbError) return await mirrorFailure(error, place);
  return error instanceof Error ? error : new Error(String(error));
}

/** What is wrong with the mirror at `path`, for everything that is not the fault of some dataset's data. */
export async function mirrorFailure(error: DuckDbError, { path, uid }: MirrorPlace): Promise<FeedSyncError> {
  const cause = error;
  // DuckDB ends some of its sentences, and not others.
  const said = error.message.replace(/[.!]$/, '');
  switch (error.trouble) {
    case 'locked':
      return busy(path, error.holderProcessId, cause);
    case 'interrupted':
      return new InterruptedError(`Work on the mirror ${path} was interrupted.`, { cause });
    case 'disk-full':
      return new StorageError(`The disk of ${path} is full (${await free(path)} free): ${said}.`, {
        hint: 'Free space on it; a reload needs about the size of the table once more.',
        cause,
      });
    case 'no-room':
      return new NoRoomError(
        `Not enough space in ${said}: a table of ${path} was to take more than is left beside what is kept free (disk.reserve).`,
        {
          hint: 'Free some space. Where the files are small, tell the service: few bytes can hold very long rows.',
          cause,
        },
      );
    case 'out-of-memory':
      return new StorageError(`DuckDB needs more memory than it may use for ${path}: ${firstLine(error)}.`, {
        hint: 'Raise duckdb.memoryLimit (FEED_SYNC_DUCKDB_MEMORY_LIMIT).',
        cause,
      });
    case 'not-permitted':
      return new StorageError(`The user with id ${uid ?? 'unknown'} may not use ${path}: ${said}.`, {
        hint: 'Give this user the file and its folder, for reading and writing.',
        cause,
      });
    case 'folder-missing':
      return new StorageError(`The folder of the mirror ${path} is not there: ${said}.`, {
        hint: 'Create the folder, or set destination.path (FEED_SYNC_DESTINATION_PATH).',
        cause,
      });
    case 'foreign':
      return new ConfigurationError(`The mirror ${path} is not for this version of DuckDB: ${said}.`, {
        hint: 'Use the newer version of feed-sync that wrote it, or set destination.path to another file.',
        cause,
      });
    case 'unreadable':
      return new StorageError(`The mirror ${path} cannot be read: ${said}.`, {
        hint: 'A damaged mirror is set aside and built anew by: feed-sync once. If it is another file, set destination.path.',
        cause,
      });
    default:
      return new StorageError(`The mirror ${path} cannot be used: ${said}.`, { cause });
  }
}

/** Somebody has the mirror open for longer than we may wait. */
export function busy(path: string, holderProcessId: number | null, cause: unknown): BusyError {
  const holder = holderProcessId === null ? 'another process' : `the process ${holderProcessId}`;
  return new BusyError(`The mirror ${path} is held by ${holder}.`, {
    hint: 'End the reader, or let it open the mirror for a shorter time; then run again.',
    cause,
  });
}

/** DuckDB appends paragraphs of advice for its own users to some messages. */
export function firstLine(error: Error): string {
  return error.message.split('\n', 1)[0] ?? '';
}

async function free(path: string): Promise<string> {
  try {
    return formatBytes(await freeBytes(dirname(path)));
  } catch {
    return 'an unknown number of bytes';
  }
}
