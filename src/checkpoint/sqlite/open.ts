/**
 * Opens the checkpoint. Its invariant: what is returned is sound, of the current format, and ours. A damaged file is
 * replaced by a new one; a file that is somebody else's, or of a newer program, is not touched.
 */

import { statSync } from 'node:fs';
import { readdir } from 'node:fs/promises';
import { basename, dirname, join, resolve } from 'node:path';
import Database from 'better-sqlite3';
import type { Clock } from '../../lib/clock.ts';
import { createFile, makeDirectory, renameFile } from '../../lib/files.ts';
import type { Log } from '../../lib/log.ts';
import { ConfigurationError, StorageError } from '../../model/errors.ts';
import type { Checkpoint, CheckpointReader } from '../checkpoint.ts';
import {
  BUSY_TIMEOUT_MS,
  codeOf,
  MAX_CORRUPT_COPIES,
  MAX_KEPT_WAL_BYTES,
  type Place,
  tolerating,
  withStorageErrors,
  withStorageErrorsAsync,
} from './errors.ts';
import { CURRENT_FORMAT, type Identity, identityOf, migrate } from './migrations.ts';
import { allOperations, readingOperations, tablesOf } from './operations.ts';

export interface CheckpointOptions {
  /** The file. Its folder is made where it is missing. */
  readonly path: string;
  /** The user id of this process, for messages; null where the system has none. */
  readonly uid: number | null;
  readonly clock: Clock;
  readonly log: Log;
}

/**
 * For the process that holds the instance lock, because setting a damaged file aside would take it from another one.
 * @throws StorageError when the file cannot be made, read or written, or is damaged time and again.
 * @throws ConfigurationError when it is no checkpoint, or was written by a newer program.
 * @throws BusyError when another process of ours keeps it locked.
 */
export async function openCheckpoint(options: CheckpointOptions): Promise<Checkpoint> {
  const place = placeOf(options);
  const { path } = place;
  return withStorageErrorsAsync(place, async () => {
    await makeDirectory('checkpoint.make-directory', dirname(path));
    for (;;) {
      // SQLite would make it readable for others. One that is there must not be opened: closing it drops locks on it.
      await tolerating('EEXIST', createFile('checkpoint.create', path, ''));
      const checkpoint = openSound(place, options.clock);
      if (checkpoint !== null) return checkpoint;
      const quarantined = await quarantine(path, options.clock.now());
      options.log.error(
        { path, quarantinedAs: quarantined },
        'The checkpoint is damaged. It was set aside and is built anew from the service and the mirror.',
      );
    }
  });
}

/**
 * For a command that works beside the instance: it can change what is stored, but makes, migrates and repairs
 * nothing, because the file may be in use. Null where there is no checkpoint yet.
 * @throws StorageError, ConfigurationError, BusyError as `openCheckpoint` does, also for a damaged file and an older format.
 */
export function openCheckpointBeside(options: Omit<CheckpointOptions, 'log'>): Checkpoint | null {
  const place = placeOf(options);
  return usingExisting(place, connectForWriting, (database) => {
    makeDurable(database, place);
    const writing = connection(database, place);
    return allOperations(writing, tablesOf(writing), options.clock);
  });
}

/**
 * For looking only: nothing is made, migrated or repaired. Null where there is no checkpoint yet. All that it gives
 * is of one moment, that of the first call; close it soon.
 * @throws StorageError, ConfigurationError, BusyError as `openCheckpoint` does, also for an older format.
 */
export function openCheckpointReader(
  options: Pick<CheckpointOptions, 'path' | 'uid'>,
): CheckpointReader | null {
  const place = placeOf(options);
  return usingExisting(place, connectForReading, (database) => {
    database.exec('BEGIN');
    const reading = connection(database, place);
    return readingOperations(reading, tablesOf(reading));
  });
}

/** What `use` makes of a checkpoint of the current format; null where there is none yet. */
function usingExisting<T>(
  place: Place,
  connect: (path: string) => Database.Database,
  use: (database: Database.Database) => T,
): T | null {
  const { path } = place;
  return withStorageErrors(place, () => {
    if (statSync(path, { throwIfNoEntry: false }) === undefined) return null;
    return closingOnError(connect(path), (database) => {
      const identity = identityOf(database);
      if (identity.kind === 'empty') {
        database.close();
        return null;
      }
      refuseForeignAndNewer(identity, path);
      refuseOlder(identity, path);
      return use(database);
    });
  });
}

export function placeOf({ path, uid }: Pick<CheckpointOptions, 'path' | 'uid'>): Place {
  const ifDamaged = 'Start feed-sync again: a damaged checkpoint is set aside at the start and built anew.';
  return { what: 'checkpoint', path: resolve(path), uid, ifDamaged };
}

/** Null where the file is damaged. */
function openSound(place: Place, clock: Clock): Checkpoint | null {
  try {
    return closingOnError(connectForWriting(place.path), (database) => {
      refuseForeignAndNewer(identityOf(database), place.path);
      makeDurable(database, place);
      refuseDamage(database);
      migrate(database);
      const writing: Connection = connection(database, place);
      return allOperations(writing, tablesOf(writing), clock);
    });
  } catch (error) {
    if (isDamage(error)) return null;
    throw error;
  }
}

/** `SQLITE_ERROR` here is a table or a column that a sound file of this format has. */
export function isDamage(error: unknown): boolean {
  const code = codeOf(error);
  return code === 'SQLITE_CORRUPT' || code === 'SQLITE_NOTADB' || code === 'SQLITE_ERROR';
}

export function refuseDamage(database: Database.Database): void {
  const finding = database.pragma('quick_check(1)', { simple: true });
  if (finding !== 'ok') throw new Database.SqliteError(String(finding), 'SQLITE_CORRUPT');
}

export function refuseForeignAndNewer(identity: Identity, path: string): void {
  if (identity.kind === 'foreign') {
    throw new ConfigurationError(`${path} is an SQLite database, but not a checkpoint of feed-sync.`, {
      hint: 'Set checkpoint.path to a file of its own.',
    });
  }
  if (identity.kind === 'ours' && identity.format > CURRENT_FORMAT) {
    throw new ConfigurationError(
      `The checkpoint ${path} has format ${identity.format}; this program knows formats up to ${CURRENT_FORMAT}.`,
      {
        hint: 'Run the newer version of feed-sync that wrote it, or move the file away: it is then built anew.',
      },
    );
  }
}

function refuseOlder(identity: Identity, path: string): void {
  if (identity.kind === 'ours' && identity.format < CURRENT_FORMAT) {
    throw new ConfigurationError(
      `The checkpoint ${path} was written by an older version: format ${identity.format}, now ${CURRENT_FORMAT}.`,
      { hint: 'Start `feed-sync once` or `feed-sync run`: it brings the file to the current format.' },
    );
  }
}

/** What `use` makes of the database, which is closed where `use` throws. */
export function closingOnError<T>(database: Database.Database, use: (database: Database.Database) => T): T {
  try {
    return use(database);
  } catch (error) {
    database.close();
    throw error;
  }
}

export interface Connection {
  readonly database: Database.Database;
  /** Runs `effect` in one read transaction, so that what it reads is of one moment. */
  read<T>(effect: () => T): T;
  /** Runs `effect` in one write transaction: all of it is stored, or nothing where it throws. */
  transaction<T>(effect: () => T): T;
  /** Changes whenever another connection has changed the file. */
  othersStored(): number;
  close(): void;
}

export function connection(database: Database.Database, place: Place): Connection {
  return {
    database,
    read: (effect) => withStorageErrors(place, () => database.transaction(effect).deferred()),
    transaction: (effect) => withStorageErrors(place, () => database.transaction(effect).immediate()),
    othersStored: () =>
      withStorageErrors(place, () => Number(database.pragma('data_version', { simple: true }))),
    close() {
      withStorageErrors(place, () => database.close());
    },
  };
}

/** A connection that can write, to a file that is there. Nothing is changed in the file yet. */
function connectForWriting(path: string): Database.Database {
  return new Database(path, { timeout: BUSY_TIMEOUT_MS, fileMustExist: true });
}

/** A connection that cannot write. */
export function connectForReading(path: string): Database.Database {
  return new Database(path, { timeout: BUSY_TIMEOUT_MS, fileMustExist: true, readonly: true });
}

/** @throws StorageError where the file system cannot hold a write-ahead log. */
function makeDurable(database: Database.Database, place: Place): void {
  if (database.pragma('journal_mode = WAL', { simple: true }) !== 'wal') {
    throw new StorageError(
      `The file system of the ${place.what} ${place.path} cannot hold a write-ahead log.`,
      {
        hint: 'Put it on a local disk; network file systems often lack shared memory.',
      },
    );
  }
  database.pragma('synchronous = FULL');
  database.pragma('foreign_keys = ON');
  database.pragma('trusted_schema = OFF');
  database.pragma(`journal_size_limit = ${MAX_KEPT_WAL_BYTES}`);
}

/**
 * The path that the damaged file has now. Its log and the index of that are there only while another process reads
 * it. The database goes first: where the process ends before its log has followed, SQLite discards the log, because
 * it stands beside a file that is empty.
 * @throws StorageError when `MAX_CORRUPT_COPIES` were set aside before.
 */
async function quarantine(path: string, now: Date): Promise<string> {
  const earlier = await corruptCopies(path);
  if (earlier.length >= MAX_CORRUPT_COPIES) {
    throw new StorageError(
      `The checkpoint ${path} is damaged again; ${earlier.length} damaged ones were set aside before it: ${earlier.join(', ')}.`,
      { hint: `Check the disk of ${dirname(path)}. Then remove these files and start again.` },
    );
  }
  const quarantined = `${path}.corrupt-${now.toISOString().replaceAll(/[-:]/g, '')}`;
  await renameFile('checkpoint.set-aside', path, quarantined);
  await tolerating('ENOENT', renameFile('checkpoint.set-aside-log', `${path}-wal`, `${quarantined}-wal`));
  await tolerating(
    'ENOENT',
    renameFile('checkpoint.set-aside-log-index', `${path}-shm`, `${quarantined}-shm`),
  );
  return quarantined;
}

async function corruptCopies(path: string): Promise<readonly string[]> {
  const prefix = `${basename(path)}.corrupt-`;
  const names = await readdir(dirname(path));
  return names
    .filter((name) => name.startsWith(prefix) && !/-(wal|shm)$/.test(name))
    .sort()
    .map((name) => join(dirname(path), name));
}
