/**
 * Opens the checkpoint. Invariant: every checkpoint that is returned is a sound file of the current format that belongs to
 * feed-sync. A damaged file is quarantined and replaced; the file of another or a newer program is never touched.
 */

import { existsSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import Database from 'better-sqlite3';
import type { Clock } from '../../lib/clock.ts';
import { createFile, makeDirectory, pipeAmong } from '../../lib/files.ts';
import type { Log } from '../../lib/log.ts';
import { quarantine, type StoreFile } from '../../lib/quarantine.ts';
import { ConfigurationError, StorageError } from '../../model/errors.ts';
import type { Checkpoint, CheckpointReader } from '../checkpoint.ts';
import { codeOf, type Place, tolerating, withStorageErrors, withStorageErrorsAsync } from './errors.ts';
import { CURRENT_FORMAT, migrate, usableFormat } from './format.ts';
import { allOperations, readingOperations, type Tables, tablesOf } from './operations.ts';

/** How long a call waits for another process that writes. The call blocks, so the time is short. */
const BUSY_TIMEOUT_MS = 5_000;

/** Rows of the list of commits that are read as the checkpoint is opened: more than anybody is shown. */
const READ_SYNC_RUNS = 100;

/** SQLite truncates the write-ahead log to this size after it has copied the log into the file. */
const MAX_KEPT_WAL_BYTES = 16_000_000;

interface CheckpointOptions {
  /** The file. Its folder is created where it is missing. */
  readonly path: string;
  /** The user id of this process, for messages; null where the system has none. */
  readonly uid: number | null;
  readonly clock: Clock;
  readonly log: Log;
}

/**
 * Opens the checkpoint for the process that holds the instance lock; only that process may quarantine a damaged file.
 * @throws StorageError when the file cannot be created, read or written, or is damaged time and again.
 * @throws ConfigurationError when the file is no checkpoint, or has a format that this program cannot read.
 * @throws BusyError when another process of feed-sync keeps the file locked.
 */
export async function openCheckpoint(options: CheckpointOptions): Promise<Checkpoint> {
  const place = placeOf(options);
  const { path } = place;
  return withStorageErrorsAsync(place, async () => {
    await makeDirectory('checkpoint.make-directory', dirname(path));
    for (;;) {
      // SQLite would create a file that others can read. An existing file is not opened here: closing it drops its locks.
      await tolerating('EEXIST', createFile('checkpoint.create', path, ''));
      const checkpoint = openSound(place, options.clock);
      if (checkpoint !== null) return checkpoint;
      const quarantined = await quarantine(path, FILES, options.clock.now(), (earlier) =>
        damagedAgain(path, earlier),
      );
      options.log.error(
        { path, quarantinedAs: quarantined },
        'The checkpoint is damaged. It was quarantined and is built anew from the service and the mirror.',
      );
    }
  });
}

/**
 * Opens the checkpoint for a command that works beside the instance. The command can change what is stored. It never
 * creates, migrates or repairs the file, because the instance may be using it. Returns null where there is no checkpoint.
 * @throws StorageError, ConfigurationError, BusyError as `openCheckpoint` does, also for a damaged or older file.
 */
export function openCheckpointBeside(options: Omit<CheckpointOptions, 'log'>): Checkpoint | null {
  const place = placeOf(options);
  return usingExisting(place, connectForWriting, (database) => {
    makeDurable(database, place);
    return writing(database, place, options.clock, tablesOf(database));
  });
}

/**
 * Opens the checkpoint for reading at one point in time, that of the first call; the caller closes it soon. Returns null
 * where there is no checkpoint.
 * @throws StorageError, ConfigurationError, BusyError as `openCheckpoint` does, also for an older file.
 */
export function openCheckpointReader(
  options: Pick<CheckpointOptions, 'path' | 'uid'>,
): CheckpointReader | null {
  const place = placeOf(options);
  return usingExisting(place, connectForReading, (database) => {
    database.exec('BEGIN');
    return readingOperations(database, place);
  });
}

/** Returns what `use` makes of an existing checkpoint of the current format, or null where there is none. */
function usingExisting<T>(
  place: Place,
  connect: (path: string) => Database.Database,
  use: (database: Database.Database) => T,
): T | null {
  const { path } = place;
  return withStorageErrors(place, () => {
    if (!existsSync(path)) return null;
    return closingOnError(connect(path), (database) => {
      const format = usableFormat(database, path);
      if (format === null) {
        database.close();
        return null;
      }
      refuseOlder(format, path);
      return refusingOtherTables(() => use(database));
    });
  });
}

/** The statements that are prepared name every table and column of the format. @throws SqliteError */
function refusingOtherTables<T>(prepare: () => T): T {
  try {
    return prepare();
  } catch (error) {
    if (!isDamage(error)) throw error;
    throw new Database.SqliteError(error.message, 'SQLITE_CORRUPT');
  }
}

function placeOf({ path, uid }: Pick<CheckpointOptions, 'path' | 'uid'>): Place {
  const ifDamaged = 'Start feed-sync again: it quarantines a damaged checkpoint and builds it anew.';
  return { what: 'checkpoint', path: resolve(path), uid, ifDamaged };
}

/** Returns null where the file is damaged. */
function openSound(place: Place, clock: Clock): Checkpoint | null {
  try {
    return closingOnError(connectForWriting(place.path), (database) => {
      usableFormat(database, place.path);
      refuseDamage(database);
      migrate(database);
      const tables = tablesOf(database);
      readWhole(tables);
      makeDurable(database, place);
      return writing(database, place, clock, tables);
    });
  } catch (error) {
    if (isDamage(error)) return null;
    throw error;
  }
}

/** A file that lacks a table or a column of its format is damaged, too: SQLite reports it as `SQLITE_ERROR`. */
function isDamage(error: unknown): error is Error {
  const thrown = error instanceof StorageError ? error.cause : error;
  return ['SQLITE_CORRUPT', 'SQLITE_NOTADB', 'SQLITE_ERROR'].includes(codeOf(thrown) ?? '');
}

/** Reads what SQLite does not check: times and JSON in texts. Whoever met them later could not make the file anew. */
function readWhole(tables: Tables): void {
  tables.contract.get();
  tables.subscriptions.all();
  tables.polls.all();
  tables.desiredStates.all();
  tables.absences.all();
  tables.mentions.all();
  tables.forgotten.all();
  tables.suspensions.all();
  tables.candidates.all();
  tables.failures.all();
  tables.webhooks.all();
  tables.hook.get();
  tables.scrub.get();
  tables.syncRuns.newest(READ_SYNC_RUNS);
  tables.requests.all();
}

function refuseDamage(database: Database.Database): void {
  const finding = database.pragma('quick_check(1)', { simple: true });
  if (finding !== 'ok') throw new Database.SqliteError(String(finding), 'SQLITE_CORRUPT');
}

function refuseOlder(format: number, path: string): void {
  if (format === CURRENT_FORMAT) return;
  throw new ConfigurationError(
    `The checkpoint ${path} was written by an older version: format ${format}, now ${CURRENT_FORMAT}.`,
    { hint: 'Start `feed-sync once` or `feed-sync run`: it brings the file to the current format.' },
  );
}

export type InspectedCheckpoint =
  | { readonly kind: 'none' }
  | { readonly kind: 'damaged'; readonly finding: string }
  /** SQLite cannot read the write-ahead log without a right that this process lacks. */
  | { readonly kind: 'unreadable'; readonly reason: string }
  | { readonly kind: 'older'; readonly format: number }
  /** The caller closes `content`. */
  | { readonly kind: 'sound'; readonly content: CheckpointReader };

/**
 * Reads a checkpoint in any state, for `doctor`. The file is not changed, and a process that uses it is not disturbed.
 * @throws StorageError, ConfigurationError, BusyError as `openCheckpoint` does.
 */
export function inspectCheckpoint(options: Pick<CheckpointOptions, 'path' | 'uid'>): InspectedCheckpoint {
  const place = placeOf(options);
  return withStorageErrors(place, () => {
    if (!existsSync(place.path)) return { kind: 'none' };
    try {
      return closingOnError(connectForReading(place.path), (database) => inspect(database, place));
    } catch (error) {
      if (isDamage(error)) return { kind: 'damaged', finding: error.message };
      const isUnreadable = ['SQLITE_CANTOPEN', 'SQLITE_READONLY'].includes(codeOf(error) ?? '');
      if (!isUnreadable || !(error instanceof Error)) throw error;
      return { kind: 'unreadable', reason: error.message };
    }
  });
}

function inspect(database: Database.Database, place: Place): InspectedCheckpoint {
  database.exec('BEGIN');
  const format = usableFormat(database, place.path);
  if (format !== null) refuseDamage(database);
  if (format === CURRENT_FORMAT) {
    return { kind: 'sound', content: readingOperations(database, place) };
  }
  database.close();
  return format === null ? { kind: 'none' } : { kind: 'older', format };
}

/**
 * Returns a copy in memory that can be changed, of the current format, for a simulated catch-up. The copy is empty where
 * there is no checkpoint or a damaged one, because the next start would build it anew.
 * @throws StorageError, ConfigurationError, BusyError as `openCheckpoint` does.
 */
export function openCheckpointCopy(options: CheckpointOptions): Checkpoint {
  const place = placeOf(options);
  return withStorageErrors(place, () => {
    if (!existsSync(place.path)) return inMemory(place, options.clock);
    try {
      return inMemory(place, options.clock, (copy) => copyFile(place.path, copy));
    } catch (error) {
      if (!isDamage(error)) throw error;
      options.log.warn(
        { path: place.path },
        'The checkpoint is damaged: it will be quarantined and built anew.',
      );
      return inMemory(place, options.clock);
    }
  });
}

function inMemory(
  place: Place,
  clock: Clock,
  fill: (database: Database.Database) => void = () => {},
): Checkpoint {
  return closingOnError(new Database(':memory:'), (database) => {
    fill(database);
    migrate(database);
    const tables = tablesOf(database);
    readWhole(tables);
    return allOperations(database, place, clock, () => database.close(), tables);
  });
}

/** Copies all tables at one point in time, or none. */
function copyFile(path: string, copy: Database.Database): void {
  const source = connectForReading(path);
  try {
    source.exec('BEGIN');
    if (usableFormat(source, path) === null) return;
    refuseDamage(source);
    refuseImpossible(() => copy.transaction(() => copyTables(source, copy))());
  } finally {
    source.close();
  }
}

function copyTables(source: Database.Database, copy: Database.Database): void {
  // A table whose text is damaged is missed as soon as the copy is read.
  const tables = source.prepare<[], { name: string; sql: string }>(
    "SELECT name, sql FROM sqlite_schema WHERE type = 'table' AND typeof(sql) = 'text'",
  );
  copy.pragma('defer_foreign_keys = ON');
  for (const { name, sql } of tables.all()) {
    copy.exec(sql);
    const rows = source.prepare<[], unknown[]>(`SELECT * FROM ${name}`).raw().safeIntegers();
    const insert = copy.prepare(`INSERT INTO ${name} VALUES (${rows.columns().map(() => '?')})`);
    for (const row of rows.iterate()) insert.run(row);
  }
  for (const pragma of ['application_id', 'user_version']) {
    copy.pragma(`${pragma} = ${source.pragma(pragma, { simple: true })}`);
  }
}

/** Rows that their own tables refuse were never written there: they lie in pages of other ones. */
function refuseImpossible(copyRows: () => void): void {
  try {
    copyRows();
  } catch (error) {
    if (error instanceof Error && codeOf(error) === 'SQLITE_CONSTRAINT')
      throw new Database.SqliteError(error.message, 'SQLITE_CORRUPT');
    throw error;
  }
}

export function sqliteVersion(): string {
  const database = new Database(':memory:');
  try {
    return database.prepare<[], string>('SELECT sqlite_version()').pluck().get() ?? '';
  } finally {
    database.close();
  }
}

/** Closes the database where `use` throws. */
function closingOnError<T>(database: Database.Database, use: (database: Database.Database) => T): T {
  try {
    return use(database);
  } catch (error) {
    database.close();
    throw error;
  }
}

function writing(database: Database.Database, place: Place, clock: Clock, tables: Tables): Checkpoint {
  const close = (): void => {
    if (database.open) leaveWithoutLog(database);
    database.close();
  };
  return allOperations(database, place, clock, close, tables);
}

/** Connects to an existing file. Connecting changes nothing in it yet. */
function connectForWriting(path: string): Database.Database {
  refusePipes(path);
  return new Database(path, { timeout: BUSY_TIMEOUT_MS, fileMustExist: true });
}

/**
 * Connects to an existing file and changes nothing. Beside a log that a killed process left, only a connection that is
 * read-only for SQLite leaves the log as it is; beside none, only a connection that may write leaves none behind.
 */
function connectForReading(path: string): Database.Database {
  refusePipes(path);
  const readonly = ['-wal', '-journal'].some((suffix) => existsSync(`${path}${suffix}`));
  const database = new Database(path, { timeout: BUSY_TIMEOUT_MS, fileMustExist: true, readonly });
  database.pragma('query_only = ON');
  return database;
}

/** @throws StorageError where a named pipe lies in the place of a file of SQLite's. */
function refusePipes(path: string): void {
  const pipe = pipeAmong(['', '-wal', '-shm', '-journal'].map((suffix) => `${path}${suffix}`));
  if (pipe === null) return;
  throw new StorageError(`The checkpoint ${path} cannot be opened: ${pipe} is a named pipe.`, {
    hint: 'Move the pipe away.',
  });
}

/**
 * Makes the closed checkpoint a single file that can be read without creating a log beside it. SQLite refuses while another
 * connection is open, which then does it, and where the disk is full. The checkpoint is sound with a log, too.
 */
function leaveWithoutLog(database: Database.Database): void {
  try {
    database.pragma('busy_timeout = 0');
    database.pragma('journal_mode = DELETE');
  } catch (error) {
    if (!(error instanceof Database.SqliteError)) throw error;
  }
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
 * A log and its index exist only while another process reads the file. The database is renamed first: where the process dies before
 * the log has followed, SQLite finds the log beside an empty file and discards it.
 */
const FILES: readonly StoreFile[] = [
  { suffix: '', effect: 'checkpoint.quarantine' },
  { suffix: '-wal', effect: 'checkpoint.quarantine-log' },
  { suffix: '-shm', effect: 'checkpoint.quarantine-log-index' },
];

/** The error where a checkpoint is damaged time and again. */
function damagedAgain(path: string, earlier: readonly string[]): StorageError {
  const files = earlier.join(', ');
  return new StorageError(
    `The checkpoint ${path} is damaged again; ${earlier.length} damaged ones were quarantined before it: ${files}.`,
    { hint: `Check the disk of ${dirname(path)}. Then remove these files and start again.` },
  );
}
