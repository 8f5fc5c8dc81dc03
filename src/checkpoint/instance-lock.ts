/**
 * Invariant: at most one process works on a data directory. The lock is an open write transaction on a small SQLite file. The
 * system ends the transaction with the process, also after SIGKILL, and also in containers, where every process id is 1.
 *
 * A row names the holder for operators. It is committed before the lock is taken, because other processes read only committed
 * rows. No decision depends on the row, and it stays when the process is gone.
 *
 * A second row counts the processes in a row that did not release the lock: damaged files may end one after another.
 */

import { statSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import Database from 'better-sqlite3';
import { createFile, durable, makeDirectory } from '../lib/files.ts';
import { BusyError } from '../model/errors.ts';
import {
  codeOf,
  type Place,
  tolerating,
  withStorageErrors,
  withStorageErrorsAsync,
} from './sqlite/errors.ts';

/** Long enough for another process that only reads the holder, short enough for an immediate answer. */
const LOCK_WAIT_MS = 250;

/** How often two processes that start together may displace each other before one of them gives up. */
const MAX_TURNS = 20;

/** Keeps the databases from garbage collection, which would close them and release their locks. */
const isLocked = new Set<Database.Database>();

export function instanceLockPath(dataDirectory: string): string {
  return join(dataDirectory, 'lock.sqlite');
}

export interface InstanceHolder {
  readonly pid: number;
  readonly host: string;
  readonly startedAt: Date;
  /** The command that the process runs: `once`. */
  readonly command: string;
}

/** Names a process for people, as the lease of a database does. */
export function holderName({ command, pid, host }: Pick<InstanceHolder, 'command' | 'pid' | 'host'>): string {
  return `feed-sync ${command}, process ${pid} on ${host}`;
}

export interface InstanceLock {
  readonly suspicion: Suspicion;
  /** Has the next process find that these stores are suspect; before the first call those are that this one has found so. */
  suspect(suspicion: Suspicion): void;
  /** May be called more than once. */
  release(): void;
}

/** Which stores a process examines before it uses them. */
export interface Suspicion {
  /** Processes ended one after another while they held the lock, or one that read the mirror did. */
  readonly mirror: boolean;
  readonly copy: boolean;
}

/** One process may end for any reason: a second one has done so, too. */
const SUSPECT_DEATHS = 2;

interface InstanceLockOptions {
  /** The lock file. Its folder is created where it is missing. */
  readonly path: string;
  /** The user id of this process, for messages; null where the system has none. */
  readonly uid: number | null;
  readonly holder: InstanceHolder;
}

/**
 * Takes the lock, or fails within a fraction of a second.
 * @throws BusyError when another process holds it, naming that process.
 * @throws StorageError when the file cannot be created or written.
 */
export async function acquireInstanceLock(options: InstanceLockOptions): Promise<InstanceLock> {
  const place = placeOf(options);
  return withStorageErrorsAsync(place, async () => {
    await makeDirectory('checkpoint.make-lock-directory', dirname(place.path));
    await tolerating('EEXIST', createFile('checkpoint.create-lock', place.path, ''));
    const database = new Database(place.path, { timeout: LOCK_WAIT_MS, fileMustExist: true });
    let suspicion: Suspicion;
    try {
      suspicion = take(database, place, options.holder);
    } catch (error) {
      database.close();
      throw error;
    }
    isLocked.add(database);
    let left = suspicion;
    return {
      suspicion,
      suspect(found) {
        left = found;
      },
      release() {
        if (!isLocked.delete(database)) return;
        endOrderly(database, left);
        database.close();
      },
    };
  });
}

/**
 * Has the next process find that stores are suspect. Returns false where a process holds the lock: it finds out by itself.
 * @throws StorageError
 */
export function suspectStores(
  options: Pick<InstanceLockOptions, 'path' | 'uid'>,
  suspicion: Suspicion,
): boolean {
  const place = placeOf(options);
  return withStorageErrors(place, () => {
    const database = new Database(place.path, { timeout: LOCK_WAIT_MS });
    try {
      if (!begin(database)) return false;
      endOrderly(database, suspicion);
      return true;
    } finally {
      database.close();
    }
  });
}

/** Without this commit the next process only counts one death more, so that a failure of it is none. */
function endOrderly(database: Database.Database, { mirror, copy }: Suspicion): void {
  try {
    database.exec(CREATE_SUSPICION);
    database
      .prepare<[number, number]>('UPDATE suspicion SET deaths = ?, is_copy_suspect = ?')
      .run(mirror ? SUSPECT_DEATHS : 0, copy ? 1 : 0);
    durable('checkpoint.release-lock', () => database.exec('COMMIT'));
  } catch {}
}

const CREATE_SUSPICION = `
  CREATE TABLE IF NOT EXISTS suspicion (deaths INTEGER NOT NULL, is_copy_suspect INTEGER NOT NULL) STRICT;
  INSERT INTO suspicion SELECT 0, 0 WHERE NOT EXISTS (SELECT 1 FROM suspicion);`;

/** Counts this process as one that ended, until it releases the lock. Returns what those before have left. */
function countDeath(database: Database.Database): Suspicion {
  type Row = { readonly deaths: number; readonly isCopySuspect: number };
  database.exec(CREATE_SUSPICION);
  const { deaths = 0, isCopySuspect = 0 } =
    database.prepare<[], Row>('SELECT deaths, is_copy_suspect AS isCopySuspect FROM suspicion').get() ?? {};
  database.exec('UPDATE suspicion SET deaths = deaths + 1');
  const mirror = deaths >= SUSPECT_DEATHS;
  return { mirror, copy: mirror || isCopySuspect > 0 };
}

/** Returns whether a process holds the lock, and the process that the row names. No other process is disturbed. */
export function readInstanceLock(options: Pick<InstanceLockOptions, 'path' | 'uid'>): {
  readonly isLocked: boolean;
  readonly holder: InstanceHolder | null;
} {
  const place = placeOf(options);
  return withStorageErrors(place, () => {
    if (statSync(place.path, { throwIfNoEntry: false }) === undefined)
      return { isLocked: false, holder: null };
    const database = new Database(place.path, { timeout: LOCK_WAIT_MS, fileMustExist: true });
    try {
      database.pragma('busy_timeout = 0');
      if (begin(database)) return { isLocked: false, holder: null };
      database.pragma(`busy_timeout = ${LOCK_WAIT_MS}`);
      return { isLocked: true, holder: readHolder(database) };
    } finally {
      database.close();
    }
  });
}

/**
 * Another process can write its own row between the commit of this row and the transaction that stays open. So the row is read
 * again under the lock, and the turn is repeated where the row belongs to another process.
 */
function take(database: Database.Database, place: Place, holder: InstanceHolder): Suspicion {
  let suspicion: Suspicion | null = null;
  for (let turn = 1; turn <= MAX_TURNS; turn += 1) {
    if (!begin(database)) break;
    suspicion ??= countDeath(database);
    const token = writeHolder(database, holder);
    if (!begin(database)) break;
    if (readToken(database) === token) return suspicion;
    database.exec('ROLLBACK');
  }
  throw heldByAnother(readHolder(database), place);
}

/** Returns false where another process is in a write transaction. Others can still read. */
function begin(database: Database.Database): boolean {
  try {
    database.exec('BEGIN IMMEDIATE');
    return true;
  } catch (error) {
    if (codeOf(error) === 'SQLITE_BUSY') return false;
    throw error;
  }
}

/** Ends the transaction. The token distinguishes this row from any other, also from that of a process with the same id. */
function writeHolder(database: Database.Database, { pid, host, startedAt, command }: InstanceHolder): string {
  database.exec(`
    CREATE TABLE IF NOT EXISTS holder (
      token TEXT NOT NULL, pid INTEGER NOT NULL, host TEXT NOT NULL, started_at TEXT NOT NULL, command TEXT NOT NULL
    ) STRICT;
    DELETE FROM holder;`);
  const token = database
    .prepare<[number, string, string, string], string>(
      'INSERT INTO holder VALUES (hex(randomblob(16)), ?, ?, ?, ?) RETURNING token',
    )
    .pluck()
    .all(pid, host, startedAt.toISOString(), command)
    .join();
  durable('checkpoint.write-lock-holder', () => database.exec('COMMIT'));
  return token;
}

function readToken(database: Database.Database): string | undefined {
  return database.prepare<[], string>('SELECT token FROM holder').pluck().get();
}

/** Returns null while the other process is just starting. */
function readHolder(database: Database.Database): InstanceHolder | null {
  type Row = Omit<InstanceHolder, 'startedAt'> & { readonly startedAt: string };
  try {
    const row = database
      .prepare<[], Row>('SELECT pid, host, started_at AS startedAt, command FROM holder')
      .get();
    return row === undefined ? null : { ...row, startedAt: new Date(row.startedAt) };
  } catch (error) {
    const code = codeOf(error);
    if (code === 'SQLITE_ERROR' || code === 'SQLITE_BUSY') return null;
    throw error;
  }
}

function heldByAnother(holder: InstanceHolder | null, { path }: Place): BusyError {
  const who =
    holder === null
      ? 'a process that is just starting'
      : `process ${holder.pid} on ${holder.host}, \`${holder.command}\`, since ${holder.startedAt.toISOString()}`;
  return new BusyError(`Another feed-sync works on this data directory: ${who} (lock ${path}).`, {
    code: 'instance_running',
    hint: 'Wait until it ends, stop it, or set another dataDir. `status` and `query` work beside it.',
  });
}

function placeOf({ path, uid }: Pick<InstanceLockOptions, 'path' | 'uid'>): Place {
  const ifDamaged = `Make sure that no other feed-sync works on ${dirname(resolve(path))}, then remove the file.`;
  return { what: 'instance lock', path: resolve(path), uid, ifDamaged };
}
