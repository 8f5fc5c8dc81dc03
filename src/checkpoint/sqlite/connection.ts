/**
 * One connection to the file. Its invariant: what a transaction stored is on the disk when the call returns
 * (`synchronous=FULL`: the default of the library would let a power cut take back the last transactions).
 */

import Database from 'better-sqlite3';
import { StorageError } from '../../model/errors.ts';
import { BUSY_TIMEOUT_MS, MAX_KEPT_WAL_BYTES } from './limits.ts';
import { type Place, withTrouble } from './trouble.ts';

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
    read: (effect) => withTrouble(place, () => database.transaction(effect).deferred()),
    transaction: (effect) => withTrouble(place, () => database.transaction(effect).immediate()),
    othersStored: () => withTrouble(place, () => Number(database.pragma('data_version', { simple: true }))),
    close() {
      withTrouble(place, () => database.close());
    },
  };
}

/** A connection that can write, to a file that is there. Nothing is changed in the file yet. */
export function connectForWriting(path: string): Database.Database {
  return new Database(path, { timeout: BUSY_TIMEOUT_MS, fileMustExist: true });
}

/** A connection that cannot write. */
export function connectForReading(path: string): Database.Database {
  return new Database(path, { timeout: BUSY_TIMEOUT_MS, fileMustExist: true, readonly: true });
}

/** @throws StorageError where the file system cannot hold a write-ahead log. */
export function makeDurable(database: Database.Database, place: Place): void {
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
