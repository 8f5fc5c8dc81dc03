/**
 * Looks at a checkpoint whatever state it is in, for `doctor`. Everything is done on a copy in memory: nothing is
 * made, migrated, repaired or left behind, and whoever works on the file is not disturbed.
 */

import { readFileSync, statSync } from 'node:fs';
import Database from 'better-sqlite3';
import type { Checkpoint, CheckpointReader } from '../checkpoint.ts';
import { type Place, withStorageErrors } from './errors.ts';
import { CURRENT_FORMAT, identityOf, migrate } from './migrations.ts';
import {
  type CheckpointOptions,
  closingOnError,
  connectForReading,
  connection,
  isDamage,
  placeOf,
  refuseDamage,
  refuseForeignAndNewer,
} from './open.ts';
import { allOperations, readingOperations, tablesOf } from './operations.ts';

/** A larger file is not copied. Ten thousand datasets take a tenth of it. */
export const MAX_INSPECTED_BYTES = 256_000_000;

export type InspectedCheckpoint =
  | { readonly kind: 'absent' }
  /** Made, and nothing stored in it yet. */
  | { readonly kind: 'empty' }
  | { readonly kind: 'too-large'; readonly bytes: number }
  | { readonly kind: 'damaged'; readonly bytes: number; readonly finding: string }
  /** Somebody else's SQLite database. */
  | { readonly kind: 'foreign'; readonly bytes: number }
  /** Of a newer program. */
  | { readonly kind: 'newer'; readonly bytes: number; readonly format: number }
  /** `content` is to be closed. `format` is that of the file. */
  | {
      readonly kind: 'sound';
      readonly bytes: number;
      readonly format: number;
      readonly content: CheckpointReader;
    };

/** The format that this program writes. */
export const CHECKPOINT_FORMAT = CURRENT_FORMAT;

/** @throws StorageError where the file cannot be read; BusyError where another process keeps it locked. */
export function inspectCheckpoint(options: Pick<CheckpointOptions, 'path' | 'uid'>): InspectedCheckpoint {
  const place = placeOf(options);
  return withStorageErrors(place, () => {
    const stats = statSync(place.path, { throwIfNoEntry: false });
    if (stats === undefined) return { kind: 'absent' };
    if (stats.size > MAX_INSPECTED_BYTES) return { kind: 'too-large', bytes: stats.size };
    return inspectFile(place);
  });
}

/** What `sqlite_version()` says. */
export function sqliteVersion(): string {
  const database = new Database(':memory:');
  try {
    return database.prepare<[], string>('SELECT sqlite_version()').pluck().get() ?? '';
  } finally {
    database.close();
  }
}

function inspectFile(place: Place): InspectedCheckpoint {
  let bytes = 0;
  try {
    const image = imageOf(place.path);
    if (image === null) return { kind: 'empty' };
    bytes = image.length;
    return inspectCopy(new Database(image), bytes, place);
  } catch (error) {
    if (!isDamage(error)) throw error;
    return { kind: 'damaged', bytes, finding: error instanceof Error ? error.message : String(error) };
  }
}

function inspectCopy(database: Database.Database, bytes: number, place: Place): InspectedCheckpoint {
  let isKept = false;
  try {
    const identity = identityOf(database);
    if (identity.kind === 'empty') return { kind: 'empty' };
    if (identity.kind === 'foreign') return { kind: 'foreign', bytes };
    const { format } = identity;
    if (format > CURRENT_FORMAT) return { kind: 'newer', bytes, format };
    refuseDamage(database);
    migrate(database);
    const copy = connection(database, place);
    const content = readingOperations(copy, tablesOf(copy));
    isKept = true;
    return { kind: 'sound', bytes, format, content };
  } finally {
    if (!isKept) database.close();
  }
}

/** Where a file says how it is written and read: in both places 1 is without a write-ahead log. */
const WRITE_VERSION_AT = 18;
const READ_VERSION_AT = 19;
const WITHOUT_LOG = 1;

/** The bytes of the file with what its write-ahead log holds; null where it is missing or empty. */
function imageOf(path: string): Buffer | null {
  const before = statSync(path, { throwIfNoEntry: false });
  if (before === undefined || before.size === 0) return null;
  const alone = hasLog(path) ? null : readFileSync(path);
  // Whoever opened it meanwhile may have written between two parts of what was read.
  const isWhole = alone !== null && !hasLog(path) && statSync(path).mtimeMs === before.mtimeMs;
  return withoutLog(isWhole ? alone : imageBesideOthers(path));
}

function hasLog(path: string): boolean {
  return statSync(`${path}-wal`, { throwIfNoEntry: false }) !== undefined;
}

function imageBesideOthers(path: string): Buffer {
  const database = connectForReading(path);
  try {
    return database.serialize();
  } finally {
    database.close();
  }
}

/** What is in memory cannot have a log, so a copy that says it has one could not be opened. */
function withoutLog(image: Buffer): Buffer | null {
  if (image.length === 0) return null;
  if (image.length > READ_VERSION_AT) {
    image[WRITE_VERSION_AT] = WITHOUT_LOG;
    image[READ_VERSION_AT] = WITHOUT_LOG;
  }
  return image;
}

/**
 * What is stored now, brought to the current format; empty where there is no checkpoint, or a damaged one, which the
 * next start builds anew as well.
 * @throws StorageError, ConfigurationError, BusyError as `openCheckpoint` does.
 */
export function openCheckpointCopy(options: CheckpointOptions): Checkpoint {
  const place = placeOf(options);
  return withStorageErrors(place, () => {
    try {
      return copyOf(imageOf(place.path), place, options);
    } catch (error) {
      if (!isDamage(error)) throw error;
      options.log.warn(
        { path: place.path },
        'The checkpoint is damaged: it will be set aside and built anew.',
      );
      return copyOf(null, place, options);
    }
  });
}

function copyOf(image: Buffer | null, place: Place, { clock }: CheckpointOptions): Checkpoint {
  return closingOnError(new Database(image ?? ':memory:'), (database) => {
    refuseForeignAndNewer(identityOf(database), place.path);
    database.pragma('foreign_keys = ON');
    refuseDamage(database);
    migrate(database);
    const copy = connection(database, place);
    return allOperations(copy, tablesOf(copy), clock);
  });
}
