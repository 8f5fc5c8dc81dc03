/**
 * Looks at a checkpoint whatever state it is in, for `doctor`. Everything is done on a copy in memory: nothing is
 * made, migrated, repaired or left behind, and whoever works on the file is not disturbed.
 */

import { statSync } from 'node:fs';
import Database from 'better-sqlite3';
import type { CheckpointReader } from '../checkpoint.ts';
import { connection } from './connection.ts';
import { imageOf } from './image.ts';
import { CURRENT_FORMAT, identityOf, migrate } from './migrations.ts';
import { type CheckpointOptions, isDamage, placeOf, refuseDamage } from './open.ts';
import { readingOperations, tablesOf } from './operations.ts';
import { type Place, withTrouble } from './trouble.ts';

/** A larger file is not copied. Ten thousand datasets take a tenth of it. */
export const MAX_EXAMINED_BYTES = 256_000_000;

export type ExaminedCheckpoint =
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
export function examineCheckpoint(options: Pick<CheckpointOptions, 'path' | 'uid'>): ExaminedCheckpoint {
  const place = placeOf(options);
  return withTrouble(place, () => {
    const stats = statSync(place.path, { throwIfNoEntry: false });
    if (stats === undefined) return { kind: 'absent' };
    if (stats.size > MAX_EXAMINED_BYTES) return { kind: 'too-large', bytes: stats.size };
    return examineFile(place);
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

function examineFile(place: Place): ExaminedCheckpoint {
  let bytes = 0;
  try {
    const image = imageOf(place.path);
    if (image === null) return { kind: 'empty' };
    bytes = image.length;
    return examineCopy(new Database(image), bytes, place);
  } catch (error) {
    if (!isDamage(error)) throw error;
    return { kind: 'damaged', bytes, finding: error instanceof Error ? error.message : String(error) };
  }
}

function examineCopy(database: Database.Database, bytes: number, place: Place): ExaminedCheckpoint {
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
